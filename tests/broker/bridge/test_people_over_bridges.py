"""A smallest `people` and a bridge: base sets cross it; among those of this broker it is nobody."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nearcast.broker.config.settings import BridgeSection
from tests.broker.bridge.bridge_parts import Bridged, Client
from tests.support.clients.talker import Talker
from tests.support.ruled_broker import broker_with, user
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until

RULES = """
default = "allow"
[[people]]
topics = ["spot/#"]
least = 2
every = 86400
wait = 200000
"""


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.fixture
def there(tmp_path: Path, ends: ExitStack) -> RunningBroker:
    """A broker whose rules ask for a smallest `people`."""
    (tmp_path / "there").mkdir()
    found = broker_with(tmp_path / "there", RULES)
    ends.callback(found.stop)
    return found


@pytest.fixture
def here(tmp_path: Path, there: RunningBroker, ends: ExitStack) -> Bridged:
    """A broker beside it, bridged to it."""
    section = BridgeSection(url=f"mqtt://127.0.0.1:{there.port}", name="there")
    found = Bridged(tmp_path / "here", section).wait_until_online()
    ends.callback(found.stop)
    return found


def waiting(running: RunningBroker) -> int:
    return sum(len(pool.events) for pool in running.server.hub.state.engine.in_force().hidden)


def test_whoever_speaks_over_a_bridge_and_here_is_not_two_people(
    here: Bridged, there: RunningBroker, ends: ExitStack
) -> None:
    reader, root, warden = Talker(there), user(there, "root"), user(there, "warden")
    reader.wants("spot/#")
    same = Client(here.port, "the-same")
    ends.callback(same.stop)
    same.publish("spot/1", "{}")
    root.says("spot/1", b"{}")
    until(lambda: waiting(there) == 2, "what came over the bridge waits too")
    there.later(86_400.0)
    assert reader.gets() == []
    warden.says("spot/1", b"{}")
    there.later(86_400.0)
    (payload,) = map(json.loads, reader.payloads())
    assert (payload["people"], payload["count"]) == (2, 3)


def test_a_base_set_crosses_a_bridge_as_one_message_and_single_events_do_not(
    here: Bridged, there: RunningBroker, ends: ExitStack
) -> None:
    reader = Client(here.port, "reader")
    ends.callback(reader.stop)
    reader.subscribe("#")
    for name in ("root", "warden"):
        user(there, name).says("spot/1", b'{"x": 1}')
    user(there, "root").says("end", b"end")
    assert reader.texts("end") == []
    there.later(86_400.0)
    message = reader.next()
    payload = json.loads(message.payload)
    assert (message.topic, payload["people"], payload["count"]) == ("spot/1", 2, 2)
    assert here.figure("refused_total") == 0.0
