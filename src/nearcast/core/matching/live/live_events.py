"""Live events: retained, valid and object events, indexed for subscribers that come to match.

The reverse of matching: the events that match a subscription now. They are indexed by position, by
target and by subject, in the same kind of index as nodes and subscriptions, so that a move costs
only what is near.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from nearcast.core.matching.index.cells import (
    CELL,
    CLASS,
    EMPTY,
    LENGTH,
    START,
    CellArrays,
    append,
    find,
    grown,
    new_cells,
    reserve,
    take_out,
    with_items,
)
from nearcast.core.matching.index.globe_grid import (
    CLASSES,
    REACH_M,
    WIDE,
    cells_within,
    class_of,
    code_of,
    columns_per_row,
)
from nearcast.core.matching.index.points import (
    MAX_POINT_CELLS,
    POINT_LEVELS,
    place_point,
    point_cells,
)
from nearcast.core.matching.live.subject_tree import RowsBySubject
from nearcast.core.matching.tables import I32
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Area, Around, MovingCircle

LiveObserver = Callable[[Event, int], None]
"""Called with an event that was put (1) or removed (-1)."""
Bound = tuple[float, float, float]
"""Latitude, longitude and radius of a circle that contains an area."""


class LiveEvents:
    """Events under keys, found by position, by target or by subject."""

    def __init__(self, bound_of_target: Callable[[Event], Bound | None]) -> None:
        self._bound_of_target = bound_of_target
        self.observer: LiveObserver | None = None
        self._rows: dict[str, int] = {}
        self._keys: list[str] = []
        """By row."""
        self._events: list[Event | None] = []
        self._free: list[int] = []
        self._untargeted = RowsBySubject()
        self._targeted = RowsBySubject()
        self._columns = columns_per_row()
        self._points = new_cells(0, 0)
        self._targets = new_cells(0, 0)
        self._classes = np.zeros(CLASSES + 1, np.int64)
        self._codes = np.zeros(max(128, MAX_POINT_CELLS), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Event]:
        return (event for event in self._events if event is not None)

    def get(self, key: str) -> Event | None:
        """The event under a key."""
        row = self._rows.get(key)
        return None if row is None else self._events[row]

    def clear(self) -> None:
        """Remove all events."""
        for key in list(self._rows):
            self.remove(key)

    def put(self, key: str, event: Event) -> None:
        """Store an event under a key, replacing any earlier one."""
        self.remove(key)
        row = self._free.pop() if self._free else len(self._events)
        if row == len(self._events):
            self._events.append(None)
            self._keys.append(key)
        self._rows[key] = row
        self._keys[row] = key
        self._events[row] = event
        if event.position is not None:
            self._place(row, event.position.lat, event.position.lon)
        by_subject = self._untargeted if event.to is None else self._targeted
        by_subject.add(event.subject, row)
        if event.to is not None:
            self._aim(row, event)
        if self.observer is not None:
            self.observer(event, 1)

    def remove(self, key: str) -> bool:
        """Remove the event under a key; return whether there was one."""
        row = self._rows.pop(key, None)
        if row is None:
            return False
        event = self._events[row]
        assert event is not None
        if event.position is not None:
            self._place(row, np.nan, np.nan, event)
        by_subject = self._untargeted if event.to is None else self._targeted
        by_subject.remove(event.subject, row)
        self._unaim(row)
        self._events[row] = None
        self._keys[row] = ""
        self._free.append(row)
        if self.observer is not None:
            self.observer(event, -1)
        return True

    def aim_again(self, keys: Iterable[str]) -> None:
        """Re-index the targets of events; those that stay in their cell are left there."""
        bounds: dict[tuple[Area, str], Bound | None] = {}
        cells: dict[Bound, tuple[int, int]] = {}
        for key in keys:
            row = self._rows.get(key)
            event = None if row is None else self._events[row]
            if row is None or event is None or event.to is None:
                continue
            bound = self._bound_again(event, bounds)
            if bound is None:
                self._unaim(row)
                continue
            cell = cells.get(bound)
            if cell is None:
                cell = cells[bound] = self._cell_of(bound)
            if not self._lies_in(row, *cell):
                self._unaim(row)
                self._lay(row, *cell)

    def _bound_again(
        self, event: Event, bounds: dict[tuple[Area, str], Bound | None]
    ) -> Bound | None:
        """The bound of a target; of equal ones with few words only the first is looked up."""
        to = event.to
        assert to is not None
        if isinstance(to, Around) and not isinstance(to.shape, MovingCircle):
            return self._bound_of_target(event)
        known = to, event.publisher
        if known not in bounds:
            bounds[known] = self._bound_of_target(event)
        return bounds[known]

    def near(self, bound: Bound) -> list[Event]:
        """Events whose position may be within a circle."""
        return self._events_of(self.rows_near(bound))

    def aimed_at(self, lat: float, lon: float) -> list[Event]:
        """Events whose target may contain a position."""
        return self._events_of(self.rows_aimed_at(lat, lon))

    def about(self, pattern: str, targeted: bool = False) -> list[Event]:
        """Events without a target (or with one) whose subject matches a pattern."""
        return self._events_of(self.rows_about(pattern, targeted))

    def event_at(self, row: int) -> Event:
        """The event of a row."""
        event = self._events[row]
        assert event is not None
        return event

    def key_at(self, row: int) -> str:
        """The key of the event of a row."""
        return self._keys[row]

    def row(self, key: str) -> int | None:
        """The row of the event under a key."""
        return self._rows.get(key)

    def rows_near(self, bound: Bound) -> I32:
        """Rows of events whose position may be within a circle."""
        lat, lon, reach_m = bound
        level, count = point_cells(self._columns, lat, lon, reach_m, self._codes)
        if count < 0:
            rows = (row for row, event in enumerate(self._events) if _is_placed(event))
            return np.fromiter(rows, np.int32)
        codes = self._codes[:count].tolist()
        return _joined(
            [self._in_cell(self._points, level, 0, code, POINT_LEVELS) for code in codes]
        )

    def rows_aimed_at(self, lat: float, lon: float) -> I32:
        """Rows of events whose target may contain a position."""
        found: list[I32] = []
        for c in np.flatnonzero(self._classes).tolist():
            count = 1
            self._codes[0] = 0
            if c < WIDE:
                count = cells_within(
                    self._columns, c, lat, lon, REACH_M[c], self._codes, len(self._codes)
                )
            codes = self._codes[:count].tolist()
            found += (self._in_cell(self._targets, 0, c, code, 1) for code in codes)
        return _joined(found)

    def rows_about(self, pattern: str, targeted: bool = False) -> I32:
        """Rows of events without a target (or with one) whose subject matches a pattern."""
        by_subject = self._targeted if targeted else self._untargeted
        return np.fromiter(by_subject.matching(pattern), np.int32)

    def _events_of(self, rows: I32) -> list[Event]:
        return [self.event_at(row) for row in rows.tolist()]

    def _in_cell(self, cells: CellArrays, key: int, c: int, code: int, items_per_row: int) -> I32:
        cell = find(cells, key, c, code)
        if cell == EMPTY:
            return _NO_ROWS
        start, length = int(cells.cells[cell, START]), int(cells.cells[cell, LENGTH])
        rows: I32 = (cells.items[start : start + length] // items_per_row).astype(np.int32)
        return rows

    def _place(self, row: int, lat: float, lon: float, gone: Event | None = None) -> None:
        self._points = with_items(self._points, (row + 1) * POINT_LEVELS)
        old = (np.nan, np.nan)
        if gone is not None and gone.position is not None:
            old = (gone.position.lat, gone.position.lon)
        while not place_point(self._points, self._columns, row, *old, lat, lon):
            self._points = grown(self._points)

    def _aim(self, row: int, event: Event) -> None:
        bound = self._bound_of_target(event)
        if bound is not None:
            self._lay(row, *self._cell_of(bound))

    def _cell_of(self, bound: Bound) -> tuple[int, int]:
        """The class and the code of the cell of a target."""
        lat, lon, reach_m = bound
        c = class_of(reach_m)
        return c, code_of(self._columns, c, lat, lon)

    def _lies_in(self, row: int, c: int, code: int) -> bool:
        """True if the target of an event is in that cell."""
        if row >= len(self._targets.lies):
            return False
        cell = self._targets.lies[row, CELL]
        return cell != EMPTY and bool(cell == find(self._targets, 0, c, code))

    def _lay(self, row: int, c: int, code: int) -> None:
        self._targets = with_items(self._targets, row + 1)
        while (cell := reserve(self._targets, 0, c, code)) == EMPTY:
            self._targets = grown(self._targets)
        append(self._targets, cell, row)
        self._classes[c] += 1

    def _unaim(self, row: int) -> None:
        if row < len(self._targets.lies) and self._targets.lies[row, CELL] != EMPTY:
            cell = self._targets.lies[row, CELL]
            self._classes[self._targets.cells[cell, CLASS]] -= 1
            take_out(self._targets, row)


_NO_ROWS: I32 = np.zeros(0, np.int32)


def _joined(parts: list[I32]) -> I32:
    return np.concatenate(parts) if parts else _NO_ROWS


def _is_placed(event: Event | None) -> bool:
    return event is not None and event.position is not None
