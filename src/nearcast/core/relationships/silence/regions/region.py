"""Regions: where a member of a relationship keeps silent (seed A's range ring, and other shapes).

Points are in space, in metres: of a position the point on the ellipsoid (`position_point`), of any
other quantity a point on a line (`quantity_point`). Two regions of a pair fit if no two points of
them contradict the state of the relationship: far regions are farther apart than the distance,
near regions have no two points farther apart than it. A region may move with a velocity for a
while, which is useful only where the clocks of both members agree.
"""

import math
from typing import TypeAlias

from msgspec import Struct

from nearcast.core.model.geometry.geodesy import chord_limit_m, ecef
from nearcast.core.model.geometry.position import Position

Point: TypeAlias = tuple[float, float, float]
STILL: Point = (0.0, 0.0, 0.0)
GAP_M = 1e-6
"""Left between regions against rounding: coordinates in space have an error of some nanometres."""


def position_point(position: Position) -> Point:
    """Return the point in space of a position."""
    return ecef(float(position.lat), float(position.lon))


def quantity_point(value: float) -> Point:
    """Return the point of a quantity other than position, such as a temperature."""
    return (value, 0.0, 0.0)


def position_limit(within_m: float) -> float:
    """Return the distance in space at which positions are exactly `within_m` apart."""
    return chord_limit_m(float(within_m))


def distance(a: Point, b: Point) -> float:
    """Return the distance of two points in space."""
    return math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2)


class HalfSpace(Struct, frozen=True, tag="half-space", gc=False):
    """All on one side of a plane: ``normal · point <= limit``; the plane may move."""

    normal: Point
    limit: float
    speed_mps: float = 0.0

    def margin(self, point: Point, moved_s: float) -> float:
        """Return how far a point is inside; negative outside."""
        x, y, z = self.normal
        inside = self.limit - (x * point[0] + y * point[1] + z * point[2])
        return inside + self.speed_mps * moved_s


class Ball(Struct, frozen=True, tag="ball", gc=False):
    """All within a radius of a centre, which may move."""

    centre: Point
    radius: float
    velocity: Point = STILL

    def margin(self, point: Point, moved_s: float) -> float:
        """Return how far a point is inside; negative outside."""
        (x, y, z), (u, v, w) = self.centre, self.velocity
        return self.radius - math.sqrt(
            (x + u * moved_s - point[0]) ** 2
            + (y + v * moved_s - point[1]) ** 2
            + (z + w * moved_s - point[2]) ** 2
        )


class OutsideBall(Struct, frozen=True, tag="outside-ball", gc=False):
    """All farther than a radius from a centre."""

    centre: Point
    radius: float

    def margin(self, point: Point, moved_s: float) -> float:
        """Return how far a point is inside; negative in the ball."""
        return distance(self.centre, point) - self.radius


Region: TypeAlias = HalfSpace | Ball | OutsideBall


class Regions(Struct, frozen=True, gc=False):
    """The regions of two members: of the one who told them, and of its peer."""

    near: bool
    """The state of the relationship while both are inside."""
    teller: Region
    peer: Region
    since: float = 0.0
    moves_s: float = 0.0
    """How long after `since` they move."""

    def teller_margin(self, point: Point, now: float) -> float:
        """Return how far the teller is inside its region."""
        return self.teller.margin(point, min(max(now - self.since, 0.0), self.moves_s))

    def peer_margin(self, point: Point, now: float) -> float:
        """Return how far its peer is inside its own."""
        return self.peer.margin(point, min(max(now - self.since, 0.0), self.moves_s))

    def of(self, *, told: bool) -> Region:
        """Return the region of the one who told them, or of its peer."""
        return self.teller if told else self.peer
