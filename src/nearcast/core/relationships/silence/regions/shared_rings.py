"""Shared rings: one region for each member of a group, whatever the number of its relationships.

Seed A's range ring extended to groups. Everyone knows where each member last reported and the
radius round it; for each two members the radii together are at most what lies between their
distance and the wanted one. Whoever leaves its ring tells all at once, in one report: its new
place, its new radius, and smaller ones for those who would otherwise be in the way, each of whom
checks whether it is outside. At a constant density a member's ring depends on those near it, so
messages grow with the number of members, not of pairs.
"""

import math

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.relationships.silence.regions.region import GAP_M, Point

F64 = npt.NDArray[np.float64]


class SharedRings:
    """What all members of a group know of each other."""

    def __init__(self, points: list[Point], within: float) -> None:
        self._within = within
        self._reported = np.array(points, np.float64).reshape(-1, 3)
        self._now = self._reported.copy()
        self.radii = np.full(len(points), math.inf)
        for member in range(len(points)):
            leave(self._reported, self.radii, member, within)

    def fix(self, member: int, point: Point) -> list[int]:
        """Take a fix; return who reports, in order: the member, and those who find themselves out.

        All that is reported is known to all when this returns.
        """
        self._now[member] = point
        if math.dist(point, self._reported[member]) <= self.radii[member]:
            return []
        reporters = [member]
        for reporter in reporters:
            self._reported[reporter] = self._now[reporter]
            leave(self._reported, self.radii, reporter, self._within)
            moved = np.sqrt(((self._now - self._reported) ** 2).sum(axis=1))
            outside = np.flatnonzero(moved > self.radii).tolist()
            reporters += [each for each in outside if each not in reporters]
        return reporters

    def near(self) -> "npt.NDArray[np.bool_]":
        """Return for each two members whether they are near, as all know from the last reports."""
        return near_pairs(self._reported, self._within)


def near_pairs(points: F64, within: float) -> "npt.NDArray[np.bool_]":
    """Return for each two points whether they are within a distance; nobody is near itself."""
    apart = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    near: npt.NDArray[np.bool_] = apart <= within
    np.fill_diagonal(near, False)
    return near


@compiled
def leave(reported: F64, radii: F64, member: int, within: float) -> None:
    """Give a member that has just reported a ring, and take from others what is in its way."""
    widest = math.inf
    for other in range(len(reported)):
        if other != member:
            slack = _slack(reported, member, other, within)
            widest = min(widest, max(slack - radii[other], slack / 2.0))
    radii[member] = widest
    for other in range(len(reported)):
        if other != member:
            left = _slack(reported, member, other, within) - widest
            radii[other] = min(radii[other], left)


@compiled
def _slack(reported: F64, a: int, b: int, within: float) -> float:
    """What lies between the distance of two and the wanted one."""
    square = 0.0
    for axis in range(3):
        square += (reported[a, axis] - reported[b, axis]) ** 2
    return max(abs(math.sqrt(square) - within) - GAP_M, 0.0)
