"""The five scenarios of seed D: where their entities are, in metres round the producer (Figure 13).

The text places A and B on a two-way road of 1,400 m, C on the approaches of an intersection, D
anywhere, E evenly over the area. Where it says no more, C has two crossing roads, D and E a square,
of 1,400 m each.
"""

import math
from collections.abc import Callable
from random import Random

from msgspec import Struct

from nearcast.core.model.geometry.position import Position

CENTRE = Position(53.354, -6.288)
HALF_M = 700.0
LANE_M = 1.75
RANGE_M = 200.0
MPH = 0.44704
PROXIMITIES_M = (100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0)
SATURATIONS = (60, 120, 180, 240)
_METRES_NORTH = 111_267.0
_METRES_EAST = 111_412.0 * math.cos(math.radians(CENTRE.lat)) + 65.0

Place = tuple[float, float]
"""Metres east and north."""


class Scenario(Struct, frozen=True):
    """A scenario: its name, and how its entities are placed."""

    letter: str
    name: str
    place: Callable[[Random, int, int], Place]
    """Called with a generator, the number of an entity, and how many there are."""


def position(place: Place) -> Position:
    """Return the position of a place."""
    east, north = place
    return Position(CENTRE.lat + north / _METRES_NORTH, CENTRE.lon + east / _METRES_EAST)


def places(scenario: Scenario, saturation: int, seed: int) -> list[Place]:
    """Return where the entities of a run are."""
    random = Random(f"{seed}/{scenario.letter}/{saturation}")
    return [scenario.place(random, number, saturation) for number in range(saturation)]


def _on_road(random: Random, number: int, count: int) -> Place:
    return random.uniform(-HALF_M, HALF_M), random.choice((-LANE_M, LANE_M))


def _on_crossing_roads(random: Random, number: int, count: int) -> Place:
    along, across = _on_road(random, number, count)
    return (along, across) if number % 2 else (across, along)


def _anywhere(random: Random, number: int, count: int) -> Place:
    return random.uniform(-HALF_M, HALF_M), random.uniform(-HALF_M, HALF_M)


def _evenly(random: Random, number: int, count: int) -> Place:
    """Each in the middle of an equal part of the area, a little off it."""
    rows = round(math.sqrt(count))
    columns = -(-count // rows)
    row, column = divmod(number, columns)
    east = (column + 0.5) / columns + random.uniform(-0.1, 0.1) / columns
    north = (row + 0.5) / rows + random.uniform(-0.1, 0.1) / rows
    return (2.0 * east - 1.0) * HALF_M, (2.0 * north - 1.0) * HALF_M


SCENARIOS = (
    Scenario("A", "broken-down car", _on_road),
    Scenario("B", "ambulance", _on_road),
    Scenario("C", "traffic light", _on_crossing_roads),
    Scenario("D", "augmented-reality game", _anywhere),
    Scenario("E", "search and rescue", _evenly),
)
