"""Strips: each member keeps to its side of a strip as wide as the distance (static half-spaces).

The strip lies across the line between them, turned to where both will be soon. The one who has just
left a region gets the larger share of the slack. Near, both stay in one ball whose diameter is the
distance. Each of these regions contains the range ring.
"""

import math

from msgspec import Struct

from nearcast.core.relationships.silence.regions.directions import normal_towards, plus, strip
from nearcast.core.relationships.silence.regions.region import Ball, Regions, distance
from nearcast.core.relationships.silence.report import Report


def shared_ball(mine: Report, theirs: Report, within: float) -> Regions:
    """Return near regions: one ball round the middle, for both."""
    (a, b, c), (x, y, z) = mine.point, theirs.point
    ball = Ball(((a + x) / 2.0, (b + y) / 2.0, (c + z) / 2.0), within / 2.0)
    return Regions(True, ball, ball, mine.time)


class Strip(Struct, frozen=True):
    """Half-spaces across the line to where both will be."""

    name: str = "strip"
    smoothing_s: float = 1e-3
    """The velocity of the last step alone."""
    stale_intervals: float = math.inf
    ahead_s: float = 30.0
    share: float = 0.6
    """Of the slack, for the one who tells."""
    least_slack: float = 0.5
    """A turned strip must leave this share of the slack."""
    least_margin: float = 0.1
    """A peer whose margin is a smaller share of the true slack answers."""

    def propose(
        self, mine: Report, theirs: Report, within: float, theirs_age_s: float | None
    ) -> Regions:
        """Return two half-spaces, or near the shared ball."""
        apart = distance(mine.point, theirs.point)
        if apart <= within:
            return shared_ball(mine, theirs, within)
        normal = normal_towards(mine.point, theirs.point)
        ahead = normal_towards(
            plus(mine.point, mine.velocity, self.ahead_s),
            plus(theirs.point, theirs.velocity, self.ahead_s),
        )
        across = sum(n * (b - a) for n, a, b in zip(ahead, mine.point, theirs.point, strict=True))
        if across - within >= (apart - within) * self.least_slack:
            normal = ahead
        return strip(mine, theirs, normal, within, self.share)

    def is_worth_answering(
        self, regions: Regions, mine: Report, theirs: Report, within: float
    ) -> bool:
        """Return whether my margin is far below what the true distance allows."""
        if regions.near:
            return False
        slack = distance(mine.point, theirs.point) - within
        return regions.peer_margin(mine.point, mine.time) < self.least_margin * slack
