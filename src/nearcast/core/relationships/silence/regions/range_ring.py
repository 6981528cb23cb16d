"""The range ring of seed A: a ball of half the slack round what each member last reported."""

import math

from msgspec import Struct

from nearcast.core.relationships.silence.regions.region import GAP_M, Ball, Regions, distance
from nearcast.core.relationships.silence.report import Report


class RangeRing(Struct, frozen=True):
    """Law of continuity: half of what lies between must be travelled first, by one of them."""

    name: str = "ring"
    smoothing_s: float = 1.0
    stale_intervals: float = math.inf

    def propose(
        self, mine: Report, theirs: Report, within: float, theirs_age_s: float | None
    ) -> Regions:
        """Return two equal balls; near as well, where leaving one may end it."""
        apart = distance(mine.point, theirs.point)
        near = apart <= within
        radius = max((abs(apart - within) - GAP_M) / 2.0, 0.0)
        return Regions(near, Ball(mine.point, radius), Ball(theirs.point, radius), mine.time)

    def is_worth_answering(
        self, regions: Regions, mine: Report, theirs: Report, within: float
    ) -> bool:
        """Return False: the paper answers only from outside."""
        return False
