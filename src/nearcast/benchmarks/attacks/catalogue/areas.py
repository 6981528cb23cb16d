"""Attacks by areas that cost much to move, to index or to test."""

import math
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from nearcast.benchmarks.attacks.catalogue.attack import Attack, message, retained
from nearcast.wire.mqtt import encode

LIVE_EVENTS = 3_000
LISTENERS = 300
POLYGONS = 100
POLYGON_POINTS = 9_000
PLACE_POINTS = 60_000
PLACE_RADIUS_DEG = 2.0


class MoveAttack(Attack):
    """A node with live events round it, and many who listen for them by where that node is."""

    unit = "moves acknowledged"
    full, quick = 3, 1
    subscription: ClassVar[dict[str, str]]
    target: ClassVar[dict[str, str]]

    def prepare(self) -> None:
        """Publish the live events, of which none is for any of the subscribers."""
        (self._carrier,) = self.open("carrier")
        self._carrier.send(encode(message("$me/position", b"48.2,16.37")))
        listeners = self.open(
            *(f"listener-{number}" for number in range(self.site.size(LISTENERS, 20)))
        )
        for number, listener in enumerate(listeners):
            position = b"48.2,%.5f" % (16.37 + number / 100_000)
            listener.send(encode(message("$me/position", position)))
        self.require(self.subscribe(listeners, "attack/live/#", **self.subscription))
        places = circle_points(self.site.size(LIVE_EVENTS, 100), 0.004)
        live = [
            message(f"attack/live/{number}", b'{"level":1}', **self._options(*place))
            for number, place in enumerate(places)
        ]
        self.require(self.acknowledged(self._carrier, live) == len(live))

    def _options(self, lon: float, lat: float) -> dict[str, str]:
        return {"at": f"{48.2 + lat:.5f},{16.37 + lon:.5f}", "valid": "3600", **self.target}

    def attack(self, turn: int) -> int:
        """Move the node back and forth, by some metres."""
        moves = [
            message("$me/position", b"%.5f,16.37" % (48.2 + (turn + number) % 2 / 10_000))
            for number in range(1, self.wanted + 1)
        ]
        return self.acknowledged(self._carrier, moves)


class MovedAreas(MoveAttack):
    """The areas of the subscriptions move with the node."""

    name = "move-live"
    describe = "3 moves of a node with 3,000 live events round it, 300 subscribers round it"
    subscription: ClassVar = {"from_": "circle:carrier,1000", "where": "level > 5"}
    target: ClassVar = {}


class MovedTargets(MoveAttack):
    """The targets of the live events move with the node."""

    name = "move-targets"
    describe = "3 moves of a node with 3,000 live events whose targets move, 300 subscribers"
    subscription: ClassVar = {"where": "distance(me, publisher) < 5 AND level > 5"}
    target: ClassVar = {"to": "circle:carrier,1000"}


class MovingPolygons(Attack):
    """Subscriptions with large polygons that move with the attacker."""

    name = "polygons-100"
    describe = "100 moving polygons of 9,000 points, then 10 moves and 10 events"
    unit = "messages acknowledged"
    full, quick = POLYGONS + 20, 5

    def attack(self, turn: int) -> int:
        """Subscribe, move and publish."""
        (attacker,) = self.open("attacker")
        moves = 10 if self.wanted > POLYGONS else 1
        messages = [
            message(f"$me/subscriptions/s{number}", msgspec.json.encode(self._wish(number)))
            for number in range(self.wanted - 2 * moves)
        ]
        for number in range(moves):
            position = b"48.2,%.5f" % (16.37 + number / 10_000)
            messages.append(message("$me/position", position))
            messages.append(message("attack/moved", at="48.2001,16.3701"))
        return self.acknowledged(attacker, messages)

    def _wish(self, number: int) -> dict[str, object]:
        ring = [[round(east), round(north)] for east, north in circle_points(
            self.site.size(POLYGON_POINTS, 500), 20_000 + number
        )]  # fmt: skip
        area = {"moving": {"with": "attacker", "polygon": [[*ring, ring[0]]]}}
        return {"subject": "attack/#", "from": area}


class LargePlace(Attack):
    """A place with as many vertices as fit into a packet."""

    name = "place-60k"
    describe = "a place of 60,000 vertices, a subscription to it and 10 events there"
    unit = "messages acknowledged"
    full, quick = 11, 2

    def attack(self, turn: int) -> int:
        """Define the place, subscribe and publish."""
        (attacker,) = self.open("attacker")
        ring = [
            [round(5.5 + east, 4), round(5.5 + north, 4)]
            for east, north in circle_points(self.site.size(PLACE_POINTS, 1_000), PLACE_RADIUS_DEG)
        ]
        shape = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
        place = retained(f"$place/attack/large{turn}", msgspec.json.encode(shape))
        done = self.acknowledged(attacker, [place])
        self.subscribe([attacker], "attack/#", from_=f"place:attack/large{turn}")
        events = [message("attack/there", at="5.5,3.50001")] * (self.wanted - 1)
        return done + self.acknowledged(attacker, events)


def circle_points(count: int, radius: float) -> Iterator[tuple[float, float]]:
    """Points on a circle round 0, against the clock."""
    for number in range(count):
        angle = 2.0 * math.pi * number / count
        yield radius * math.cos(angle), radius * math.sin(angle)
