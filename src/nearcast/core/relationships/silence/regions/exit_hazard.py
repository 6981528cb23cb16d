"""Exit hazard: the regions that both members are likely to leave last.

Of several borders between the two, each is given an estimate of how soon it will be left, from the
speed of each member and from how straight it heads for the border; the border with the smallest sum
of both is taken. Borders are strips in several directions, and balls round one of the two (the
other keeps outside: a parked car can be driven round without a word). Where the peer is now is not
known when a region is left, so a border that leaves it little room costs more. The constants are
those that sent the fewest messages on taxis; a peer answers only if what it knows is many times
better.
"""

import math

from msgspec import Struct

from nearcast.core.compiled import compiled
from nearcast.core.relationships.silence.regions.directions import level_side, strip
from nearcast.core.relationships.silence.regions.region import (
    GAP_M,
    Ball,
    OutsideBall,
    Point,
    Regions,
)
from nearcast.core.relationships.silence.regions.strip import shared_ball
from nearcast.core.relationships.silence.report import Report

DIRECTIONS = 5
"""Of strips, to each side of the line between both."""
WIDEST_TURN = 0.5
SHARES = 10
STRIP, MY_BALL, THEIR_BALL = 0, 1, 2

SPREAD_STILL = 8.3
SPREAD_MOVING = 6.8
"""Metres in the root of a second, and per m/s: how far one strays from its course."""
DRIFT = 2.1
"""How much of its velocity counts towards the border."""
RECEDING_S = 60.0
"""Who moves away gains so many seconds of its speed."""
ALL_ROUND, ALL_ROUND_DRIFT = 1.8, 2.2
"""A ball can be left in all directions, a half-space only in one."""
SMALL_TARGET = 0.29
"""Of the hazard of a strip, that of the outside of a small ball."""
KNOWN = 1.3
"""How sure it is, from the age of what is known, that a peer is on its side."""
CERTAIN_EXIT = 1e3
WORTH_ANSWERING = 16.0


class ExitHazard(Struct, frozen=True):
    """Strips and balls chosen by the estimated rate of exits."""

    name: str = "exit-hazard"
    smoothing_s: float = 47.0
    stale_intervals: float = math.inf

    def propose(
        self, mine: Report, theirs: Report, within: float, theirs_age_s: float | None
    ) -> Regions:
        """Return the regions with the least hazard, or near the shared ball."""
        a, b = mine.point, theirs.point
        kind, normal, share, slack, _ = least_hazard(
            a, mine.velocity, b, theirs.velocity, within + GAP_M,
            -1.0 if theirs_age_s is None else theirs_age_s,
        )  # fmt: skip
        if slack <= 0.0:
            apart = math.dist(a, b)
            if apart <= within:
                return shared_ball(mine, theirs, within)
            return strip(mine, theirs, normal, within, 0.5)
        if kind == STRIP:
            return strip(mine, theirs, normal, within, share)
        radius = share * slack
        inner, outer = radius, radius + within + GAP_M
        if kind == MY_BALL:
            return Regions(False, Ball(a, inner), OutsideBall(a, outer), mine.time)
        return Regions(False, OutsideBall(b, outer), Ball(b, inner), mine.time)

    def is_worth_answering(
        self, regions: Regions, mine: Report, theirs: Report, within: float
    ) -> bool:
        """Return whether other regions, now that I know both points, have far less hazard."""
        if regions.near:
            return False
        best = least_hazard(
            mine.point, mine.velocity, theirs.point, theirs.velocity, within + GAP_M, -1.0
        )[4]
        return hazard_of(regions, mine, theirs) > WORTH_ANSWERING * best


def hazard_of(regions: Regions, mine: Report, theirs: Report) -> float:
    """Return the hazard of regions that the peer told me."""
    total = 0.0
    for region, report in ((regions.peer, mine), (regions.teller, theirs)):
        margin = region.margin(report.point, 0.0)
        if isinstance(region, Ball):
            total += _ball_hazard(margin, report.velocity)
        elif isinstance(region, OutsideBall):
            total += _outside_hazard(
                margin, report.point, report.velocity, region.centre, region.radius
            )
        else:
            total += _border_hazard(margin, region.normal, report.velocity)
    return total


