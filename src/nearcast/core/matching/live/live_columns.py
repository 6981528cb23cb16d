"""Live events as columns, kept from when they are put to when they are removed.

Subjects, publishers, names and strings are numbered among the live events; the matcher translates
them when it decides. Attributes lie in one pool, which is packed when more than half is unused.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.matching.filters.intern_table import InternTable
from nearcast.core.matching.live.live_events import Bound, LiveEvents
from nearcast.core.matching.live.seen_table import SeenTable
from nearcast.core.matching.tables import F64, I32, I64, U8, enough, resized
from nearcast.core.model.event import Event
from nearcast.core.model.event_batch import STRING, coded, flat
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.subject import which_match

MOST_PATTERNS = 64
"""Patterns for which it is remembered which subjects they fit."""
_UNKNOWN = 2


class Columns(NamedTuple):
    """One row per live event."""

    subject: I32
    publisher: I32
    lat: F64
    lon: F64
    borrowed: U8
    retained: npt.NDArray[np.bool_]
    version: I64  # grows with every event that is put
    targeted: npt.NDArray[np.bool_]
    circle: F64  # (rows, 3): a target that is a fixed circle; radius NaN: it is not
    start: I64  # where its attributes begin in the pool
    length: I32


class LiveBatch:
    """Some live events, in an order."""

    def __init__(self, store: "LiveStore", rows: I32) -> None:
        self._store = store
        self.rows = rows
        self.about: dict[int, tuple[str, ...]] = {}
        if store.has_about:
            told = ((i, self.event(i).about) for i in range(len(rows)))
            self.about = {i: about for i, about in told if about}

    def __len__(self) -> int:
        return len(self.rows)

    def event(self, i: int) -> Event:
        """One of the events."""
        return self._store.event_at(int(self.rows[i]))

    def said_priorities(self, among: I32) -> dict[int, tuple[int, bool]]:
        """Of some indexes, the priority that publishers gave, and whether it may raise others."""
        events = ((i, self.event(i)) for i in np.unique(among).tolist())
        return {
            i: (event.priority, event.raises) for i, event in events if event.priority is not None
        }


class LiveStore(LiveEvents):
    """Retained, valid and object events, with their columns and who has seen them."""

    def __init__(self, bound_of_target: Callable[[Event], Bound | None]) -> None:
        super().__init__(bound_of_target)
        self.seen = SeenTable()
        """Which session has seen which of them."""
        self.columns = _new_columns()
        self.subjects: InternTable[str] = InternTable()
        self.publishers: InternTable[str] = InternTable()
        self.names: InternTable[str] = InternTable()
        self.strings: InternTable[str] = InternTable()
        self._pool: tuple[I32, U8, F64] = (
            np.zeros(64, np.int32), np.zeros(64, np.uint8), np.zeros(64),
        )  # fmt: skip
        self._top = 0
        self._unused = 0
        self._made = 0
        self._about = 0
        self._fitting: dict[str, U8] = {}

    @property
    def has_about(self) -> bool:
        """True if some of them tell of nodes."""
        return self._about > 0

    def put(self, key: str, event: Event) -> None:
        """Store an event under a key, replacing any earlier one."""
        super().put(key, event)
        row = self._rows[key]
        if row >= len(self.columns.subject):
            size = enough(row, row + 1)
            grown = (resized(column, size) for column in self.columns)
            self.columns = Columns(*grown)  # type: ignore[arg-type]  # the kinds stay
        c, at = self.columns, event.position
        self._made += 1
        c.version[row] = self._made
        c.subject[row] = self.subjects.acquire(event.subject)
        c.publisher[row] = self.publishers.acquire(event.publisher)
        c.lat[row], c.lon[row] = (np.nan, np.nan) if at is None else (at.lat, at.lon)
        c.borrowed[row] = at is not None and not event.at_given
        c.retained[row] = event.retain
        c.targeted[row] = event.to is not None
        c.circle[row] = np.nan
        if isinstance(event.to, Circle):
            c.circle[row] = event.to.center.lat, event.to.center.lon, event.to.radius_m
        self._about += bool(event.about)
        self._put_attributes(row, event)

    def remove(self, key: str) -> bool:
        """Remove the event under a key; return whether there was one."""
        row = self._rows.get(key)
        if row is None:
            return False
        event, c = self.event_at(row), self.columns
        super().remove(key)
        self.seen.forget_event(row)
        self._about -= bool(event.about)
        subject = int(c.subject[row])
        if self.subjects.release(subject):
            for fits in self._fitting.values():
                fits[subject : subject + 1] = _UNKNOWN
        self.publishers.release(int(c.publisher[row]))
        start, length = int(c.start[row]), int(c.length[row])
        names, kinds, values = (column[start : start + length].tolist() for column in self._pool)
        for name, kind, value in zip(names, kinds, values, strict=True):
            self.names.release(name)
            if kind == STRING:
                self.strings.release(int(value))
        c.length[row] = c.version[row] = 0
        self._unused += length
        if self._unused > 256 and 2 * self._unused > self._top:
            self._pack()
        return True

    def rows_about(self, pattern: str, targeted: bool = False) -> I32:
        """Rows of events without a target (or with one) whose subject matches a pattern."""
        if "+" not in pattern and "#" not in pattern:
            return super().rows_about(pattern, targeted)
        c = self.columns
        kept = (c.version > 0) & (c.targeted == targeted)
        rows = np.flatnonzero(kept).astype(np.int32)
        return rows[self._fits(pattern, rows)[c.subject[rows]] == 1]

    def in_order(self, rows: I32) -> I32:
        """Return rows with the oldest version first."""
        return rows if len(rows) < 2 else rows[self.columns.version[rows].argsort()]

    def attributes_of(self, rows: I32) -> tuple[I32, I32, U8, F64]:
        """Return where the attributes of each event begin and end, and all of them."""
        start, length = self.columns.start[rows], self.columns.length[rows]
        first = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(length, out=first[1:])
        at = np.repeat(start - first[:-1], length) + np.arange(first[-1])
        names, kinds, values = self._pool
        return first, names[at], kinds[at], values[at]

    def fitting(self, patterns: list[str], rows: I32) -> U8:
        """Return for each pattern and each number of a subject of these rows whether it fits."""
        found = [self._fits(pattern, rows) for pattern in patterns]
        return np.stack(found) if found else np.zeros((0, 0), np.uint8)

    def _fits(self, pattern: str, rows: I32) -> U8:
        fits = self._fitting.pop(pattern, _NO_SUBJECTS)
        size = self.subjects.capacity
        if len(fits) < size:
            fits = np.concatenate((fits, np.full(size - len(fits), _UNKNOWN, np.uint8)))
        numbers = self.columns.subject[rows]
        unknown = numbers[fits[numbers] == _UNKNOWN]
        if len(unknown):
            is_unknown = np.zeros(len(fits), np.bool_)
            is_unknown[unknown] = True
            unknown = np.flatnonzero(is_unknown)
            fits[unknown] = which_match(pattern, self.subjects.values(unknown.tolist()))
        # The pattern that was not used for longest is forgotten.
        self._fitting[pattern] = fits
        if len(self._fitting) > MOST_PATTERNS:
            del self._fitting[next(iter(self._fitting))]
        return fits[:size]

    def _put_attributes(self, row: int, event: Event) -> None:
        attributes = flat(event.attributes) if event.attributes else ()
        start, end = self._top, self._top + len(attributes)
        if end > len(self._pool[0]):
            size = enough(len(self._pool[0]), end)
            names, kinds, values = self._pool
            self._pool = resized(names, size), resized(kinds, size), resized(values, size)
        names, kinds, values = self._pool
        for at, (name, value) in enumerate(attributes, start):
            names[at] = self.names.acquire(name)
            if isinstance(value, str):
                kinds[at], values[at] = STRING, self.strings.acquire(value)
            else:
                kinds[at], values[at] = coded(value, {})
        self.columns.start[row], self.columns.length[row] = start, end - start
        self._top = end

    def _pack(self) -> None:
        """Copy the attributes in use to the beginning of a new pool."""
        rows = np.fromiter(self._rows.values(), np.int32)
        first, names, kinds, values = self.attributes_of(rows)
        self.columns.start[rows] = first[:-1]
        self._top, self._unused = int(first[-1]), 0
        size = enough(64, self._top)
        self._pool = resized(names, size), resized(kinds, size), resized(values, size)


_NO_SUBJECTS: U8 = np.zeros(0, np.uint8)


def _new_columns() -> Columns:
    size = 16
    numbers = [np.zeros(size, np.int32) for _ in range(3)]
    return Columns(
        subject=numbers[0],
        publisher=numbers[1],
        lat=np.zeros(size),
        lon=np.zeros(size),
        borrowed=np.zeros(size, np.uint8),
        retained=np.zeros(size, np.bool_),
        version=np.zeros(size, np.int64),
        targeted=np.zeros(size, np.bool_),
        circle=np.zeros((size, 3)),
        start=np.zeros(size, np.int64),
        length=numbers[2],
    )
