"""Reports: what a member tells of itself, and how it estimates its own motion."""

import math

from msgspec import Struct

from nearcast.core.relationships.silence.regions.region import STILL, Point


class Report(Struct, frozen=True, gc=False):
    """Where a member is, and how it moves, at a time."""

    point: Point
    velocity: Point = STILL
    time: float = 0.0


class Motion:
    """The motion of one node: its velocity, smoothed over some seconds."""

    __slots__ = ("_interval_s", "_smoothing_s", "_stale_intervals", "point", "time", "velocity")

    def __init__(self, smoothing_s: float, stale_intervals: float = math.inf) -> None:
        self._smoothing_s = smoothing_s
        self._stale_intervals = stale_intervals
        self._interval_s = math.inf
        self.point: Point | None = None
        self.velocity = STILL
        self.time = -math.inf

    def move(self, point: Point, time: float) -> None:
        """Take a fix; one of an earlier or the same time changes the point alone."""
        before, elapsed_s = self.point, time - self.time
        if before is not None and elapsed_s > 0.0:
            self._interval_s = elapsed_s
            share = 1.0 - math.exp(-elapsed_s / self._smoothing_s)
            u, v, w = self.velocity
            if self.velocity == STILL:
                # Who begins to move has no past to be smoothed with.
                share = 1.0
            self.velocity = (
                u + share * ((point[0] - before[0]) / elapsed_s - u),
                v + share * ((point[1] - before[1]) / elapsed_s - v),
                w + share * ((point[2] - before[2]) / elapsed_s - w),
            )
        self.point = point
        self.time = max(self.time, time)

    def report(self, now: float) -> Report:
        """Return what to tell of it; who has had no fix for long is taken to stand still."""
        assert self.point is not None, "a node without a fix has nothing to report"
        is_stale = now - self.time >= self._stale_intervals * self._interval_s
        return Report(self.point, STILL if is_stale else self.velocity, now)
