"""Classes and roles that change a thousand times a second, while nobody reads what comes.

What arrives afterwards, in which order, with which priority, and what is counted, is compared with
a plain reader: at a hub in virtual time, and at a broker on sockets. The client has room for one
message, so that everything else waits at the broker; it goes on reading amid further changes.

Changes that come together, in one tick, are one change for what waits. So what a full queue drops
is compared in virtual time, where each has a tick of its own.
"""

import json
from collections.abc import Sequence
from random import Random
from typing import Protocol

import pytest
from msgspec.structs import replace

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.config.settings import AdaptationSection, Limits, Settings
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.broker.operations.priority_figures import priority_figures
from nearcast.core.propagation.outbox import WITHHELD
from nearcast.wire.mqtt import (
    MQTT_5,
    Connect,
    Decoder,
    Packet,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    Publish,
    Sender,
    SubAck,
    Subscribe,
    TopicFilter,
)
from tests.broker.delivery.plain_reader import FILTER, VECTORS, PlainReader, Unit
from tests.support.running_broker import RunningBroker

QUEUED, UNBOUNDED = 40, 1_000_000
SETTINGS = Settings(limits=Limits(queued=QUEUED), adaptation=AdaptationSection(share_bytes=1 << 40))
BATTERY = {
    "modules": {
        "battery": {"attribute": "battery", "intervals": [[None, 20], [20, 50], [50, None]]}
    }
}
MATRICES = (
    None,
    [[-1, -1, 1], [-1, 2, 1], [1, 1, 1]],
    [[3, 3, 2], [3, 2, 1], [2, 1, 1]],
    [[2, 2, 2], [1, 3, -1], [1, 2, 3]],
)
NAMES = ("default", "medic", "cook")
READER, WRITER = "reader", "reader~hand"
ONE_AT_ONCE = Properties(session_expiry_interval=600, receive_maximum=1)
WISH = Properties(
    user_properties=(("nc-where", "template:units"), ("nc-relevance", "role"), ("nc-meta", "1"))
)


class Host(Protocol):
    """A broker with both clients."""

    queued: int
    """So many messages may wait."""

    def says(self, packets: Sequence[Publish]) -> None:
        """The writer sends packets together; all are answered."""

    def reads(self) -> Publish | None:
        """The reader acknowledges what it has, and reads what comes then."""

    @property
    def state(self) -> BrokerState:
        """That of the broker, which is idle."""


class VirtualHost:
    """A hub without sockets; a packet comes every millisecond."""

    queued = QUEUED

    def __init__(self) -> None:
        self.now = 1_000.0
        self.hub = Hub(SETTINGS)
        self._reader, self._writer = Connection(), Connection()
        self._came: list[Packet] = []
        self._had: Publish | None = None
        self._tick()
        for name, connection in ((READER, self._reader), (WRITER, self._writer)):
            self._send(connection, [Connect(name, MQTT_5, True, properties=ONE_AT_ONCE)])
        self._set_up()

    def _set_up(self) -> None:
        self.says(set_up_packets())
        self._send(self._reader, [Subscribe(1, (TopicFilter("#", 1),), WISH)])
        (answer,) = [each for each in self._came if isinstance(each, SubAck)]
        assert not answer.reason_codes[0].failed
        self._came.clear()

    def says(self, packets: Sequence[Publish]) -> None:
        for each in packets:
            self._send(self._writer, [each])
            self.now += 0.001

    def reads(self) -> Publish | None:
        if self._had is not None:
            self._send(self._reader, [PubAck(self._had.packet_id)])
        found = [each for each in self._came if isinstance(each, Publish)]
        assert len(found) <= 1
        self._came.clear()
        self._had = found[0] if found else None
        return self._had

    @property
    def state(self) -> BrokerState:
        return self.hub.state

    def _send(self, connection: Connection, packets: Sequence[Packet]) -> None:
        self.hub.receive(connection, list(packets), self.now)
        self._tick()

    def _tick(self) -> None:
        self._tick_once()
        while (due := self.hub.next_timer(self.now)) is not None and due <= self.now:
            self._tick_once()
        self.hub.validate_state()

    def _tick_once(self) -> None:
        for write in self.hub.tick(self.now).writes:
            self.hub.written(write)
            packets = Decoder(sender=Sender.SERVER, version=MQTT_5).feed(write.data)
            if write.connection is self._reader:
                self._came += packets
            for each in packets:
                assert not isinstance(each, PubAck) or not each.reason_code.failed, each


