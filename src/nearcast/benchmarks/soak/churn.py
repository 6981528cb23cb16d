"""Clients that come and go: one process of them, which may be killed at any moment.

Each step is drawn: somebody connects, goes with or without a word, subscribes in one of many ways,
moves, or publishes. Half of the sessions outlive their connections, and are come back to.
"""

import os
import random
import select
import sys
import time

import msgspec
from msgspec import Struct

from nearcast.benchmarks.attacks.catalogue.attack import message, retained, subscribe_packet
from nearcast.benchmarks.attacks.raw_connection import HONEST_ADDRESS, RawConnection, drive
from nearcast.benchmarks.this_machine import cores_apart
from nearcast.wire.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    Properties,
    PubAck,
    Publish,
    Subscribe,
    TopicFilter,
    Unsubscribe,
    encode,
)

NAMES = 100
TOPICS = 20
SESSION_EXPIRY_S = 30
FILTERS = (
    {"where": "speed > 30"},
    {"where": "kind IN ('bus','tram') AND distance(me, event) < 2000"},
    {"from_": "circle:me,1500"},
    {"where": "level > 5", "from_": "bbox:48.1,16.2,48.3,16.5"},
    {"where": "count('soak/churn/#', 'speed > 40', 1000) < 50"},
    {"where": "CASEI(note) LIKE '%road%'"},
    {"meta": "1"},
)
TARGETS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"to": "circle:48.2,16.37,2000"},
    {"valid": "5"},
    {"valid": "10", "object": "o"},
)


class ChurnOrder(Struct, frozen=True):
    """How many clients there are, and how much they do."""

    port: int
    name: str
    seed: int
    clients: int
    steps_per_s: float


class Churn:
    """The clients of one process."""

    def __init__(self, order: ChurnOrder) -> None:
        self._order = order
        self._chance = random.Random(order.seed)
        self._clients: dict[str, RawConnection] = {}
        self._packet_id = 0

    def step(self) -> None:
        """Do one thing."""
        chance = self._chance
        gone = [name for name, each in self._clients.items() if each.closed]
        for name in gone:
            del self._clients[name]
        if len(self._clients) < self._order.clients and chance.random() < 0.3:
            self._come(f"churn-{self._order.name}-{chance.randrange(NAMES)}")
        if not self._clients:
            return
        name = chance.choice(list(self._clients))
        client = self._clients[name]
        act = chance.choices(
            (self._go, self._subscribe, self._unsubscribe, self._move, self._publish),
            (1, 3, 2, 6, 10),
        )[0]
        act(client)
        client.write()

    def drive(self, seconds: float) -> None:
        """Send and read for so long."""
        until = time.monotonic() + seconds
        drive(list(self._clients.values()), lambda: time.monotonic() >= until, seconds)
        if (left := until - time.monotonic()) > 0.0:
            time.sleep(left)

    def _come(self, name: str) -> None:
        if name in self._clients:
            return
        lasts = hash_of(name) % 2 == 0
        properties = Properties(session_expiry_interval=SESSION_EXPIRY_S if lasts else 0)
        try:
            client = RawConnection(self._order.port, HONEST_ADDRESS)
        except OSError:
            return
        client.on_packet = lambda packet: acknowledge(client, packet)
        client.send(encode(Connect(name, clean_start=not lasts, properties=properties)))
        drive([client], lambda: client.counts[ConnAck] > 0)
        self._clients[name] = client

    def _go(self, client: RawConnection) -> None:
        if self._chance.random() < 0.5:
            client.send(encode(Disconnect()))
            client.write()
        client.close()

    def _subscribe(self, client: RawConnection) -> None:
        if self._chance.random() < 0.3:
            wanted = TopicFilter(self._topic(), self._chance.randrange(2))
            client.send(encode(Subscribe(self._next_id(), (wanted,))))
            return
        client.send(subscribe_packet([self._pattern()], **self._chance.choice(FILTERS)))

    def _unsubscribe(self, client: RawConnection) -> None:
        topics = (self._topic(), self._pattern())
        client.send(encode(Unsubscribe(self._next_id(), topics)))

    def _move(self, client: RawConnection) -> None:
        lat, lon = self._chance.uniform(48.15, 48.25), self._chance.uniform(16.3, 16.45)
        client.send(encode(message("$me/position", b"%.5f,%.5f" % (lat, lon))))

    def _publish(self, client: RawConnection) -> None:
        chance = self._chance
        attributes = {
            "speed": chance.randrange(80),
            "level": chance.randrange(10),
            "kind": chance.choice(("bus", "tram", "car")),
            "note": "a road " * chance.randrange(20),
        }
        payload = msgspec.json.encode(attributes)
        at = f"{chance.uniform(48.15, 48.25):.5f},{chance.uniform(16.3, 16.45):.5f}"
        if chance.random() < 0.2:
            client.send(encode(retained(self._topic(), payload)))
        else:
            client.send(encode(message(self._topic(), payload, at=at, **chance.choice(TARGETS))))

    def _topic(self) -> str:
        return f"soak/churn/{self._chance.randrange(TOPICS)}"

    def _pattern(self) -> str:
        return self._chance.choice(("soak/churn/#", "soak/churn/+", self._topic()))

    def _next_id(self) -> int:
        self._packet_id = self._packet_id % 0xFFFF + 1
        return self._packet_id


def hash_of(name: str) -> int:
    """A number for a name, the same in every process."""
    return sum(name.encode())


def acknowledge(client: RawConnection, packet: Packet) -> None:
    """Acknowledge a message of QoS 1."""
    if isinstance(packet, Publish) and packet.qos:
        client.send(encode(PubAck(packet.packet_id)))


def main() -> None:
    """Read an order, and go on until the end of input, if the process is not killed before."""
    os.sched_setaffinity(0, cores_apart()[1])
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ChurnOrder)
    churn = Churn(order)
    while not select.select([sys.stdin], [], [], 0.0)[0]:
        churn.step()
        churn.drive(1.0 / order.steps_per_s)


if __name__ == "__main__":
    main()
