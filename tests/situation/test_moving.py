"""What moving costs: one message from whoever moves, and nothing from anybody else."""

import pytest

from nearcast.wire.mqtt import MQTT_5, Decoder, PubAck, Publish, Subscribe, Unsubscribe
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.clients.talker import METRES_NORTH, VERSIONS, Talker
from tests.support.running_broker import RunningBroker

LAT, LON = 53.35, -6.26


class Counted:
    """Everything that a client sends and gets, counted by kind."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.sent: list[bytes] = []
        write = client._write

        def noted(data: bytes) -> None:
            self.sent.append(data)
            write(data)

        client._write = noted  # type: ignore[method-assign]
        self._before = len(client.raw)

    def packets_sent(self) -> list[object]:
        decoder = Decoder(version=self._client.version)
        return list(decoder.feed(b"".join(self.sent)))

    def bytes_got(self) -> bytes:
        return self._client.raw[self._before :]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_move_is_one_message_and_its_acknowledgement_whatever_is_subscribed(
    broker: RunningBroker, version: int
) -> None:
    mover, follower = Talker(broker, version=version), Talker(broker, version=version)
    for number in range(20):
        mover.names(f"mine {number}", subject=fresh("news"), **{"from": "circle:me,500"})
        follower.names(
            f"theirs {number}", subject=fresh("news"), **{"from": f"circle:{mover.node},500"}
        )
    mover.announces(fresh("siren"), "circle:me,500")
    ours, theirs = Counted(mover.client), Counted(follower.client)

    for step in range(10):
        mover.moves(LAT + step * 100 * METRES_NORTH, LON)

    sent = ours.packets_sent()
    assert [type(packet) for packet in sent] == [Publish] * 10
    assert {packet.topic for packet in sent if isinstance(packet, Publish)} == {"$me/position"}
    answers = Decoder(version=version).feed(ours.bytes_got())
    assert [type(packet) for packet in answers] == [PubAck] * 10
    assert theirs.packets_sent() == []
    assert follower.gets() == []


def test_moving_changes_what_comes_without_subscribing_again(broker: RunningBroker) -> None:
    walker, north, south = (Talker(broker, version=MQTT_5) for _ in range(3))
    north.moves(LAT + 2_000 * METRES_NORTH, LON)
    south.moves(LAT, LON)
    walker.wants(subject := fresh("news"), from_="circle:me,500")
    counted = Counted(walker.client)

    for metres in (0, 1_000, 2_000):
        walker.moves(LAT + metres * METRES_NORTH, LON)
        for other in (north, south):
            other.says(subject, f"{other.node} at {metres}".encode())

    assert walker.payloads() == [
        f"{south.node} at 0".encode(),
        f"{north.node} at 2000".encode(),
    ]
    sent = counted.packets_sent()
    assert not any(isinstance(packet, Subscribe | Unsubscribe) for packet in sent)


def test_a_move_of_qos_0_is_nothing_but_itself(broker: RunningBroker) -> None:
    mover = Talker(broker)
    counted = Counted(mover.client)

    mover.sends("$me/position", b"53.35,-6.26", 0)

    assert len([p for p in counted.packets_sent() if isinstance(p, Publish)]) == 1
    assert counted.bytes_got() == b"\xd0\x00"
