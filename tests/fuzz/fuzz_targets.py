"""All fuzz targets, by name."""

from typing import Any

from tests.fuzz.area_target import AreaTarget
from tests.support.fuzzing.fuzz_target import FuzzTarget

TARGETS: dict[str, FuzzTarget[Any]] = {target.name: target for target in (AreaTarget(),)}
