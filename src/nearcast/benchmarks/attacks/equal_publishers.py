"""A hundred honest publishers of equal load, and how many messages of each get through.

Each publishes at the same rate, with QoS 1 and a few messages in flight. A subscriber counts what
arrives, topic by topic. For every line of standard input they publish for some seconds, and the
counts are written.
"""

import os
import sys
import time

import msgspec
from msgspec import Struct

from nearcast.benchmarks.attacks.catalogue.attack import at_least_once, message, subscribe_packet
from nearcast.benchmarks.attacks.raw_connection import RawConnection, connected, drive
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.this_machine import cores_apart
from nearcast.wire.mqtt import Connect, Packet, PubAck, Publish, SubAck, encode

TOPIC = "honest/share"
IN_FLIGHT = 20
STEP_S = 0.01
PAYLOAD = b'{"speed":50,"note":"%s"}' % (b"x" * 100)


class ShareOrder(Struct, frozen=True):
    """How many publishers there are, and for how long they publish."""

    port: int
    publishers: int
    seconds: float
    per_s: float = 50.0
    """Messages of one publisher in a second."""


class Shares(Struct, frozen=True, tag=True):
    """Messages that arrived in time, by publisher."""

    messages: list[int]


class SharesFailed(Struct, frozen=True, tag=True):
    """The publishers could not publish."""

    reason: str


SharesAnswer = Shares | SharesFailed


class EqualPublishers:
    """The publishers and their subscriber."""

    def __init__(self, order: ShareOrder) -> None:
        self._order = order
        self._messages = [0] * order.publishers
        self._publishers = [
            connected(order.port, Connect(f"share-{n}")) for n in range(order.publishers)
        ]
        self._subscriber = connected(order.port, Connect("share-subscriber"))
        self._subscriber.on_packet = self._arrived
        self._subscriber.send(subscribe_packet([f"{TOPIC}/+"]))
        if not drive([self._subscriber], lambda: self._subscriber.counts[SubAck] == 1):
            raise BenchmarkError("the subscriber of the shares was not let in")
        self._packets = [
            [encode(at_least_once(message(f"{TOPIC}/{n}", PAYLOAD), i + 1)) for i in range(256)]
            for n in range(order.publishers)
        ]
        self._sent = [0] * order.publishers

    def publish(self) -> Shares:
        """Publish for the time of the order, and wait until all is acknowledged."""
        before, sent = list(self._messages), list(self._sent)
        began = time.monotonic()
        connections = [*self._publishers, self._subscriber]

        def is_over() -> bool:
            elapsed_s = time.monotonic() - began
            due = int(self._order.per_s * elapsed_s) + 1
            for number, publisher in enumerate(self._publishers):
                self._send(number, publisher, sent[number] + due)
            return elapsed_s >= self._order.seconds

        drive(connections, is_over, 2.0 * self._order.seconds, STEP_S)
        after = list(self._messages)
        if any(each.closed for each in connections):
            raise BenchmarkError("the broker closed a connection of an honest publisher")
        drive(connections, lambda: all(map(self._is_idle, range(self._order.publishers))))
        return Shares([now - then for now, then in zip(after, before, strict=True)])

    def _send(self, number: int, publisher: RawConnection, due: int) -> None:
        packets = self._packets[number]
        while self._sent[number] < min(due, publisher.counts[PubAck] + IN_FLIGHT):
            publisher.send(packets[self._sent[number] % len(packets)])
            self._sent[number] += 1
        publisher.write()

    def _is_idle(self, number: int) -> bool:
        return self._publishers[number].counts[PubAck] >= self._sent[number]

    def _arrived(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self._messages[int(packet.topic.rpartition("/")[2])] += 1


def main() -> None:
    """Read an order, and publish for every line that follows."""
    os.sched_setaffinity(0, cores_apart()[1])
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ShareOrder)
    answer: SharesAnswer
    publishers = None
    for _ in sys.stdin.buffer:
        try:
            publishers = publishers or EqualPublishers(order)
            answer = publishers.publish()
        except (BenchmarkError, OSError) as error:
            answer = SharesFailed(f"{type(error).__name__}: {error}")
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
