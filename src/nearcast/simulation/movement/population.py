"""Populations: walkers, vehicles on a street grid, buses on lines, and replayed tracks.

Each node's position is a function of time alone. A city grows with its population, so that however
many nodes there are, they are as dense.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import Protocol

from msgspec import Struct

from nearcast.core.model.geometry.position import Position
from nearcast.simulation.movement.city import City, spot
from nearcast.simulation.movement.movement import Tour, random_tour, street_tour, tour

WALKER_M2 = 400.0
VEHICLES_PER_CROSSING = 1.0
BUSES_PER_LINE = 4
WALKER_MPS, VEHICLE_MPS, BUS_MPS = (1.0, 1.8), (6.0, 14.0), (7.0, 9.0)


class MovementKind(Enum):
    """How nodes move."""

    WALKERS = "walkers"
    VEHICLES = "vehicles"
    BUSES = "buses"


class Course(Protocol):
    """Where a node is at a time."""

    def at(self, time_s: float) -> Position:
        """Return the position."""


class MovingNode(Struct, frozen=True):
    """A node and its course."""

    name: str
    course: Course


class RecordedCourse(Struct, frozen=True):
    """A real track: at each time the fix before, or its first."""

    times_s: Sequence[float]
    positions: Sequence[Position]

    def at(self, time_s: float) -> Position:
        """Return the last position recorded."""
        return self.positions[max(bisect_right(self.times_s, time_s) - 1, 0)]


def population(kind: MovementKind, nodes: int, seed: int) -> list[MovingNode]:
    """Return nodes that move in one way, drawn from a seed."""
    random = Random(f"{seed}/{kind.value}")
    if kind is MovementKind.WALKERS:
        side_m = math.sqrt(nodes * WALKER_M2)
        return [MovingNode(f"walker-{n}", _walk(random, side_m)) for n in range(nodes)]
    side = max(3, math.ceil(math.sqrt(nodes / VEHICLES_PER_CROSSING)))
    city = City(columns=side, rows=side, places=())
    if kind is MovementKind.VEHICLES:
        return [
            MovingNode(f"vehicle-{n}", random_tour(city, random, random.uniform(*VEHICLE_MPS), 6))
            for n in range(nodes)
        ]
    found: list[MovingNode] = []
    while len(found) < nodes:
        found += _line(city, random, len(found), min(BUSES_PER_LINE, nodes - len(found)))
    return found


def _walk(random: Random, side_m: float) -> Tour:
    """A walk between random spots of a square, begun anywhere on it."""
    half_m = side_m / 2.0
    spots = [
        spot(random.uniform(-half_m, half_m), random.uniform(-half_m, half_m)) for _ in range(12)
    ]
    walk = tour(spots, random.uniform(*WALKER_MPS))
    return Tour(
        walk.corners, walk.travelled_m, walk.speed_mps, random.uniform(0.0, walk.travelled_m[-1])
    )


def _line(city: City, random: Random, first: int, count: int) -> list[MovingNode]:
    """The buses of one line, at equal distances along it."""
    stops = [
        (random.randrange(city.columns), random.randrange(city.rows)),
        (random.randrange(city.columns), random.randrange(city.rows)),
    ]
    if stops[0] == stops[1]:
        stops[1] = ((stops[0][0] + 1) % city.columns, stops[0][1])
    length_m = street_tour(city, stops, 0.0).travelled_m[-1]
    speed_mps = random.uniform(*BUS_MPS)
    return [
        MovingNode(
            f"bus-{first + n}", street_tour(city, stops, speed_mps, n * length_m / BUSES_PER_LINE)
        )
        for n in range(count)
    ]
