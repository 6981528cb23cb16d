"""What an attack is: bounded work of a client with a permitted account, and what came of it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar

from msgspec import Struct

from nearcast.benchmarks.attacks.raw_connection import RawConnection, drive
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.wire.mqtt import (
    ConnAck,
    Connect,
    Packet,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    TopicFilter,
    encode,
)

PING = encode(PingReq())
WINDOW = 500
"""Messages of QoS 1 in flight; at most the broker's Receive Maximum."""
FLOOD_GROUP = 100
OPENED_AT_ONCE = 50


class AttackSite(Struct, frozen=True):
    """Where an attack takes place, and how large it is."""

    port: int
    http_port: int
    source: str
    """The attacker's own address."""
    quick: bool
    within_s: float
    """An act that is not done by then is given up."""

    def size(self, full: int, quick: int) -> int:
        """The size of a part of the attack."""
        return quick if self.quick else full


class AttackWork(Struct, frozen=True):
    """How much of its own work an attacker completed."""

    wanted: int
    done: int
    refused: int
    """Reason codes that say no."""
    closed: int
    """Connections that the broker closed."""
    wall_s: float
    note: str = ""


class Attack(ABC):
    """One attack; `act` may be called several times, and closes the connections that it opened."""

    name: ClassVar[str]
    describe: ClassVar[str]
    unit: ClassVar[str]
    """What `AttackWork.done` counts."""
    full: ClassVar[int]
    """How much work an act is to do."""
    quick: ClassVar[int]
    """The same in a quick run."""
    on_mosquitto: ClassVar[bool] = False
    """True if mosquitto can be attacked in the same way."""

    def __init__(self, site: AttackSite) -> None:
        self.site = site
        self.note = ""
        """What else is worth knowing of the last act."""
        self._lasting: list[RawConnection] = []
        self._opened: list[RawConnection] = []

    @property
    def wanted(self) -> int:
        """How much work an act is to do here."""
        return self.site.size(self.full, self.quick)

    def prepare(self) -> None:
        """Set up what is there before the attack; what is opened here stays open."""
        return

    @abstractmethod
    def attack(self, turn: int) -> int:
        """Do the work, and return how much of it was done."""

    def set_up(self) -> None:
        """Prepare, and keep the connections."""
        self.prepare()
        self._lasting, self._opened = self._opened, []

    def act(self, turn: int) -> AttackWork:
        """Do the work once; turns are numbered from 0."""
        began = time.monotonic()
        refused = sum(each.refused for each in self._lasting)
        done = self.attack(turn)
        connections = [*self._lasting, *self._opened]
        work = AttackWork(
            self.wanted,
            done,
            sum(each.refused for each in connections) - refused,
            sum(each.lost for each in connections),
            time.monotonic() - began,
            self.note,
        )
        for connection in self._opened:
            connection.close()
        self._opened.clear()
        return work

    def close(self) -> None:
        """Close all connections."""
        for connection in [*self._lasting, *self._opened]:
            connection.close()

    # What attacks are made of

    def open(self, *names: str) -> list[RawConnection]:
        """Open connections with a session each, which ends with the connection."""
        return self.open_with([Connect(name) for name in names])

    def open_with(self, connects: Sequence[Connect]) -> list[RawConnection]:
        """Open connections; those that the broker refuses or closes are among them."""
        opened: list[RawConnection] = []
        for first in range(0, len(connects), OPENED_AT_ONCE):
            group = [self._open_one(each) for each in connects[first : first + OPENED_AT_ONCE]]
            opened += (each for each in group if each is not None)
            if None in group or not self.answered(opened[first:], ConnAck):
                break
        return opened

    def _open_one(self, connect: Connect) -> RawConnection | None:
        try:
            connection = RawConnection(self.site.port, self.site.source)
        except OSError:
            return None
        self._opened.append(connection)
        connection.send(encode(connect))
        return connection

    def answered(
        self, connections: Sequence[RawConnection], kind: type[Packet], count: int = 1
    ) -> bool:
        """Wait until every connection has so many packets of a kind in all, or is closed."""
        return self.drive(
            connections,
            lambda: all(each.closed or each.counts[kind] >= count for each in connections),
        )

    def drive(self, connections: Sequence[RawConnection], done: Callable[[], bool]) -> bool:
        """Send and read until done, or the time of an act is up."""
        return drive(connections, done, self.site.within_s)

    def subscribe(
        self, connections: Sequence[RawConnection], *filters: str, **properties: str
    ) -> bool:
        """Subscribe every connection, with `nc-` properties; return True once all are answered."""
        packet = subscribe_packet(filters, **properties)
        for connection in connections:
            connection.send(packet)
        wanted = {each: each.counts[SubAck] + 1 for each in connections}
        return self.drive(
            connections,
            lambda: all(each.closed or each.counts[SubAck] >= wanted[each] for each in connections),
        )

    def settle(self, connections: Sequence[RawConnection]) -> bool:
        """Wait until the broker has read all that was sent, which it says by a PINGRESP."""
        wanted = {each: each.counts[PingResp] + 1 for each in connections}
        for connection in connections:
            connection.send(PING)
        return self.drive(
            connections,
            lambda: all(
                each.closed or each.counts[PingResp] >= wanted[each] for each in connections
            ),
        )

    def acknowledged(self, connection: RawConnection, messages: Sequence[Publish]) -> int:
        """Publish messages with QoS 1, and return how many of them were taken."""
        before, refused, sent = connection.counts[PubAck], connection.refused, 0

        def done() -> bool:
            nonlocal sent
            got = connection.counts[PubAck] - before
            while sent < min(len(messages), got + WINDOW):
                message = messages[sent]
                sent += 1
                connection.send(encode(at_least_once(message, sent % 0xFFFF or 0xFFFF)))
            connection.write()
            return got >= len(messages)

        self.drive([connection], done)
        return connection.counts[PubAck] - before - (connection.refused - refused)

    def flood(self, connections: Sequence[RawConnection], packets: Iterator[bytes]) -> int:
        """Send QoS 0 messages, `wanted` in all; return how many the broker has surely read.

        A PINGREQ follows every hundred of them, and its answer says that they were read.
        """
        before = {each: each.counts[PingResp] for each in connections}
        groups = max(1, self.wanted // (len(connections) * FLOOD_GROUP))
        unsent = dict.fromkeys(connections, groups)

        def answered(connection: RawConnection) -> int:
            return connection.counts[PingResp] - before[connection]

        def done() -> bool:
            for each in connections:
                # Not all at once: they are made as they are sent.
                while unsent[each] and not each.has_unsent and not each.closed:
                    each.send(*islice(packets, FLOOD_GROUP), PING)
                    unsent[each] -= 1
                    each.write()
            return all(each.closed or answered(each) >= groups for each in connections)

        self.drive(connections, done)
        return sum(answered(each) for each in connections) * FLOOD_GROUP

    def require(self, done: bool) -> None:
        """Raise BenchmarkError if a part of the preparation was not done."""
        if not done:
            raise BenchmarkError(f"{self.name} could not be prepared")


def at_least_once(message: Publish, packet_id: int) -> Publish:
    """The message with QoS 1."""
    return Publish(
        message.topic, message.payload, 1, message.retain, packet_id=packet_id,
        raw_properties=message.raw_properties,
    )  # fmt: skip


def message(topic: str, payload: bytes = b"{}", **properties: str) -> Publish:
    """A message of QoS 0; `at="53.3,-6.2"` becomes its property `nc-at`."""
    return Publish(topic, payload).with_(nc_properties(properties))


def retained(topic: str, payload: bytes) -> Publish:
    """A retained message of QoS 0."""
    return Publish(topic, payload, retain=True)


def subscribe_packet(filters: Iterable[str], **properties: str) -> bytes:
    """A SUBSCRIBE of QoS 0; `where="speed > 5"` becomes its property `nc-where`."""
    wanted = tuple(TopicFilter(each) for each in filters)
    return encode(Subscribe(1, wanted, nc_properties(properties)))


def nc_properties(named: dict[str, str]) -> Properties:
    """User properties with the prefix `nc-`; a trailing underscore of a name is left out."""
    return Properties(
        user_properties=tuple((f"nc-{name.rstrip('_')}", value) for name, value in named.items())
    )
