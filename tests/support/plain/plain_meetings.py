"""Meetings the plain way: every pair of the whole globe looked at after every fix."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct

from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.relationships.meeting_cells import sent
from nearcast.core.relationships.meetings import (
    Fixes,
    Meetings,
    MeetingSettings,
    Transitions,
)
from nearcast.core.relationships.pairs import is_near
from nearcast.core.relationships.tracks import Fix

NO_FIX = (math.nan, math.nan, math.nan)
"""A fix that there is not."""
Told = tuple[str, str, str, float, float, float, float]
"""a, b, near or apart, time, distance, and where: at the fix that moved or grew too old."""


class Sighting(Struct, frozen=True):
    """A node's fix; without a place it no longer says where it is."""

    time: float
    node: str
    lat: float | None
    lon: float | None


def plain_transitions(sightings: Sequence[Sighting], settings: MeetingSettings) -> list[Told]:
    """Return all transitions of fixes that come in the order of time."""
    last: dict[str, Fix] = {}
    near: set[tuple[str, str]] = set()
    told: list[Told] = []

    def distance(a: Fix, b: Fix) -> float:
        return distance_m(a.lat, a.lon, b.lat, b.lon)

    def expire(now: float) -> None:
        for a, b in sorted(near):
            end = min(last[a].time, last[b].time) + settings.fresh_s
            if end < now:
                near.discard((a, b))
                older = min(last[a], last[b], key=lambda fix: fix.time)
                apart_m = distance(last[a], last[b])
                told.append((a, b, "apart", end, apart_m, older.lat, older.lon))

    for each in sightings:
        expire(each.time)
        before = last.pop(each.node, None)
        if each.lat is not None and each.lon is not None:
            last[each.node] = Fix(each.time, each.lat, each.lon)
        for a, b in combinations(sorted({*last, each.node}), 2):
            if each.node not in (a, b):
                continue
            now = (
                a in last
                and b in last
                and is_near(last[a], last[b], each.time, settings.within_m, settings.fresh_s)
            )
            if now == ((a, b) in near):
                continue
            near ^= {(a, b)}
            here = last.get(each.node, before)
            there = last[b if a == each.node else a]
            assert here is not None
            state = "near" if now else "apart"
            told.append((a, b, state, each.time, distance(here, there), here.lat, here.lon))
    expire(math.inf)
    return told


class Cells:
    """All cells of the globe, each with its own meetings, as tasks of a cluster have them."""

    def __init__(self, settings: MeetingSettings) -> None:
        self._settings = settings
        self._kept: dict[int, bytes] = {}
        self._last: dict[str, Fix] = {}
        self.told: list[Told] = []

    def take(self, sightings: Sequence[Sighting]) -> None:
        """Take what arrived in one batch; a fix older than its node's last one is dropped."""
        fixes, previous, nodes = [], [], []
        for each in sorted(sightings, key=lambda each: each.time):
            before = self._last.get(each.node)
            if before is not None and each.time < before.time:
                continue
            nodes.append(each.node)
            lat, lon = (
                (math.nan, math.nan) if each.lat is None or each.lon is None
                else (each.lat, each.lon)
            )  # fmt: skip
            fixes.append((each.time, lat, lon))
            is_somewhere = before is not None and not math.isnan(before.lat)
            previous.append((before.time, before.lat, before.lon) if is_somewhere else NO_FIX)  # type: ignore[union-attr]
            self._last[each.node] = Fix(each.time, lat, lon)
        new, old = np.array(fixes).reshape(-1, 3), np.array(previous).reshape(-1, 3)
        which, cells = sent(
            self._settings.grid, self._settings.within_m, new[:, 1], new[:, 2], old[:, 1], old[:, 2]
        )
        for cell in np.unique(cells).tolist():
            rows = np.sort(which[cells == cell])
            meetings = self._open(cell)
            arrived = Fixes([nodes[row] for row in rows.tolist()], new[rows], old[rows])
            self._tell(meetings.advance(arrived))
            self._kept[cell] = meetings.to_bytes()

    def expire(self, now: float, is_meant: Callable[[int], bool] = lambda cell: True) -> None:
        """Nothing will come any more that is not later than this: let some cells know."""
        for cell in filter(is_meant, list(self._kept)):
            meetings = self._open(cell)
            self._tell(meetings.expire(now))
            self._kept[cell] = meetings.to_bytes()

    def nodes(self) -> int:
        """Return how many nodes are kept in all cells."""
        return sum(len(self._open(cell)) for cell in self._kept)

    def _open(self, cell: int) -> Meetings:
        if cell not in self._kept:
            return Meetings(self._settings, cell)
        return Meetings.from_bytes(self._settings, cell, self._kept[cell])

    def _tell(self, transitions: Transitions) -> None:
        self.told += transitions.rows()


def near_and_apart(cells: Cells) -> list[Told]:
    """Return what cells told, without what came closer."""
    return [each for each in cells.told if each[2] != "closer"]
