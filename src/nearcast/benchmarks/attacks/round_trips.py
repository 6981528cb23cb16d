"""The honest client: a publisher and a subscriber in a process of their own, timed all along.

Every 10 ms it publishes a message for a plain subscription and, where the broker is ours, one for
a subscription with a filter and an area. It sends by the clock, not when the last answer came, so
that a stall counts for every message that it delayed. It obeys lines of standard input: `begin`
starts a phase, `end` ends the one that was begun last, and is answered by its figures once all its
messages have arrived. A phase may hold others.
"""

import os
import selectors
import sys
import time
from collections import deque

import msgspec
from msgspec import Struct

from nearcast.benchmarks.attacks.catalogue.attack import message, subscribe_packet
from nearcast.benchmarks.attacks.raw_connection import connected, drive
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.this_machine import cores_apart
from nearcast.wire.mqtt import Connect, Packet, Publish, SubAck, encode

BEGIN, END = "begin", "end"
PLAIN, SITUATED = "honest/plain", "honest/situated"
PLACE = "53.3498,-6.2603"


class HonestOrder(Struct, frozen=True):
    """Where the honest client connects, and how it publishes."""

    port: int
    situated: bool
    """True to publish for a subscription with a filter and an area as well."""
    interval_s: float = 0.01
    lost_after_s: float = 60.0
    """A message that has not come so long after the end of its phase counts as lost."""


class RoundTripFigures(Struct, frozen=True):
    """Round trips of one kind of message; one that was lost counts as long as it was waited for."""

    sent: int
    lost: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class HonestFigures(Struct, frozen=True, tag=True):
    """One phase."""

    plain: RoundTripFigures
    situated: RoundTripFigures | None


class HonestFailed(Struct, frozen=True, tag=True):
    """The honest client lost its connection."""

    reason: str


HonestAnswer = HonestFigures | HonestFailed


class Phase:
    """The messages that were sent between `begin` and `end`."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[str, int], int] = {}
        """When each message that has not arrived was sent, by topic and number, in ns."""
        self.took_ns: dict[str, list[int]] = {PLAIN: [], SITUATED: []}
        self.ended_ns = 0

    def arrived(self, key: tuple[str, int]) -> None:
        """Time a message, if it is of this phase."""
        sent_ns = self.waiting.pop(key, None)
        if sent_ns is not None:
            self.took_ns[key[0]].append(time.perf_counter_ns() - sent_ns)

    def figures(self) -> HonestFigures:
        """The figures, as they are now."""
        plain, situated = (self._figures(topic) for topic in (PLAIN, SITUATED))
        assert plain is not None, "something was published in every phase"
        return HonestFigures(plain, situated)

    def _figures(self, topic: str) -> RoundTripFigures | None:
        now = time.perf_counter_ns()
        late = [now - sent for (of, _), sent in self.waiting.items() if of == topic]
        took = sorted(self.took_ns[topic] + late)
        if not took:
            return None
        return RoundTripFigures(
            len(took), len(late), *(part_ms(took, part) for part in (0.5, 0.99, 1.0))
        )


def part_ms(ordered_ns: list[int], part: float) -> float:
    """The smallest value that so large a part of the values does not exceed, in ms."""
    return ordered_ns[max(0, -int(-part * len(ordered_ns) // 1) - 1)] / 1e6


class HonestClient:
    """The publisher and the subscriber."""

    def __init__(self, order: HonestOrder) -> None:
        self._order = order
        self._number = 0
        self._begun: list[Phase] = []
        self._ended: deque[Phase] = deque()
        self._publisher = connected(order.port, Connect("honest-publisher"))
        self._subscriber = connected(order.port, Connect("honest-subscriber"))
        self._subscriber.on_packet = self._arrived
        self._subscriber.send(subscribe_packet([PLAIN]))
        if order.situated:
            # Far away from all attackers, so that nothing of theirs is for this client.
            circle = f"circle:{PLACE},1000"
            self._subscriber.send(subscribe_packet([SITUATED], where="speed > 10", from_=circle))
        wanted = 1 + order.situated
        if not drive([self._subscriber], lambda: self._subscriber.counts[SubAck] == wanted):
            raise BenchmarkError("the honest client could not subscribe")

    def run(self) -> None:
        """Publish until the end of standard input; raise BenchmarkError if a connection ends."""
        os.set_blocking(sys.stdin.fileno(), False)
        due = time.perf_counter()
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin, selectors.EVENT_READ)
            for connection in (self._publisher, self._subscriber):
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            while True:
                left = due - time.perf_counter()
                for key, _ in selector.select(max(0.0, left)):
                    if key.data is not None:
                        key.data.read()
                    elif not self._obey():
                        return
                if time.perf_counter() >= due:
                    due = max(due + self._order.interval_s, time.perf_counter())
                    self._publish()
                self._publisher.write()
                if self._publisher.closed or self._subscriber.closed:
                    raise BenchmarkError("the broker closed a connection of the honest client")
                self._report()

    def _publish(self) -> None:
        self._number += 1
        payload = b'{"number":%d,"speed":50}' % self._number
        self._publish_one(message(PLAIN, payload))
        if self._order.situated:
            self._publish_one(message(SITUATED, payload, at=PLACE))

    def _publish_one(self, publish: Publish) -> None:
        for phase in self._begun:
            phase.waiting[publish.topic, self._number] = time.perf_counter_ns()
        self._publisher.send(encode(publish))

    def _arrived(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            key = (packet.topic, msgspec.json.decode(packet.payload)["number"])
            for phase in (*self._begun, *self._ended):
                phase.arrived(key)

    def _obey(self) -> bool:
        """Obey the commands that have come; return False at the end of input."""
        said = os.read(sys.stdin.fileno(), 1 << 12)
        for command in said.decode().split():
            if command == BEGIN:
                self._begun.append(Phase())
                # At once, so that even the shortest phase has a message.
                self._publish()
            else:
                self._ended.append(self._begun.pop())
                self._ended[-1].ended_ns = time.perf_counter_ns()
        return bool(said)

    def _report(self) -> None:
        """Answer for the phase that ended first, if all its messages are in."""
        if not self._ended:
            return
        waited_s = (time.perf_counter_ns() - self._ended[0].ended_ns) / 1e9
        if not self._ended[0].waiting or waited_s > self._order.lost_after_s:
            answer(self._ended.popleft().figures())


def answer(what: HonestAnswer) -> None:
    """Write one line to standard output."""
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Read an order, and be honest until the end of input."""
    os.sched_setaffinity(0, cores_apart()[1])
    try:
        HonestClient(msgspec.json.decode(sys.stdin.buffer.readline(), type=HonestOrder)).run()
    except (BenchmarkError, OSError) as error:
        answer(HonestFailed(f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
