"""Attacks by subscriptions: many, again and again, and one that is owed a lot."""

import time
from collections.abc import Sequence

from nearcast.benchmarks.attacks.catalogue.attack import Attack, retained, subscribe_packet
from nearcast.benchmarks.attacks.raw_connection import RawConnection
from nearcast.wire.mqtt import Packet, Publish, SubAck, UnsubAck, Unsubscribe, encode

ENDED_S = 5.0
"""Without a message for so long, a replay has ended."""
FILTERS_IN_PACKET = 1_000
"""As many as the broker takes."""
RETAINED_PAYLOAD = b'{"note":"%s"}' % (b"x" * 80)


class RetainedReplay(Attack):
    """One SUBSCRIBE over very many retained messages."""

    name = "retained-replay"
    describe = "one SUBSCRIBE over 100,000 retained messages"
    unit = "messages received"
    full, quick = 100_000, 2_000
    on_mosquitto = True

    def prepare(self) -> None:
        """Publish the retained messages."""
        (publisher,) = self.open("publisher")
        for number in range(self.wanted):
            topic = f"attack/kept/{number % 100}/{number}"
            publisher.send(encode(retained(topic, RETAINED_PAYLOAD)))
        self.require(self.settle([publisher]))

    def attack(self, turn: int) -> int:
        """Subscribe, and read all of them."""
        (attacker,) = self.open("attacker")
        attacker.send(subscribe_packet(["attack/kept/#"]))
        came, since = 0, time.monotonic()

        def done() -> bool:
            nonlocal came, since
            if came < attacker.counts[Publish]:
                came, since = attacker.counts[Publish], time.monotonic()
            # A broker that drops some of them never sends the rest.
            return came >= self.wanted or (came > 0 and time.monotonic() - since > ENDED_S)

        self.drive([attacker], done)
        return came


class ManySubscriptions(Attack):
    """As many subscriptions as a session may have, made and ended."""

    name = "subscriptions-10k"
    describe = "10,000 subscriptions, then UNSUBSCRIBE of all"
    unit = "filters answered"
    full, quick = 20_000, 2_000
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Subscribe in large packets, and unsubscribe."""
        (attacker,) = self.open("attacker")
        names = [f"attack/{number % 7}/+/{number}/#" for number in range(self.wanted // 2)]
        parts = list(in_packets(names))
        attacker.send(*(subscribe_packet(part) for part in parts))
        done = self._answers(attacker, SubAck, parts)
        attacker.send(*(encode(Unsubscribe(1, tuple(part))) for part in parts))
        return done + self._answers(attacker, UnsubAck, parts)

    def _answers(
        self, attacker: RawConnection, kind: type[Packet], parts: Sequence[Sequence[str]]
    ) -> int:
        self.answered([attacker], kind, len(parts))
        return sum(map(len, parts[: attacker.counts[kind]]))


class RepeatedSubscribe(Attack):
    """The same 1,000 subscriptions again and again."""

    name = "subscribe-1000"
    describe = "SUBSCRIBE with 1,000 filters, 50 times"
    unit = "packets answered"
    full, quick = 50, 3
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Subscribe."""
        (attacker,) = self.open("attacker")
        packet = subscribe_packet(f"attack/+/{number}/#" for number in range(FILTERS_IN_PACKET))
        attacker.send(*[packet] * self.wanted)
        self.answered([attacker], SubAck, self.wanted)
        return attacker.counts[SubAck]


def in_packets(names: Sequence[str]) -> list[Sequence[str]]:
    """Topic filters in as few packets as there can be."""
    return [
        names[first : first + FILTERS_IN_PACKET]
        for first in range(0, len(names), FILTERS_IN_PACKET)
    ]
