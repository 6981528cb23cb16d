"""Events of one tick go out session by session: each gets what it would event by event."""

import random

import pytest

from nearcast.broker.config.settings import Settings
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    Connect,
    Decoder,
    Packet,
    Properties,
    Publish,
    Sender,
    Subscribe,
    TopicFilter,
    encode,
)

CLIENTS = 12
FILTERS = ("kind = 'car'", "kind = 'bus'", "speed > 50", "kind = 'car' AND speed > 20")


class Kit:
    """A hub with clients of all sorts, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        # The same ids of events in both.
        self.hub = Hub(Settings(), random_bytes=random.Random(seed).randbytes)
        self.now = 1_000.0
        self.several = 0
        self.connections: list[Connection] = []
        self.decoders: list[Decoder] = []
        self.got: list[list[Packet]] = []
        for number in range(CLIENTS):
            version = draw.choice((MQTT_3_1_1, MQTT_5, MQTT_5))
            told = Properties()
            if version == MQTT_5 and draw.random() < 0.3:
                told = draw.choice(
                    (Properties(topic_alias_maximum=2), Properties(maximum_packet_size=150))
                )
            self.connections.append(Connection())
            self.decoders.append(Decoder(sender=Sender.SERVER, version=version))
            self.got.append([])
            self.say(number, Connect(f"c{number}", version, properties=told))
            self.tick()
            self.say(number, Publish("$me/position", b"53.35,-6.26"))
            for _ in range(draw.choice((1, 1, 1, 2))):
                self._subscribe(number, version, draw)
            self.tick()
        if draw.random() < 0.3:
            self.hub.block(self.connections[0], True)

    def _subscribe(self, number: int, version: int, draw: random.Random) -> None:
        subject, qos = draw.choice(("a/b", "a/+", "a/c")), draw.choice((0, 0, 1))
        filters = (TopicFilter(subject, qos, no_local=version == MQTT_5 and draw.random() < 0.5),)
        where, near = draw.choice(FILTERS), draw.random() < 0.7
        if version == MQTT_5:
            said = [("nc-where", where)]
            if near:
                said.append(("nc-from", "circle:me,1000"))
            if draw.random() < 0.5:
                said.append(("nc-meta", "0"))
            known = draw.choice((None, None, (7,)))
            properties = Properties(user_properties=tuple(said))
            if known is not None:
                properties = Properties(user_properties=tuple(said), subscription_identifiers=known)
            self.say(number, Subscribe(1, filters, properties))
        else:
            self.say(number, Subscribe(1, filters))

    def say(self, number: int, packet: Packet) -> None:
        version = self.decoders[number].version
        decoder = Decoder(version=0 if isinstance(packet, Connect) else version)
        self.hub.receive(self.connections[number], decoder.feed(encode(packet, version)), self.now)

    def tick(self) -> None:
        deliver = self.hub._dispatcher.deliver

        def counted(sent: Deliveries) -> None:
            self.several += len(sent.events) > 1
            deliver(sent)

        self.hub._dispatcher.deliver = counted  # type: ignore[method-assign,assignment]
        try:
            while True:
                for write in self.hub.tick(self.now).writes:
                    number = self.connections.index(write.connection)
                    self.got[number] += self.decoders[number].feed(write.data)
                if self.hub.next_timer(self.now) != self.now:
                    return
        finally:
            self.hub._dispatcher.deliver = deliver  # type: ignore[method-assign]


def events(seed: int) -> list[tuple[int, Publish]]:
    draw = random.Random(seed + 1_000_000)
    quality = draw.choice((0, 0, 1))
    found = []
    for number in range(draw.randrange(4, 40)):
        payload = b'{"kind": "%b", "speed": %d}' % (
            draw.choice((b"car", b"bus")),
            draw.randrange(100),
        )
        qos = quality and draw.randrange(2)
        packet = Publish(
            draw.choice(("a/b", "a/c")), payload, qos, packet_id=number + 1 if qos else 0
        )
        if draw.random() < 0.1:
            packet = packet.with_(Properties(user_properties=(("k", "v"),)))
        found.append((draw.randrange(CLIENTS), packet))
    return found


def in_order(packets: list[Packet]) -> list[Publish]:
    """What was delivered; order holds for each QoS, and acknowledgements come when they may."""
    delivered = [each for each in packets if isinstance(each, Publish)]
    return sorted(delivered, key=lambda each: each.qos)


@pytest.mark.parametrize("seed", range(80))
def test_together_everyone_gets_what_they_get_one_by_one(seed: int) -> None:
    one_by_one, together = Kit(seed), Kit(seed)
    before = together.several
    for number, packet in events(seed):
        if one_by_one.decoders[number].version != MQTT_5:
            packet = Publish(packet.topic, packet.payload, packet.qos, packet_id=packet.packet_id)
        one_by_one.say(number, packet)
        one_by_one.tick()
        together.say(number, packet)
    together.tick()
    assert list(map(in_order, together.got)) == list(map(in_order, one_by_one.got))
    assert together.hub.state.counters["sent"] == one_by_one.hub.state.counters["sent"]
    COUNTED.append(together.several - before)


COUNTED: list[int] = []
"""How many deliveries of several events there were in each."""


def test_some_of_them_were_of_several_events() -> None:
    assert not COUNTED or sum(COUNTED) >= len(COUNTED) / 4
