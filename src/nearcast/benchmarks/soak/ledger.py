"""Nothing acknowledged is lost: a publisher of QoS 1, and a persistent session that comes and goes.

Numbers are published all along. The subscriber's connection breaks every few seconds and comes back
a little later. At the end of standard input nothing more is published, and every number that was
acknowledged must have come.
"""

import select
import sys
import time
from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec import Struct

from nearcast.benchmarks.attacks.catalogue.attack import at_least_once, message
from nearcast.benchmarks.attacks.raw_connection import (
    HONEST_ADDRESS,
    RawConnection,
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
PUBLISHER = Connect("ledger-publisher")
SUBSCRIBER = Connect(
    "ledger-subscriber",
    clean_start=False,
    properties=Properties(session_expiry_interval=SESSION_EXPIRY_S),
)

PacketCallback = Callable[[RawConnection, Packet], None]


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
    """Times that the subscriber came back."""
    broken: int = 0
    """Times that the broker closed a connection, or did not let one in."""


class Ledger:
    """The publisher, the subscriber, and what both have seen."""

    def __init__(self, order: LedgerOrder) -> None:
        self._order = order
        self._published = 0
        self._acknowledged: set[int] = set()
        self._received: Counter[int] = Counter()
        self._in_flight: dict[int, int] = {}
        """Numbers by packet identifier."""
        self._reconnections = self._broken = 0
        self._publisher = self._connect(PUBLISHER, self._answered)
        self._subscriber = subscriber = self._connect(SUBSCRIBER, self._came)
        if subscriber is None or self._publisher is None:
            raise BenchmarkError("the ledger was not let in")
        subscriber.send(encode(Subscribe(1, (TopicFilter(TOPIC, 1),))))
        if not drive([subscriber], lambda: subscriber.counts[SubAck] == 1):
            raise BenchmarkError("the ledger could not subscribe")

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
        deadline = time.monotonic() + DRAIN_WITHIN_S
        while (self._in_flight or self._missing) and time.monotonic() < deadline:
            if self._subscriber is None:
                self._switch()
            self._drive(STEP_S)
        return self.figures()

    def figures(self) -> LedgerFigures:
        """What became of the numbers so far."""
        return LedgerFigures(
            len(self._acknowledged),
            len(self._missing),
            sum(count > 1 for count in self._received.values()),
            self._reconnections,
            self._broken,
        )

    @property
    def _missing(self) -> set[int]:
        return self._acknowledged - self._received.keys()

    def _switch(self) -> float:
        """Break the subscriber's connection or make it again; return for how long that is to be."""
        if self._subscriber is None:
            self._subscriber = self._connect(SUBSCRIBER, self._came)
            self._reconnections += self._subscriber is not None
            return ONLINE_S if self._subscriber else OFFLINE_S
        self._subscriber.close()
        self._subscriber = None
        return OFFLINE_S

    def _publish(self) -> None:
        if self._publisher is None:
            return
        self._published += 1
        packet_id = (self._published - 1) % LARGEST_ID + 1
        self._in_flight[packet_id] = self._published
        number = message(TOPIC, b"%d" % self._published)
        self._publisher.send(encode(at_least_once(number, packet_id)))

    def _drive(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        connections = [each for each in (self._publisher, self._subscriber) if each is not None]
        drive(connections, lambda: time.monotonic() >= until, seconds)
        self._broken += sum(each.lost for each in connections)
        if self._subscriber is not None and self._subscriber.lost:
            self._subscriber = None
        if self._publisher is None or self._publisher.lost:
            # What was in flight may have been taken or not: nothing of it was promised.
            self._in_flight.clear()
            self._publisher = self._connect(PUBLISHER, self._answered)

    def _connect(self, connect: Connect, take: PacketCallback) -> RawConnection | None:
        """Connect; return None if the broker does not let it in, which is counted."""
        try:
            connection = RawConnection(self._order.port, HONEST_ADDRESS)
        except OSError:
            self._broken += 1
            return None
        # Set before: messages may come together with the CONNACK.
        connection.on_packet = lambda packet: take(connection, packet)
        connection.send(encode(connect))
        if drive([connection], lambda: connection.counts[ConnAck] == 1) and not connection.refused:
            return connection
        self._broken += 1
        connection.close()
        return None

    def _answered(self, connection: RawConnection, packet: Packet) -> None:
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
