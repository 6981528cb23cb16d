"""Attacks by sheer numbers of packets."""

from itertools import count, repeat

import msgspec

from nearcast.benchmarks.attacks.catalogue.attack import (
    PING,
    WINDOW,
    Attack,
    at_least_once,
    message,
    retained,
)
from nearcast.wire.mqtt import Properties, PubAck, Publish, encode

FLOOD_CLIENTS = 4
SMALL_PAYLOAD = b'{"speed":50,"note":"%s"}' % (b"x" * 100)
PING_ANSWER_BYTES = 2
PINGS_IN_PIECE = 1 << 15


class PingAttack(Attack):
    """PINGREQ packets without a pause."""

    unit = "pings answered"
    on_mosquitto = True
    clients: int

    def attack(self, turn: int) -> int:
        """Send all, and count the bytes of the answers."""
        attackers = self.open(*(f"attacker-{number}" for number in range(self.clients)))
        each = self.wanted // self.clients
        before = {attacker: attacker.received_bytes for attacker in attackers}
        for attacker in attackers:
            attacker.decodes = False
            whole, rest = divmod(each, PINGS_IN_PIECE)
            attacker.send(*[PING * PINGS_IN_PIECE] * whole, PING * rest)

        def answers() -> list[int]:
            return [(at.received_bytes - before[at]) // PING_ANSWER_BYTES for at in attackers]

        self.drive(attackers, lambda: min(answers()) >= each)
        return sum(answers())


class FewPings(PingAttack):
    """One client."""

    name = "ping-1m"
    describe = "1,000,000 PINGREQ from one client"
    full, quick, clients = 1_000_000, 50_000, 1


class ManyPings(PingAttack):
    """Four clients."""

    name = "ping-12m"
    describe = "12,000,000 PINGREQ from four clients"
    full, quick, clients = 12_000_000, 200_000, 4


class Flood(Attack):
    """Four clients that publish as fast as they can, with QoS 0."""

    name = "flood-qos0"
    describe = "400,000 messages of QoS 0 from four clients"
    unit = "messages read"
    full, quick = 400_000, 4_000
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Publish."""
        publishers = self.open(*(f"flood-{number}" for number in range(FLOOD_CLIENTS)))
        return self.flood(publishers, repeat(encode(message("attack/flood", SMALL_PAYLOAD))))


class AcknowledgedFlood(Attack):
    """The same with QoS 1."""

    name = "flood-qos1"
    describe = "100,000 messages of QoS 1 from four clients"
    unit = "messages acknowledged"
    full, quick = 100_000, 2_000
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Publish, with as many in flight as the broker allows."""
        publishers = self.open(*(f"flood-{number}" for number in range(FLOOD_CLIENTS)))
        each = self.wanted // FLOOD_CLIENTS
        sent = dict.fromkeys(publishers, 0)
        flood = message("attack/flood", SMALL_PAYLOAD)
        packets = [encode(at_least_once(flood, number + 1)) for number in range(2 * WINDOW)]

        def done() -> bool:
            for publisher in publishers:
                room = min(each, publisher.counts[PubAck] + WINDOW)
                for number in range(sent[publisher], room):
                    publisher.send(packets[number % len(packets)])
                sent[publisher] = max(room, sent[publisher])
                publisher.write()
            return all(at.closed or at.counts[PubAck] >= each for at in publishers)

        self.drive(publishers, done)
        return sum(publisher.counts[PubAck] - publisher.refused for publisher in publishers)


class RetainedFlood(Attack):
    """Retained messages, each on a topic of its own; another turn has other topics."""

    name = "retained-flood"
    describe = "50,000 retained messages of 1 KB on topics of their own"
    unit = "messages read"
    full, quick = 50_000, 1_000
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Publish."""
        publishers = self.open("flood")
        topics = (f"attack/kept/{turn}/{number}" for number in count())
        packets = (encode(retained(topic, b"x" * 1_000)) for topic in topics)
        return self.flood(publishers, packets)


class UserProperties(Attack):
    """Messages with as many and as large user properties as fit into a packet."""

    name = "user-properties"
    describe = "100 messages with 256 user properties of 4 KB"
    unit = "messages acknowledged"
    full, quick = 100, 5
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Publish."""
        (attacker,) = self.open("attacker")
        named = tuple((f"{number:0100}", "x" * 3_900) for number in range(256))
        properties = Properties(user_properties=named)
        large = Publish("attack/properties", b"{}").with_(properties)
        return self.acknowledged(attacker, [large] * self.wanted)


class ContextPatches(Attack):
    """Changes of all attributes of the attacker's context."""

    name = "context-patches"
    describe = "100 patches of 64 KB to $me/context"
    unit = "patches acknowledged"
    full, quick = 100, 5

    def attack(self, turn: int) -> int:
        """Patch."""
        (attacker,) = self.open("attacker")
        patches = [
            message("$me/context", msgspec.json.encode(self._patch(turn, number)))
            for number in range(self.wanted)
        ]
        return self.acknowledged(attacker, patches)

    def _patch(self, turn: int, number: int) -> dict[str, str]:
        value = f"{turn}-{number}-" + "x" * 200
        return {f"attribute-{part}": value for part in range(256)}
