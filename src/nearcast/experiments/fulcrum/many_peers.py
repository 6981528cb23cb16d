"""One node in many relationships, whose peers walk: what checking a fix of the node costs.

Peers take a fix a second, the node ten. Who leaves a region tells the other at once, as members do;
only the node's own work is timed.
"""

import math
import random
import time

import numpy as np

from nearcast.core.relationships.silence.regions.region import (
    Point,
    Region,
    Regions,
    distance,
    position_limit,
)
from nearcast.core.relationships.silence.regions.region_table import RegionTable
from nearcast.core.relationships.silence.regions.strategy import SilenceStrategy
from nearcast.core.relationships.silence.report import Report
from nearcast.experiments.experiment_result import ExperimentRow
from nearcast.experiments.fulcrum.scenarios import UP_M

WITHIN_M = 100.0
HALF_SIDE_M = 2e4
WALK_MPS = 1.5
DRIVE_MPS = 10.0
FIXES_A_SECOND = 10


class _Pairs:
    """The node and its peers, with the regions of each pair."""

    def __init__(self, strategy: SilenceStrategy, count: int, draw: random.Random) -> None:
        self._strategy = strategy
        self._within = position_limit(WITHIN_M)
        self.point: Point = _spot(draw)
        self.points = [_spot(draw) for _ in range(count)]
        ways = [draw.uniform(0.0, math.tau) for _ in range(count)]
        self._ways = [(WALK_MPS * math.cos(way), WALK_MPS * math.sin(way), 0.0) for way in ways]
        node = Report(self.point)
        self._node_reports = [node] * count
        """What each peer knows of the node, and the node of each peer."""
        self._peer_reports = [
            Report(at, way) for at, way in zip(self.points, self._ways, strict=True)
        ]
        first = [strategy.propose(node, each, self._within, None) for each in self._peer_reports]
        self.near = [each.near for each in first]
        self._theirs: list[Region] = [each.peer for each in first]
        self.table = RegionTable([each.teller for each in first])
        self.wrong = 0

    def walk(self, now: float) -> None:
        """Let all peers take a fix."""
        for number, (at, way) in enumerate(zip(self.points, self._ways, strict=True)):
            point = self.points[number] = (at[0] + way[0], at[1] + way[1], at[2])
            if self._theirs[number].margin(point, 0.0) < 0.0:
                self._peer_tells(number, now, now - self._node_reports[number].time)

    def cross(self, number: int, now: float) -> None:
        """Let the node tell a peer that it has left its region."""
        self._node_tells(number, now, now - self._peer_reports[number].time)

    def check(self) -> None:
        """Compare all states with the truth."""
        for point, near in zip(self.points, self.near, strict=True):
            self.wrong += (distance(self.point, point) <= self._within) is not near

    def _node_tells(self, number: int, now: float, age_s: float | None) -> None:
        mine = Report(self.point, (DRIVE_MPS, 0.0, 0.0), now)
        self._node_reports[number] = mine
        theirs = self._peer_reports[number]
        told = self._strategy.propose(mine, theirs, self._within, age_s)
        self._adopt(number, told, told.teller, told.peer)
        if told.peer.margin(self.points[number], 0.0) < 0.0:
            self._peer_tells(number, now, None)

    def _peer_tells(self, number: int, now: float, age_s: float | None) -> None:
        mine = Report(self.points[number], self._ways[number], now)
        self._peer_reports[number] = mine
        theirs = self._node_reports[number]
        told = self._strategy.propose(mine, theirs, self._within, age_s)
        self._adopt(number, told, told.peer, told.teller)
        if told.peer.margin(self.point, 0.0) < 0.0:
            self._node_tells(number, now, None)

    def _adopt(self, number: int, told: Regions, node: Region, peer: Region) -> None:
        self.near[number] = told.near
        self.table.replace(number, node)
        self._theirs[number] = peer


def over_relationships(
    strategy: SilenceStrategy, count: int, seconds: int, seed: int
) -> list[ExperimentRow]:
    """Return the time of a fix inside all regions, and of a crossing."""
    draw = random.Random(f"{seed}/relationships")
    pairs = _Pairs(strategy, count, draw)
    pairs.table.left_by(pairs.point)
    inside: list[int] = []
    crossing: list[float] = []
    crossings = 0
    for second in range(seconds):
        pairs.walk(float(second))
        for part in range(FIXES_A_SECOND):
            x, y, z = pairs.point
            pairs.point = (x + DRIVE_MPS / FIXES_A_SECOND, y + draw.gauss(0.0, 0.3), z)
            began = time.perf_counter_ns()
            left = pairs.table.left_by(pairs.point)
            took = time.perf_counter_ns() - began
            if not left:
                inside.append(took)
                continue
            began = time.perf_counter_ns()
            for number in left:
                pairs.cross(number, second + part / FIXES_A_SECOND)
            crossing.append((time.perf_counter_ns() - began) / 1000.0 / len(left))
            crossings += len(left)
        pairs.check()
    inside.sort()
    name = f"{count} relationships of one node"
    return [
        ExperimentRow("cost", f"{name}: a fix inside all regions, median", None,
                      inside[len(inside) // 2] / 1000.0, "µs"),
        ExperimentRow("cost", f"{name}: 99th of 100", None,
                      inside[len(inside) * 99 // 100] / 1000.0, "µs"),
        ExperimentRow("cost", f"{name}: a crossing", None,
                      float(np.mean(crossing)) if crossing else 0.0, "µs"),
        ExperimentRow("cost", f"{name}: crossings", None, crossings),
        ExperimentRow("cost", f"{name}: relationships in a wrong state", None, pairs.wrong),
    ]  # fmt: skip


def _spot(draw: random.Random) -> Point:
    return (
        draw.uniform(-HALF_SIDE_M, HALF_SIDE_M), draw.uniform(-HALF_SIDE_M, HALF_SIDE_M), UP_M,
    )  # fmt: skip
