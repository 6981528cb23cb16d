"""The regions of one node in all its relationships, checked together.

No margin falls faster than the node moves. So the smallest margin at one place is the radius of a
ball round it that lies in all regions: inside it, a fix costs one comparison, whatever the number
of relationships. On leaving it all margins are computed anew, as columns. Regions that move with
time are not kept here.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.relationships.silence.regions.region import Ball, HalfSpace, Point, Region

F64 = npt.NDArray[np.float64]

HALF_SPACE, BALL, OUTSIDE_BALL = 0.0, 1.0, 2.0
COLUMNS = 5
"""Kind; normal or centre; limit or radius."""


class RegionTable:
    """Regions by number, and the ball round the last place that lies in all of them."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._columns = np.array([_row(each) for each in regions]).reshape(-1, COLUMNS)
        self._margins = np.empty(len(regions))
        self._centre: Point = (0.0, 0.0, 0.0)
        self._safe_square = -1.0

    def replace(self, number: int, region: Region) -> None:
        """Change a region; the safe ball shrinks if the new region requires it."""
        self._columns[number] = _row(region)
        if self._safe_square >= 0.0:
            margin = region.margin(self._centre, 0.0)
            self._safe_square = min(self._safe_square, margin * margin) if margin >= 0.0 else -1.0

    def left_by(self, point: Point) -> list[int]:
        """Return the numbers of the regions that a point is not in."""
        x, y, z = self._centre
        u, v, w = point
        if (u - x) * (u - x) + (v - y) * (v - y) + (w - z) * (w - z) < self._safe_square:
            return []
        least = margins(self._columns, u, v, w, self._margins)
        self._centre, self._safe_square = point, least * least if least >= 0.0 else -1.0
        return [] if least >= 0.0 else np.flatnonzero(self._margins < 0.0).tolist()


def _row(region: Region) -> tuple[float, ...]:
    if isinstance(region, HalfSpace):
        return (HALF_SPACE, *region.normal, region.limit)
    kind = BALL if isinstance(region, Ball) else OUTSIDE_BALL
    return (kind, *region.centre, region.radius)


@compiled
def margins(columns: F64, x: float, y: float, z: float, found: F64) -> float:
    """Compute how far a point is inside each region, and return the least."""
    least = math.inf
    for i in range(len(columns)):
        kind, u, v, w, limit = columns[i]
        if kind == HALF_SPACE:
            margin = limit - (u * x + v * y + w * z)
        else:
            apart = math.sqrt((u - x) * (u - x) + (v - y) * (v - y) + (w - z) * (w - z))
            margin = limit - apart if kind == BALL else apart - limit
        found[i] = margin
        least = min(least, margin)
    return least
