"""All fuzz targets, by name."""

from typing import Any

from tests.fuzz.area_target import AreaTarget
from tests.fuzz.beacon_target import BeaconTarget
from tests.fuzz.context_target import ContextTarget
from tests.fuzz.control_target import ControlTarget
from tests.fuzz.filter_target import FilterJsonTarget, FilterTextTarget
from tests.fuzz.handover_target import HandoverTarget
from tests.fuzz.log_target import LogFilesTarget, LogRowsTarget
from tests.fuzz.place_target import PlaceTarget
from tests.fuzz.policy_target import PolicyTarget
from tests.fuzz.session_target import SessionTarget
from tests.fuzz.web_socket_target import WebSocketTarget
from tests.support.fuzzing.fuzz_target import FuzzTarget

_ALL: tuple[FuzzTarget[Any], ...] = (
    AreaTarget(),
    FilterTextTarget(),
    FilterJsonTarget(),
    ContextTarget(),
    PlaceTarget(),
    PolicyTarget(),
    SessionTarget(),
    LogFilesTarget(),
    LogRowsTarget(),
    HandoverTarget(),
    ControlTarget(),
    WebSocketTarget(),
    BeaconTarget(),
)
TARGETS = {target.name: target for target in _ALL}
