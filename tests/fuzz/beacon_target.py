"""Datagrams of strangers to a node without a broker.

Whatever arrives, the node goes on: an honest producer's event is delivered afterwards, once, and
what is kept stays bounded.
"""

from random import Random

from nearcast.core.model import circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.messages import Beacon
from nearcast.wire.beacons.datagram_codec import MAGIC, DatagramCodec
from nearcast.wire.beacons.group_key import KeyRing
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import mutated_bytes
from tests.support.plain.proximity_messages import random_message
from tests.support.radio_field import RadioField

_CODEC = DatagramCodec(KeyRing((), b""), 1_400)
_SIREN = event_type("siren", {"lane": int})


class BeaconTarget(FuzzTarget[tuple[bytes, ...]]):
    """Datagrams to a node that subscribed to everything."""

    name = "beacons"
    suite_cases = 60
    examples = {"nothing but the head": (MAGIC, MAGIC + b"\x00", MAGIC + b"\x00\x00")}  # noqa: RUF012

    def generate(self, random: Random) -> tuple[bytes, ...]:
        datagrams: list[bytes] = []
        for _ in range(random.randint(1, 12)):
            datagrams += _CODEC.encode(random_message(random))
        return tuple(
            mutated_bytes(random, each) if random.random() < 0.6 else each for each in datagrams
        )

    def check(self, case: tuple[bytes, ...]) -> None:
        field = RadioField()
        ann, honest = field.add("ann", 0), field.add("honest", 100)
        ann.subscribe("#")
        for each in case:
            # A forged beacon of now would be taken; those are of another time.
            found = DatagramCodec(KeyRing((), b""), 1_400).decode(each, 0.0)
            if isinstance(found, Beacon) and found.producer == "honest":
                continue
            ann._receive(each, "stranger")
        field.clock.run(1.0)
        honest.announce(_SIREN, circle("me", 150))
        field.clock.run(1.0)
        name = honest.raise_event("siren", {"lane": 1})
        field.clock.run(1.0)
        assert field.got("ann").count(name) == 1
        assert len(ann.node.proximities.discovered) <= 100
