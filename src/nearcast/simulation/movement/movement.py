"""Movement: the position of a node at a time, from its tour alone.

A tour is a closed route along streets, travelled repeatedly at one speed. The position is a
function of time, without steps and without state: any time can be queried, in any order, and the
same seed gives the same answer.
"""

from bisect import bisect_right
from itertools import accumulate, pairwise
from random import Random

from msgspec import Struct

from nearcast.core.model.geometry.position import Position
from nearcast.simulation.movement.city import City, Crossing


class Tour(Struct, frozen=True):
    """A closed route, its speed, and the distance along it at time 0."""

    corners: tuple[Position, ...]
    """The first is also the last."""
    travelled_m: tuple[float, ...]
    """The distance from the start to each corner, along the route."""
    speed_mps: float
    start_m: float = 0.0

    def at(self, time_s: float) -> Position:
        """Return the position at a time."""
        length_m = self.travelled_m[-1]
        if length_m == 0.0:
            return self.corners[0]
        along_m = (self.start_m + self.speed_mps * time_s) % length_m
        # By rounding, the remainder may equal the length itself.
        leg = min(bisect_right(self.travelled_m, along_m), len(self.corners) - 1) - 1
        begin_m, end_m = self.travelled_m[leg : leg + 2]
        return _between(
            self.corners[leg], self.corners[leg + 1], (along_m - begin_m) / (end_m - begin_m)
        )


def tour(corners: list[Position], speed_mps: float, start_m: float = 0.0) -> Tour:
    """Return the tour over some corners and back to the first; with one corner it stands still."""
    closed = [corners[0]]
    # A leg without length would have no direction.
    closed += (after for before, after in pairwise([*corners, corners[0]]) if after != before)
    lengths = (before.distance_m(after) for before, after in pairwise(closed))
    return Tour(tuple(closed), tuple(accumulate(lengths, initial=0.0)), speed_mps, start_m)


def street_tour(city: City, stops: list[Crossing], speed_mps: float, start_m: float = 0.0) -> Tour:
    """Return the tour along streets through some crossings in order."""
    crossings = [stops[0]]
    for stop in [*stops[1:], stops[0]]:
        crossings += city.route(crossings[-1], stop)
    return tour([city.position(crossing) for crossing in crossings], speed_mps, start_m)


def random_tour(city: City, random: Random, speed_mps: float, stops: int = 4) -> Tour:
    """Return a tour through random crossings, with a random start along it."""
    drawn = [
        (random.randrange(city.columns), random.randrange(city.rows)) for _ in range(max(stops, 2))
    ]
    if len(set(drawn)) == 1:
        drawn[-1] = ((drawn[0][0] + 1) % city.columns, drawn[0][1])
    found = street_tour(city, drawn, speed_mps)
    return Tour(
        found.corners, found.travelled_m, speed_mps, random.uniform(0.0, found.travelled_m[-1])
    )


def _between(start: Position, end: Position, share: float) -> Position:
    return Position(
        start.lat + (end.lat - start.lat) * share, start.lon + (end.lon - start.lon) * share
    )