@compiled
def least_hazard(
    a: Point, a_velocity: Point, b: Point, b_velocity: Point, within: float, age_s: float
) -> tuple[int, Point, float, float, float]:
    """Return the best border: its kind, normal, my share of the slack, the slack, its hazard.

    `age_s` is the age of what is known of `b`, negative if it is known exactly.
    """
    dx = b[0] - a[0]
    dy = b[1] - a[1]
    dz = b[2] - a[2]
    apart = math.sqrt(dx * dx + dy * dy + dz * dz)
    if apart == 0.0:
        return STRIP, (0.0, 0.0, 0.0), 0.5, -within, CERTAIN_EXIT
    towards = (dx / apart, dy / apart, dz / apart)
    side = level_side(a, b, towards)
    slack = apart - within
    best = (STRIP, towards, 0.5, slack, 4.0 * CERTAIN_EXIT)
    if slack <= 0.0:
        return best
    certain = 0.0
    if age_s >= 0.0:
        certain = KNOWN / (_spread(b_velocity) * math.sqrt(age_s + 1.0))
    for turn in range(-DIRECTIONS, DIRECTIONS + 1):
        angle = turn * WIDEST_TURN / DIRECTIONS
        cosine = math.cos(angle)
        sine = math.sin(angle)
        normal = (
            cosine * towards[0] + sine * side[0],
            cosine * towards[1] + sine * side[1],
            cosine * towards[2] + sine * side[2],
        )
        back = (-normal[0], -normal[1], -normal[2])
        across = apart * cosine - within
        if across <= 0.0:
            continue
        for step in range(1, SHARES):
            share = step / SHARES
            hazard = _border_hazard(share * across, normal, a_velocity) + _border_hazard(
                (1.0 - share) * across, back, b_velocity
            )
            if age_s >= 0.0:
                hazard *= 1.0 + math.exp(-(1.0 - share) * across * certain)
            if hazard < best[4]:
                best = (STRIP, normal, share, across, hazard)
    for step in range(1, SHARES):
        share = step / SHARES
        radius = share * slack
        mine = _ball_hazard(radius, a_velocity) + _outside_hazard(
            slack - radius, b, b_velocity, a, radius + within
        )
        theirs = _ball_hazard(radius, b_velocity) + _outside_hazard(
            slack - radius, a, a_velocity, b, radius + within
        )
        if age_s >= 0.0:
            mine *= 1.0 + math.exp(-(slack - radius) * certain)
            theirs *= 1.0 + math.exp(-radius * certain)
        if mine < best[4]:
            best = (MY_BALL, towards, share, slack, mine)
        if theirs < best[4]:
            best = (THEIR_BALL, towards, share, slack, theirs)
    return best


@compiled
def _length(vector: Point) -> float:
    return math.sqrt(vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2])


@compiled
def _spread(velocity: Point) -> float:
    return SPREAD_STILL + SPREAD_MOVING * _length(velocity)


@compiled
def _hazard(margin: float, drift: float, spread: float) -> float:
    """The inverse of the time after which a border at that margin will be left."""
    if margin <= 1e-9:
        return CERTAIN_EXIT
    if drift < 0.0:
        return (spread / (margin - drift * RECEDING_S)) ** 2
    # The time after which drift · t + spread · √t is the margin.
    root = 2.0 * margin / (spread + math.sqrt(spread * spread + 4.0 * drift * margin))
    return 1.0 / (root * root)


@compiled
def _border_hazard(margin: float, normal: Point, velocity: Point) -> float:
    towards = normal[0] * velocity[0] + normal[1] * velocity[1] + normal[2] * velocity[2]
    return _hazard(margin, DRIFT * towards, _spread(velocity))


@compiled
def _ball_hazard(margin: float, velocity: Point) -> float:
    """The hazard of a ball round oneself: whatever the heading, it is towards the border."""
    return ALL_ROUND * _hazard(
        margin, ALL_ROUND_DRIFT * DRIFT * _length(velocity), _spread(velocity)
    )


@compiled
def _outside_hazard(
    margin: float, point: Point, velocity: Point, centre: Point, radius: float
) -> float:
    """The hazard of driving into a ball: the smaller it is, the likelier one misses it."""
    dx = centre[0] - point[0]
    dy = centre[1] - point[1]
    dz = centre[2] - point[2]
    apart = math.sqrt(dx * dx + dy * dy + dz * dz)
    normal = (dx / apart, dy / apart, dz / apart)
    missed = SMALL_TARGET + (1.0 - SMALL_TARGET) * radius / apart
    return missed * _border_hazard(margin, normal, velocity)
