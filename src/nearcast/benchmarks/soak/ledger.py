"""Nothing acknowledged is lost: a publisher of QoS 1, and a persistent session that comes and goes.

Numbers are published all along. The subscriber's connection breaks every few seconds and comes back
a little later. At the end of standard input nothing more is published, and every number that was
acknowledged must have come.
"""

import select
import sys
import time
from collections import Counter

import msgspec
from msgspec import Struct

from nearcast.benchmarks.attacks.catalogue.attack import at_least_once, message
from nearcast.benchmarks.attacks.raw_connection import (
    HONEST_ADDRESS,
    RawConnection,
    connected,
    drive,
)
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.wire.mqtt import (
    ConnAck,
    Connect,
    Packet,
    Properties,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    TopicFilter,
    encode,
)

TOPIC = "soak/ledger"
STEP_S = 0.02
ONLINE_S, OFFLINE_S = 7.0, 2.0
DRAIN_WITHIN_S = 60.0
SESSION_EXPIRY_S = 3_600
LARGEST_ID = 0xFFFF
MOST_IN_FLIGHT = 500
"""At most the broker's Receive Maximum."""


class LedgerOrder(Struct, frozen=True):
    """Where to connect, and how fast to publish."""

    port: int
    per_s: float = 20.0


class LedgerFigures(Struct, frozen=True):
    """What became of the numbers."""

    acknowledged: int
    lost: int
    repeated: int
    """Numbers that came more than once, which QoS 1 allows."""
    reconnections: int


class Ledger:
    """The publisher, the subscriber, and what both have seen."""

    def __init__(self, order: LedgerOrder) -> None:
        self._order = order
        self._published = 0
        self._acknowledged: set[int] = set()
        self._received: Counter[int] = Counter()
        self._in_flight: dict[int, int] = {}
        """Numbers by packet identifier."""
        self._reconnections = -1
        self._publisher = connected(order.port, Connect("ledger-publisher"))
        self._publisher.on_packet = self._answered
        self._subscriber = self._subscribe()

    def run(self) -> LedgerFigures:
        """Publish until the end of standard input, then wait for what is missing."""
        switch = time.monotonic() + ONLINE_S
        due = time.monotonic()
        while not select.select([sys.stdin], [], [], 0.0)[0]:
            if time.monotonic() >= switch:
                switch = time.monotonic() + self._switch()
            while time.monotonic() >= due:
                due += 1.0 / self._order.per_s
                if len(self._in_flight) < MOST_IN_FLIGHT:
                    self._publish()
            self._drive(STEP_S)
        if self._subscriber.closed:
            self._subscriber = self._subscribe()
        deadline = time.monotonic() + DRAIN_WITHIN_S
        while (self._in_flight or self._missing) and time.monotonic() < deadline:
            self._drive(STEP_S)
        return self.figures()

    def figures(self) -> LedgerFigures:
        """What became of the numbers so far."""
        return LedgerFigures(
            len(self._acknowledged),
            len(self._missing),
            sum(count > 1 for count in self._received.values()),
            self._reconnections,
        )

    @property
    def _missing(self) -> set[int]:
        return self._acknowledged - self._received.keys()

    def _switch(self) -> float:
        """Break the subscriber's connection or make it again; return for how long that is to be."""
        if self._subscriber.closed:
            self._subscriber = self._subscribe()
            return ONLINE_S
        self._subscriber.close()
        return OFFLINE_S

    def _publish(self) -> None:
        self._published += 1
        packet_id = (self._published - 1) % LARGEST_ID + 1
        self._in_flight[packet_id] = self._published
        number = message(TOPIC, b"%d" % self._published)
        self._publisher.send(encode(at_least_once(number, packet_id)))

    def _drive(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        drive([self._publisher, self._subscriber], lambda: time.monotonic() >= until, seconds)
        if self._publisher.closed:
            raise BenchmarkError("the broker closed the ledger's connection")

    def _subscribe(self) -> RawConnection:
        properties = Properties(session_expiry_interval=SESSION_EXPIRY_S)
        connect = Connect("ledger-subscriber", clean_start=False, properties=properties)
        connection = RawConnection(self._order.port, HONEST_ADDRESS)
        # Messages may come with the CONNACK.
        connection.on_packet = lambda packet: self._came(connection, packet)
        connection.send(encode(connect))
        if not drive([connection], lambda: connection.counts[ConnAck] == 1):
            raise BenchmarkError("the ledger was not let in")
        self._reconnections += 1
        if self._reconnections == 0:
            connection.send(encode(Subscribe(1, (TopicFilter(TOPIC, 1),))))
            if not drive([connection], lambda: connection.counts[SubAck] == 1):
                raise BenchmarkError("the ledger could not subscribe")
        return connection

    def _answered(self, packet: Packet) -> None:
        if isinstance(packet, PubAck):
            number = self._in_flight.pop(packet.packet_id)
            if not packet.reason_code.failed:
                self._acknowledged.add(number)

    def _came(self, connection: RawConnection, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self._received[int(packet.payload)] += 1
            connection.send(encode(PubAck(packet.packet_id)))


def main() -> None:
    """Read an order, keep the ledger until the end of input, and write its figures."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=LedgerOrder)
    sys.stdout.buffer.write(msgspec.json.encode(Ledger(order).run()) + b"\n")


if __name__ == "__main__":
    main()
