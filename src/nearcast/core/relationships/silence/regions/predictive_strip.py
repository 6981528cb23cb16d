"""Predictive strips: regions that move with both, for members that sample at common instants.

The strip moves with the velocities of both for some seconds, in the direction in which it will be
left last. Near, the ball of both moves with the mean of their velocities. A region that moves needs
clocks that agree, and fixes of both at the same instants: the position of a member that has no fix
for longer does not move with its region, so it must check at each instant (`PairMember.elapse`).
The constants are those that sent the fewest messages on pedestrians.
"""

import math

from msgspec import Struct

from nearcast.core.compiled import compiled
from nearcast.core.relationships.silence.regions.directions import dot, level_side, plus
from nearcast.core.relationships.silence.regions.region import (
    GAP_M,
    Ball,
    HalfSpace,
    Point,
    Regions,
    distance,
)
from nearcast.core.relationships.silence.report import Report

DIRECTIONS = 10
WIDEST_TURN = 0.57
FIRST_S, LONGEST_S, LONGER = 0.4, 65.0, 1.25
"""The times for which a strip is tried."""
ERROR_M = 0.021
"""How far both stray from their course in a second; it grows with the time to the power 3/2."""


class PredictiveStrip(Struct, frozen=True):
    """Strips and balls that move."""

    name: str = "predictive-strip"
    smoothing_s: float = 0.66
    stale_intervals: float = 0.99
    moves_s: float = 6.8
    near_moves_s: float = 4.3
    peer_moves_s: float = 10.0
    """So long after its last report a peer is taken to have kept its velocity."""
    share: float = 0.43
    share_if_known: float = 0.5

    def propose(
        self, mine: Report, theirs: Report, within: float, theirs_age_s: float | None
    ) -> Regions:
        """Return half-spaces that move, or near a ball that moves."""
        a, b = mine.point, theirs.point
        share = self.share_if_known
        if theirs_age_s is not None:
            b, share = plus(b, theirs.velocity, min(theirs_age_s, self.peer_moves_s)), self.share
        if distance(a, b) <= within:
            return self._ball(mine, b, theirs.velocity, within)
        normal, moves_s = last_border(
            a, mine.velocity, b, theirs.velocity, within + GAP_M, self.moves_s
        )
        back = (-normal[0], -normal[1], -normal[2])
        slack = dot(normal, b) - dot(normal, a) - within - GAP_M
        opening = dot(normal, theirs.velocity) - dot(normal, mine.velocity)
        border = dot(normal, a) + share * slack
        speed = dot(normal, mine.velocity) + share * opening
        return Regions(
            False,
            HalfSpace(normal, border, speed),
            HalfSpace(back, -(border + within + GAP_M), -speed),
            mine.time,
            moves_s,
        )

    def is_worth_answering(
        self, regions: Regions, mine: Report, theirs: Report, within: float
    ) -> bool:
        """Return False: what is gained is lost on the message."""
        return False

    def _ball(self, mine: Report, b: Point, velocity: Point, within: float) -> Regions:
        (x, y, z), (u, v, w), (r, s, t) = mine.point, mine.velocity, velocity
        centre = ((x + b[0]) / 2.0, (y + b[1]) / 2.0, (z + b[2]) / 2.0)
        ball = Ball(centre, within / 2.0, ((u + r) / 2.0, (v + s) / 2.0, (w + t) / 2.0))
        return Regions(True, ball, ball, mine.time, self.near_moves_s)


@compiled
def last_border(
    a: Point, a_velocity: Point, b: Point, b_velocity: Point, within: float, moves_s: float
) -> tuple[Point, float]:
    """Return the normal of the strip that will be left last, and for how long it moves."""
    dx = b[0] - a[0]
    dy = b[1] - a[1]
    dz = b[2] - a[2]
    apart = math.sqrt(dx * dx + dy * dy + dz * dz)
    towards = (dx / apart, dy / apart, dz / apart)
    side = level_side(a, b, towards)
    best, best_normal, best_moves_s = -1.0, towards, 0.0
    for turn in range(-DIRECTIONS, DIRECTIONS + 1):
        angle = turn * WIDEST_TURN / DIRECTIONS
        cosine = math.cos(angle)
        sine = math.sin(angle)
        slack = apart * cosine - within
        if slack <= 0.0:
            continue
        x = cosine * towards[0] + sine * side[0]
        y = cosine * towards[1] + sine * side[1]
        z = cosine * towards[2] + sine * side[2]
        opening = (
            x * (b_velocity[0] - a_velocity[0])
            + y * (b_velocity[1] - a_velocity[1])
            + z * (b_velocity[2] - a_velocity[2])
        )
        moving_s = moves_s
        if opening < 0.0:
            moving_s = min(moves_s, 0.999 * slack / -opening)
        lasts_s = FIRST_S
        while lasts_s < LONGEST_S:
            moved_s = min(lasts_s, moving_s)
            closing = max(0.0, -opening) * (lasts_s - moved_s)
            if ERROR_M * lasts_s**1.5 + closing > slack + opening * moved_s:
                break
            lasts_s *= LONGER
        # Of strips that last equally long, the one that leaves more.
        lasts_s *= 1.0 + 1e-3 * slack
        if lasts_s > best:
            best, best_normal, best_moves_s = lasts_s, (x, y, z), moving_s
    return best_normal, best_moves_s
