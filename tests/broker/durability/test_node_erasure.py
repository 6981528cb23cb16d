"""Forgetting takes many ticks: little in each, nothing new slips in, and it outlives a crash."""

import asyncio
from pathlib import Path

import pytest

from nearcast.broker.durability.erasure import NodeErasure
from nearcast.broker.durability.node_erasures import NAME, read_intents, write_intents
from nearcast.broker.hub import Hub
from nearcast.store import StoreError
from nearcast.wire.mqtt import Connect, ReasonCode
from tests.support.broker_process import BrokerProcess
from tests.support.clients.raw_client import RawClient
from tests.support.clients.talker import Talker
from tests.support.logs.broker_log import read_log
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until

WAITING = 30
"""Sessions for which messages of the node wait."""
LIVE = 22
"""Live events of the node."""
SQUARE = b'{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}'


@pytest.fixture
def broker(tmp_path: Path) -> RunningBroker:
    return RunningBroker(data=tmp_path / "data")


def prepare(broker: RunningBroker) -> Talker:
    """Let jane say things for which many wait; return one of her connections."""
    for number in range(WAITING):
        away = Talker(broker, f"away-{number}", expiry=1_000)
        away.subscribes("news")
        broker.lose(away.client)
    jane = Talker(broker, "jane~phone", expiry=1_000)
    for part in ("watch", "car"):
        Talker(broker, f"jane~{part}", expiry=1_000)
    jane.says("news", b"from jane")
    for number in range(LIVE):
        jane.says("kept", b"from jane", valid="1000", id=f"kept-{number}")
    jane.sends("$place/home/hers", SQUARE, 1)
    jane.sends("$policy/template/hers", b'{"where": "name = \'jane\'"}', 1)
    jane.moves(53.35, -6.26)
    return jane


def nothing_is_left(hub: Hub) -> bool:
    return (
        not any(session.node == "jane" for session in hub.sessions.values())
        and not any(event.publisher == "jane" for event in hub.engine.live)
        and "jane" not in hub.engine.nodes
        and not len(hub.engine.policies)
        and not sum(session.statistics()["waiting"] for session in hub.sessions.values())
    )


def test_each_slice_looks_at_few_and_others_go_on_meanwhile(broker: RunningBroker) -> None:
    prepare(broker)
    other = Talker(broker, "other")
    other.subscribes("gossip")
    server, hub = broker.server, broker.server.hub
    size = 5

    async def one(erasure: NodeErasure) -> tuple[int, int, bool]:
        before = erasure.sessions, erasure.messages
        live = len(hub.engine.live)
        goes_on = erasure.work(server.now())
        server._tick()
        assert live - len(hub.engine.live) <= size
        return erasure.sessions - before[0], erasure.messages - before[1], goes_on

    async def begin() -> NodeErasure:
        return NodeErasure(hub, "jane", size)

    erasure = broker.run(begin())
    slices = 0
    while True:
        ended, dropped, goes_on = broker.run(one(erasure))
        assert ended <= size
        assert dropped <= size
        refused = broker.open().connect(Connect("jane~new"))
        assert refused.reason_code == ReasonCode.SERVER_BUSY
        if not goes_on:
            break
        slices += 1
        other.says("gossip", b"%d" % slices)
    assert slices >= 2 * WAITING / size
    assert other.payloads() == [b"%d" % number for number in range(1, slices + 1)]
    assert (erasure.sessions, erasure.messages) == (3, WAITING)
    assert nothing_is_left(hub)

    erasure.end()
    broker.client("jane~new")
    broker.validate()
    broker.stop()


def test_two_who_ask_at_once_get_the_same_answer(broker: RunningBroker, tmp_path: Path) -> None:
    prepare(broker)

    async def ask_twice() -> list[dict[str, int]]:
        return list(await asyncio.gather(*(broker.server.forget("jane") for _ in range(2))))

    first, second = broker.run(ask_twice())
    assert first == second
    assert (first["sessions"], first["messages"]) == (3, WAITING)
    assert not (tmp_path / "data" / "brokers" / "local" / NAME).exists()
    broker.client("jane")
    broker.stop()


def test_what_was_begun_is_done_after_a_crash(tmp_path: Path) -> None:
    data = tmp_path / "data"
    running = BrokerProcess(data).wait_until_it_listens()
    jane = RawClient(running.port)
    jane.connect(Connect("jane"))
    jane.publish("news", b"from jane", 1, retain=True)
    running.kill()
    jane.close()
    directory = data / "brokers" / "local"
    # As it is when the broker is killed right after it was asked.
    write_intents(directory, ["jane"])

    again = BrokerProcess(data).wait_until_it_listens()
    try:
        until(lambda: not (directory / NAME).exists(), "jane is forgotten")
        reader = RawClient(again.port)
        reader.connect(Connect("reader"))
        reader.subscribe("#")
        assert reader.payloads() == []
        reader.close()
        assert "forgetting goes on" in again.said
    finally:
        again.stop()
    assert not any("jane" in repr(row) for row in read_log(data))


def test_a_failure_is_told_and_the_intent_stays(broker: RunningBroker, tmp_path: Path) -> None:
    prepare(broker)
    directory = tmp_path / "data" / "brokers" / "local"
    logs = directory / "log"
    until(lambda: any(logs.glob("*.parquet")), "there is a segment")
    aside = logs.rename(directory / "aside")
    with pytest.raises(StoreError):
        broker.run(broker.server.forget("jane"))
    assert read_intents(directory) == ["jane"]
    assert broker.open().connect(Connect("jane")).reason_code == ReasonCode.SERVER_BUSY

    aside.rename(logs)
    broker.run(broker.server.forget("jane"))
    assert read_intents(directory) == []
    broker.client("jane")
    broker.stop()


def test_a_stop_in_the_middle_keeps_the_intent(broker: RunningBroker, tmp_path: Path) -> None:
    prepare(broker)
    directory = tmp_path / "data" / "brokers" / "local"

    async def begin_and_stop() -> None:
        asked = asyncio.create_task(broker.server.forget("jane"))
        while not read_intents(directory):
            await asyncio.sleep(0)
        await broker.server.stop()
        with pytest.raises(asyncio.CancelledError):
            await asked

    broker.run(begin_and_stop())
    broker.end_loop()
    broker.hang_up()
    assert read_intents(directory) == ["jane"]
