"""Whatever clients do, everyone gets what the plain situation says, each exactly once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nearcast.testing import World, explore
from nearcast.wire.mqtt import (
    MQTT_5,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    Publish,
    PubRec,
    PubRel,
    TopicFilter,
)
from tests.support.clients.talker import Talker
from tests.support.plain.random_life import RandomLife
from tests.support.plain.virtual_driver import UNDYING, Virtual
from tests.support.running_broker import RunningBroker


class Sockets:
    """Real clients of a real broker."""

    def __init__(self, data: Path | None = None) -> None:
        self._data = data
        self._broker = RunningBroker(UNDYING, data)
        self._talkers: dict[str, Talker] = {}

    def connect(self, client: str, version: int, lasting: bool, clean: bool) -> None:
        expiry = 86_400 if lasting and version == MQTT_5 else None
        self._talkers[client] = Talker(
            self._broker,
            client,
            version,
            clean=clean or (version != MQTT_5 and not lasting),
            expiry=expiry,
        )

    def lose(self, client: str) -> None:
        self._broker.lose(self._talkers.pop(client).client)

    def publish(self, client: str, packets: list[Publish]) -> None:
        raw = self._talkers[client].client
        numbered = [
            replace(packet, packet_id=raw.next_id()) if packet.qos else packet for packet in packets
        ]
        raw.send(*numbered)
        for packet in numbered:
            answer: PubAck | PubRec | None = None
            if packet.qos == 1:
                answer = raw.wait_for(PubAck)
            elif packet.qos == 2:
                answer = raw.wait_for(PubRec)
                raw.send(PubRel(packet.packet_id))
            assert answer is None or not answer.reason_code.failed, (packet, answer)
        if not numbered[-1].qos:
            raw.send(PingReq())
            raw.wait_for(PingResp)

    def subscribe(self, client: str, wanted: TopicFilter, properties: Properties) -> None:
        (code,) = self._talkers[client].subscribes(wanted, properties=properties)
        assert not code.failed, self._talkers[client].reason

    def unsubscribe(self, client: str, topic_filter: str) -> None:
        self._talkers[client].client.unsubscribe(topic_filter)

    def later(self, seconds: float) -> None:
        self._broker.later(seconds)

    def restart(self) -> None:
        before = self._broker.server.now()
        self.stop()
        self._broker = RunningBroker(UNDYING, self._data)
        # It goes on from the last row of the log; since then time was put forward.
        self._broker.later(max(0.0, before - self._broker.server.now()))

    def received(self, client: str) -> list[Publish]:
        return self._talkers[client].gets()

    def stop(self) -> None:
        self._broker.validate()
        self._broker.stop()
        self._talkers.clear()


@pytest.fixture
def sockets(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sockets]:
    driver = Sockets(tmp_path if request.param else None)
    yield driver
    driver.stop()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("sockets", [False, True], ids=["memory", "disk"], indirect=True)
def test_over_sockets_everyone_gets_exactly_what_the_situation_says(
    sockets: Sockets, seed: int
) -> None:
    life = RandomLife(seed, sockets, restarts=sockets._data is not None)
    life.live(120)
    assert life.copies > 20


def live_virtually(world: World) -> None:
    life = RandomLife(world.seed, Virtual(world), restarts=True)
    try:
        life.live(60)
    finally:
        for line in life.told:
            world.tell("life", line)


def test_in_many_virtual_lives_with_crashes_everyone_gets_exactly_what_the_situation_says() -> None:
    assert explore(live_virtually, range(30)) == 30


@pytest.mark.slow
def test_in_very_many_virtual_lives_too() -> None:
    assert explore(live_virtually, range(1_000, 1_400)) == 400
