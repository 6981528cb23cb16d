"""Meetings: pairs of nodes that come near and part again, one cell at a time (seed A).

No state is kept per pair. A cell keeps the last fix of every node in it or within the distance
around it, and each fix comes with the previous one: whether a pair was near, and whether it is now,
follows from those. Every fix is sent to the cells that `meeting_cells` names; of the cells that
know a pair exactly one reports each transition, so that the transitions of all cells together are
those of the whole globe, each once. They alternate per pair and their times never decrease, even
where fixes of different nodes arrive out of order; in order, they are exact.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from nearcast.core.matching.index.globe_grid import columns_per_row
from nearcast.core.relationships import meeting_kernels as kernels
from nearcast.core.relationships.meeting_cells import F64, I64, grid_class
from nearcast.core.relationships.tracks import check_form

FORM = 1
STATES = ("apart", "near", "closer")
_ROOM = 4096


class MeetingSettings(Struct, frozen=True):
    """The definition of near, and the size of cells."""

    within_m: float = 100.0
    fresh_s: float = 120.0
    """The age of a node's last fix beyond which nothing is near it any more."""
    cell_m: float = 256.0
    """The approximate width of cells; wider if the distance requires it.

    A city's crowd is spread over many of these, and so can be partitioned; with cells of 1 km it
    was not. A fix is sent to some three cells, not 1.5.
    """

    @property
    def grid(self) -> int:
        """The class of the globe's grid to use."""
        return grid_class(self.within_m, self.cell_m)


class Transitions(Struct, frozen=True):
    """Changes of pairs, as columns; `a` precedes `b` by name."""

    a: list[str]
    b: list[str]
    state: list[str]
    """near, apart, or closer: the distance has halved further since."""
    time: F64
    distance_m: F64
    lat: F64
    lon: F64
    cause: list[int]
    """The index of the fix that caused it; -1 if a fix became too old."""

    def __len__(self) -> int:
        return len(self.a)

    def rows(self) -> Iterator[tuple[str, str, str, float, float, float, float]]:
        """Yield rows: a, b, state, time, distance, latitude, longitude."""
        numbers = (self.time, self.distance_m, self.lat, self.lon)
        return zip(
            self.a, self.b, self.state, *(column.tolist() for column in numbers), strict=True
        )


class Fixes(Struct, frozen=True):
    """Fixes of nodes in order of time, as columns; NaN where there is no position."""

    nodes: Sequence[str]
    fixes: F64
    """Time, latitude and longitude of each."""
    previous: F64
    """The same of the previous fix; all NaN if there was none."""


class _MeetingsState(Struct, array_like=True):
    form: int
    nodes: list[str]
    fixes: bytes


class Meetings:
    """The nodes in and around one cell."""

    def __init__(self, settings: MeetingSettings, cell: int) -> None:
        self._settings = settings
        self._grid = settings.grid
        self._cell = cell
        self._names: list[str] = []
        self._state = np.empty((0, kernels.STATE_COLUMNS))
        self._home = np.empty(0, np.bool_)

    def __len__(self) -> int:
        return len(self._names)

    def advance(self, arrived: Fixes) -> Transitions:
        """Apply fixes in order, and return the transitions."""
        slot_of = {name: slot for slot, name in enumerate(self._names)}
        slots = np.array([slot_of.setdefault(n, len(slot_of)) for n in arrived.nodes], np.int64)
        names = list(slot_of)
        known = len(self._names)
        present = np.arange(len(names)) < known
        state = np.concatenate([self._state, np.zeros((len(names) - known, kernels.STATE_COLUMNS))])
        home = np.concatenate([self._home, np.zeros(len(names) - known, np.bool_)])
        rank = _ranks(names)
        parts: list[tuple[I64, F64]] = []
        start = 0
        while start < len(slots):
            who, values = _room(2 * len(names))
            start, count = kernels.advance(
                columns_per_row(), self._grid, self._cell, self._settings.within_m,
                self._settings.fresh_s, start, slots, arrived.fixes, arrived.previous,
                rank, present, home, state, who, values,
            )  # fmt: skip
            parts.append((who[:count], values[:count]))
        self._keep(names, present, home, state)
        return _transitions(names, parts)

    def expire(self, now: float) -> Transitions:
        """Drop fixes that are too old at a watermark, before which no fix will arrive."""
        times = self._state[:, kernels.TIME]
        rank = _ranks(self._names)
        order = np.lexsort((rank, times))
        old = order[times[order] + self._settings.fresh_s < now]
        if not len(old):
            return _transitions(self._names, [])
        present = np.ones(len(self._names), np.bool_)
        parts: list[tuple[I64, F64]] = []
        start = 0
        while start < len(old):
            who, values = _room(len(self._names))
            start, count = kernels.expire(
                self._settings.within_m, self._settings.fresh_s, start, old, rank,
                present, self._home, self._state, who, values,
            )  # fmt: skip
            parts.append((who[:count], values[:count]))
        found = _transitions(self._names, parts)
        self._keep(self._names, present, self._home, self._state)
        return found

    def next_expiry(self) -> float | None:
        """Return the time at which the oldest fix expires."""
        if not self._names:
            return None
        return float(self._state[:, kernels.TIME].min()) + self._settings.fresh_s

    def to_bytes(self) -> bytes:
        """Return the stored form: names, and 24 bytes per fix."""
        fixes = np.ascontiguousarray(self._state[:, : kernels.LON + 1])
        return msgspec.msgpack.encode(_MeetingsState(FORM, self._names, fixes.tobytes()))

    @classmethod
    def from_bytes(cls, settings: MeetingSettings, cell: int, data: bytes) -> "Meetings":
        """Return the state of a stored form; refuse one that a later release wrote."""
        kept = msgspec.msgpack.decode(data, type=_MeetingsState)
        check_form(kept.form, FORM, "cell of meetings")
        meetings = cls(settings, cell)
        fixes = np.frombuffer(kept.fixes, np.float64).reshape(-1, kernels.LON + 1)
        state = np.zeros((len(fixes), kernels.STATE_COLUMNS))
        home = np.zeros(len(fixes), np.bool_)
        kernels.place(columns_per_row(), meetings._grid, cell, fixes, state, home)
        meetings._names, meetings._state, meetings._home = kept.nodes, state, home
        return meetings

    def _keep(
        self,
        names: list[str],
        present: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
        home: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
        state: F64,
    ) -> None:
        slots = np.flatnonzero(present)
        self._names = [names[slot] for slot in slots.tolist()]
        self._state, self._home = state[slots], home[slots]


def _room(least: int) -> tuple[I64, F64]:
    room = max(_ROOM, least)
    return np.empty((room, 4), np.int64), np.empty((room, kernels.VALUE_COLUMNS))


def _ranks(names: list[str]) -> I64:
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return rank


def _transitions(names: list[str], parts: list[tuple[I64, F64]]) -> Transitions:
    who = np.concatenate([each for each, _ in parts]) if parts else np.empty((0, 4), np.int64)
    values = (
        np.concatenate([each for _, each in parts])
        if parts
        else np.empty((0, kernels.VALUE_COLUMNS))
    )
    return Transitions(
        [names[slot] for slot in who[:, 1].tolist()],
        [names[slot] for slot in who[:, 2].tolist()],
        [STATES[state] for state in who[:, 0].tolist()],
        values[:, kernels.WHEN],
        values[:, kernels.HOW_FAR],
        values[:, kernels.AT_LAT],
        values[:, kernels.AT_LON],
        who[:, 3].tolist(),
    )