class SocketHost:
    """A broker on sockets, which takes packets together as they come."""

    queued = UNBOUNDED

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self._writer = broker.client(WRITER)
        self.says(set_up_packets())
        self._reader = broker.client(READER, properties=ONE_AT_ONCE)
        assert not self._reader.subscribe("#", qos=1, properties=WISH)[0].failed
        self._had: Publish | None = None

    def says(self, packets: Sequence[Publish]) -> None:
        for start in range(0, len(packets), 50):
            some = packets[start : start + 50]
            self._writer.send(*some)
            for _ in some:
                assert not self._writer.wait_for(PubAck).reason_code.failed

    def reads(self) -> Publish | None:
        answer = [] if self._had is None else [PubAck(self._had.packet_id)]
        found = []
        # Twice, because what an acknowledgement sets free may follow the first answer.
        for _ in range(2):
            self._reader.send(*answer, PingReq())
            answer = []
            while not isinstance(packet := self._reader.receive(), PingResp):
                assert isinstance(packet, Publish)
                found.append(packet)
        assert len(found) <= 1
        self._had = found[0] if found else None
        return self._had

    @property
    def state(self) -> BrokerState:
        return self._broker.server.hub.state


def set_up_packets() -> list[Publish]:
    roles: dict[str, dict[str, str]] = {}
    for (role, task), vector in VECTORS.items():
        roles.setdefault(role, {})[task] = "levels:" + ",".join(map(str, vector))
    documents = {
        "awareness/default": BATTERY,
        "template/units": {"where": FILTER},
        "roles/units": {"default": {"role": "scout", "task": "go"}, "roles": roles},
    }
    return [
        Publish(f"$policy/{name}", json.dumps(document).encode(), 1, packet_id=number)
        for number, (name, document) in enumerate(documents.items(), 1)
    ]


