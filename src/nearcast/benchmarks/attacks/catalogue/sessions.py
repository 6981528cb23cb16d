"""Attacks by connections: many that come and go, with wills, and with packets that never end."""

import time
from itertools import repeat

from nearcast.benchmarks.attacks.catalogue.attack import Attack, message
from nearcast.wire.mqtt import ConnAck, Connect, Disconnect, Publish, Will, encode

HALF_PACKET_BYTES = 1_000_000
HELD_S = 2.0
AT_ONCE = 50


class ConnectStorm(Attack):
    """Clients that connect and disconnect at once, each with a name of its own."""

    name = "connect-storm"
    describe = "2,000 clients that connect and disconnect at once"
    unit = "clients let in"
    full, quick = 2_000, 100
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Come and go."""
        done = 0
        for first in range(0, self.wanted, AT_ONCE):
            names = (f"storm-{turn}-{first + number}" for number in range(AT_ONCE))
            group = self.open(*names)
            for connection in group:
                done += connection.counts[ConnAck]
                connection.send(encode(Disconnect()))
                connection.write()
                connection.close()
        return done


class MassDisconnect(Attack):
    """Clients with a position and a subscription that all go at once, without a word."""

    name = "mass-disconnect"
    describe = "2,000 clients with a subscription that all hang up at once"
    unit = "clients let in"
    full, quick = 2_000, 100
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Come, subscribe, and go."""
        opened = self.open(*(f"mass-{turn}-{number}" for number in range(self.wanted)))
        self.subscribe(opened, "attack/mass/#")
        done = sum(connection.counts[ConnAck] for connection in opened)
        for connection in opened:
            connection.close()
        return done


class WillStorm(Attack):
    """Clients with wills that all hang up at once, and one that listens for the wills."""

    name = "will-storm"
    describe = "1,000 clients with a will of 1 KB that all hang up at once"
    unit = "wills received"
    full, quick = 1_000, 50
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Come, hang up, and count the wills."""
        (listener,) = self.open("listener")
        self.subscribe([listener], "attack/will/#")
        opened = self.open_with(
            [
                Connect(f"will-{turn}-{number}", will=Will(f"attack/will/{number}", b"x" * 1_000))
                for number in range(self.wanted)
            ]
        )
        for connection in opened:
            connection.close()
        self.drive([listener], lambda: listener.counts[Publish] >= len(opened))
        return listener.counts[Publish]


class HalfPackets(Attack):
    """Packets of which the last byte never comes."""

    name = "half-packets"
    describe = "500 connections with all but the last byte of a packet of 1 MB"
    unit = "packets sent in part"
    full, quick = 500, 20
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Send the parts, and keep the broker waiting for a while."""
        opened = self.open(*(f"half-{number}" for number in range(self.wanted)))
        packet = encode(message("attack/half", b"x" * HALF_PACKET_BYTES))
        for connection in opened:
            connection.send(packet[:-1])
        self.drive(opened, lambda: not any(each.has_unsent for each in opened))
        sent = sum(not each.closed and not each.has_unsent for each in opened)
        until = time.monotonic() + HELD_S
        self.drive(opened, lambda: time.monotonic() >= until)
        return sent


class NeverReads(Attack):
    """Subscribers that never read, while another client publishes for them."""

    name = "never-reads"
    describe = "4 subscribers that never read, 20,000 messages of 10 KB for each"
    unit = "messages published"
    full, quick = 20_000, 500
    on_mosquitto = True

    def attack(self, turn: int) -> int:
        """Subscribe, stop reading, and publish."""
        silent = self.open(*(f"silent-{number}" for number in range(4)))
        self.subscribe(silent, "attack/unread")
        # `flood` reads on the publisher's connection alone.
        (publisher,) = self.open("publisher")
        return self.flood([publisher], repeat(encode(message("attack/unread", b"x" * 10_000))))
