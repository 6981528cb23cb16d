"""What is known of a node that has been gone for long is dropped, by a recorded input."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.config.settings import Limits, Settings, SituationSection
from nearcast.core.engine.engine import Engine
from nearcast.core.model.context import NodeState
from nearcast.store import input_of, is_input
from nearcast.wire.mqtt import ReasonCode
from tests.support.clients.talker import Talker
from tests.support.logs.broker_log import count_rows, read_log
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until

TTL_S = 5_000.0
SETTINGS = Settings(
    situation=SituationSection(node_ttl_s=TTL_S), limits=Limits(nodes=4, context_bytes=100)
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = RunningBroker(SETTINGS, tmp_path)
    yield running
    running.stop()


def known(broker: RunningBroker) -> set[str]:
    async def names() -> set[str]:
        return set(broker.server.hub.engine.nodes)

    return broker.run(names())


def gone(broker: RunningBroker, name: str) -> Talker:
    """A node that said where and what it is, and left."""
    talker = Talker(broker, name)
    assert talker.moves(53.3, -6.2) == ReasonCode.SUCCESS
    talker.is_now(role="bus")
    broker.lose(talker.client)
    return talker


def replayed(data: Path) -> dict[str, NodeState]:
    """The nodes of an engine that plays the log."""
    engine = Engine()
    for row in read_log(data):
        if is_input(row.kind):
            engine.play([input_of(row)], [row.ingested], again=True)
    return dict(engine.nodes)


def test_an_idle_node_expires_and_others_stay(tmp_path: Path) -> None:
    broker = RunningBroker(SETTINGS, tmp_path)
    gone(broker, "idle")
    live = Talker(broker, "live")
    live.moves(53.3, -6.2)
    live.says("news", b"{}", valid="1000000")
    broker.lose(live.client)
    watcher = Talker(broker, "watcher")
    watcher.moves(53.3, -6.2)
    watcher.sends("$area/here", b'{"area": "circle:53.3,-6.2,100"}')
    broker.lose(watcher.client)
    lasting = Talker(broker, "lasting", expiry=1_000_000)
    lasting.moves(53.3, -6.2)
    broker.lose(lasting.client)
    assert known(broker) == {"idle", "live", "watcher", "lasting"}

    broker.later(TTL_S / 2)
    broker.later(TTL_S / 2 + 10.0)
    until(lambda: known(broker) == {"live", "watcher", "lasting"}, "the node is dropped")
    broker.validate()
    broker.stop()
    assert count_rows(tmp_path, "expired") == 1

    again = RunningBroker(SETTINGS, tmp_path)
    assert known(again) == {"live", "watcher", "lasting"}
    again.validate()
    again.stop()
    assert set(replayed(tmp_path)) == {"live", "watcher", "lasting"}


def test_the_node_that_was_idle_for_longest_makes_room(broker: RunningBroker) -> None:
    for name in ("a", "b", "c"):
        gone(broker, name)
        broker.later(10.0)
    stays = Talker(broker, "stays")
    stays.moves(53.3, -6.2)
    new = Talker(broker, "new")
    assert new.moves(53.3, -6.2) == ReasonCode.SUCCESS
    assert known(broker) == {"b", "c", "stays", "new"}
    broker.validate()


def test_a_node_is_refused_if_none_can_make_room(broker: RunningBroker) -> None:
    here = [Talker(broker, name) for name in "abcd"]
    for talker in here:
        talker.moves(53.3, -6.2)
    new = Talker(broker, "new")
    new.subscribes("$me/errors")

    assert new.moves(53.3, -6.2) == ReasonCode.QUOTA_EXCEEDED
    new.sends("$me/position", b"53.3,-6.2", 0)
    wanted = "address 127.0.0.1 has 4 nodes; limits.user_share allows one user 4 of the 4 of "
    wanted += "limits.nodes"
    assert [told["error"] for told in new.errors()] == [wanted, wanted]
    assert known(broker) == set("abcd")
    broker.validate()


def test_a_context_is_bounded(broker: RunningBroker) -> None:
    talker = Talker(broker, "a")
    assert talker.is_now(text="x" * 80) == ReasonCode.SUCCESS
    assert talker.is_now(more="y" * 80) == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    broker.validate()