class Storm:
    """Random events and changes, told to a broker and to a plain reader alike."""

    def __init__(self, seed: int, host: Host) -> None:
        self._chance = Random(seed)
        self._host = host
        self.plain = PlainReader(host.queued)
        self._count = self._packets = 0
        self._is_held = False
        """Whether the reader has a message that it has not acknowledged."""

    def begins(self) -> None:
        """Bring the reader a message: while it is not acknowledged everything else waits."""
        while self.plain.matrices:
            self._allows_more()
        self._allows_more()
        self._host.says([self._event(Unit(qos=1, kind="infantry", strength=1))])
        assert self.reads()

    def rages(self, count: int) -> None:
        """Send so many events and changes, in bursts."""
        packets: list[Publish] = []
        for _ in range(count):
            packets.append(self._anything())
            if self._chance.random() < 0.05:
                self._host.says(packets)
                packets = []
        self._host.says(packets)

    def calms(self) -> int:
        """Read everything, amid a few more events and changes; return how much came.

        In the end nothing is withheld any more.
        """
        came = 0
        while self._is_held or self.plain.waits:
            if not self._is_held:
                # Whatever may leave does so at once: what is changed is one thing at a time.
                self._allows_more()
            elif self._chance.random() < 0.1:
                self.rages(self._chance.randint(1, 5))
            came += self.reads()
        return came

    def reads(self) -> bool:
        """Read the next message, if there is one."""
        message, unit = self._host.reads(), self.plain.next()
        self._is_held = message is not None
        if message is None or unit is None:
            assert message is None, message
            assert unit is None, unit
            return False
        assert json.loads(message.payload)["n"] == unit.number
        told = dict(message.properties.user_properties)
        assert told["nc-priority"] == str(unit.priority)
        return True

    def _allows_more(self) -> None:
        plain = self.plain
        if plain.matrices:
            name, _ = plain.matrices.popitem()
            packet = self._packet(f"$policy/matrix/{name}", None)
        else:
            plain.battery, plain.role, plain.task = 90, "medic", "go"
            context = {"battery": plain.battery, "role": plain.role, "task": plain.task}
            packet = self._packet("$me/context", context)
        plain.change()
        self._host.says([packet])

    def counts_alike(self) -> None:
        figures, plain = priority_figures(self._host.state, 3, 0.0), self.plain
        for priority in (1, 2, 3):
            of_level = f'{{priority="{priority}"}}'
            assert figures[f"sent_total{of_level}"] == plain.sent[priority]
            assert figures[f"dropped_total{of_level}"] == plain.dropped[priority]
        assert figures["withheld_dropped_total"] == plain.dropped[WITHHELD]
        assert figures["withheld_waiting"] == 0
        withheld = figures["withheld_total"] - plain.withheld_on_arrival
        if self._host.queued == QUEUED:
            assert withheld == plain.withheld_later
        else:
            assert 0 < withheld <= plain.withheld_later

    def _anything(self) -> Publish:
        chance, plain = self._chance, self.plain
        what = chance.random()
        if what < 0.5:
            return self._event(
                Unit(
                    qos=1,
                    kind=chance.choice(("infantry", "armor", "artillery", "tank")),
                    strength=chance.choice((30, 60, 100, 101)),
                    said=chance.choice((None, None, None, 1, 2, 7)),
                    flow=chance.choice(("north", "south", "west")),
                    deadline=chance.choice((None, None, None, 1e5, 2e5, 3e5)),
                )
            )
        if what < 0.75:
            plain.battery = chance.choice((5, 20, 21, 50, 51, 90))
            packet = self._packet("$me/context", {"battery": plain.battery})
        elif what < 0.95:
            plain.role = chance.choice(("scout", "medic", "cook"))
            plain.task = chance.choice(("go", "stay"))
            packet = self._packet("$me/context", {"role": plain.role, "task": plain.task})
        else:
            name, rows = chance.choice(NAMES), chance.choice(MATRICES)
            plain.matrices.pop(name, None)
            if rows is not None:
                plain.matrices[name] = rows
            packet = self._packet(f"$policy/matrix/{name}", rows and {"rows": rows})
        plain.change()
        return packet

    def _event(self, unit: Unit) -> Publish:
        self._count += 1
        unit.number = self._count
        unit.said = None if unit.said is None else min(unit.said, 3)
        pairs: list[tuple[str, str]] = []
        if unit.said is not None:
            pairs.append(("nc-priority", str(unit.said)))
        if unit.deadline is not None:
            # Those of one kind follow each other in time, as they do in the count.
            pairs.append(("nc-deadline", str(int(unit.deadline))))
            unit.deadline += unit.number
        said = {"unit": unit.kind, "size": unit.strength, "n": unit.number}
        packet = self._packet(f"unit/{unit.flow}", said, *pairs)
        self.plain.publish(unit)
        return packet

    def _packet(self, topic: str, said: object, *pairs: tuple[str, str]) -> Publish:
        self._packets += 1
        payload = b"" if said is None else json.dumps(said).encode()
        packet = Publish(topic, payload, 1, packet_id=1 + self._packets % 60_000)
        return packet.with_(Properties(user_properties=pairs)) if pairs else packet


def storms(seed: int, host: Host, size: int) -> None:
    storm = Storm(seed, host)
    came = 0
    for _ in range(3):
        storm.begins()
        storm.rages(size)
        came += storm.calms()
    storm.counts_alike()
    assert came > size // 10
    assert len(storm.plain.sent) == 3
    assert bool(storm.plain.dropped) == (host.queued == QUEUED)


@pytest.mark.parametrize("seed", range(6))
def test_in_virtual_time_all_comes_as_at_a_plain_reader(seed: int) -> None:
    storms(seed, VirtualHost(), 600)


@pytest.mark.parametrize("seed", [100, 101])
def test_on_sockets_all_comes_as_at_a_plain_reader(seed: int) -> None:
    broker = RunningBroker(replace(SETTINGS, limits=Limits(queued=UNBOUNDED)))
    storms(seed, SocketHost(broker), 1_000)
    broker.validate()
    broker.stop()
