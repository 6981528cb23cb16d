"""Directions between two points, and the strip across one of them."""

import math

from nearcast.core.compiled import compiled
from nearcast.core.relationships.silence.regions.region import GAP_M, HalfSpace, Point, Regions
from nearcast.core.relationships.silence.report import Report


def plus(point: Point, velocity: Point, seconds: float) -> Point:
    """Return where a point is after some time."""
    (x, y, z), (u, v, w) = point, velocity
    return (x + u * seconds, y + v * seconds, z + w * seconds)


def dot(a: Point, b: Point) -> float:
    """Return the inner product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def normal_towards(start: Point, end: Point) -> Point:
    """Return the unit vector from one point to another; zero if they coincide."""
    x, y, z = end[0] - start[0], end[1] - start[1], end[2] - start[2]
    length = math.sqrt(x * x + y * y + z * z)
    return (x / length, y / length, z / length) if length else (0.0, 0.0, 0.0)


def strip(mine: Report, theirs: Report, normal: Point, within: float, share: float) -> Regions:
    """Return half-spaces on the two sides of a strip, `share` of the slack being mine."""
    slack = dot(normal, theirs.point) - dot(normal, mine.point) - within - GAP_M
    assert slack > -GAP_M, "the strip is wider than what lies between"
    border = dot(normal, mine.point) + share * slack
    back = (-normal[0], -normal[1], -normal[2])
    return Regions(
        False, HalfSpace(normal, border), HalfSpace(back, -(border + within + GAP_M)), mine.time
    )


@compiled
def level_side(a: Point, b: Point, towards: Point) -> Point:
    """Return the level direction across `towards`; zero for quantities, which have none."""
    ux = a[0] + b[0]
    uy = a[1] + b[1]
    uz = a[2] + b[2]
    x = uy * towards[2] - uz * towards[1]
    y = uz * towards[0] - ux * towards[2]
    z = ux * towards[1] - uy * towards[0]
    length = math.sqrt(x * x + y * y + z * z)
    if length <= 1e-9 * math.sqrt(ux * ux + uy * uy + uz * uz):
        return (0.0, 0.0, 0.0)
    return (x / length, y / length, z / length)
