"""Recent events as columns, by their numbers, for counting.

What decides whether an event counts for somebody lies here: where it was, on which subject, whose
position it took, and where its target was when it arrived. A kernel counts those that count for
sure, and names those that must be looked at one by one.
"""

from typing import NamedTuple

import numpy as np

from nearcast.core.compiled import compiled
from nearcast.core.matching.filters.intern_table import InternTable
from nearcast.core.matching.tables import F64, I32, I64, U8, enough, resized
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Around, Circle, MovingCircle
from nearcast.core.model.geometry.geodesy import ecef, within
from nearcast.core.model.geometry.shapes import shape_holds
from nearcast.core.model.subject_permissions import SubjectPermissions

BORROWED, CIRCLE_TARGET, OTHER_TARGET, ABOUT = 1, 2, 4, 8
"""Flags of an event: its position is its publisher's; its target is a circle, or another area; it
tells of nodes."""
MOST_PERMISSIONS = 64
"""Permissions for which it is remembered which subjects they permit."""
FIRST_ROOM = 64
NOBODY_M = -1.0
"""The radius of a target that holds nobody."""
_UNKNOWN = 2


class RecentArrays(NamedTuple):
    """One row per event, in the order of arrival."""

    at: F64  # (rows, 2): latitude and longitude; NaN: it has none
    target: F64  # (rows, 3): the centre and radius of a target that is a circle
    subject: I32
    flags: U8


class RecentColumns:
    """Columns of recent events, from a first number to a last."""

    def __init__(self, first: int = 0) -> None:
        self.arrays = RecentArrays(
            np.zeros((FIRST_ROOM, 2)),
            np.zeros((FIRST_ROOM, 3)),
            np.zeros(FIRST_ROOM, np.int32),
            np.zeros(FIRST_ROOM, np.uint8),
        )
        self.base = first
        """The number of the event in the first row."""
        self._start = self._end = 0
        self._subjects: InternTable[str] = InternTable()
        self._permitted: dict[SubjectPermissions, U8] = {}

    def append(self, event: Event) -> None:
        """Add an event, with the next number."""
        if self._end == len(self.arrays.flags):
            self._make_room()
        row, arrays, at = self._end, self.arrays, event.position
        arrays.at[row] = (np.nan, np.nan) if at is None else (at.lat, at.lon)
        arrays.subject[row] = self._subjects.acquire(event.subject)
        flags = BORROWED * (not event.at_given) | ABOUT * bool(event.about)
        if event.to is not None:
            circle = _circle_of(event)
            flags |= OTHER_TARGET if circle is None else CIRCLE_TARGET
            arrays.target[row] = circle or (0.0, 0.0, NOBODY_M)
        arrays.flags[row] = flags
        self._end += 1

    def drop_first(self) -> None:
        """Drop the oldest event."""
        subject = int(self.arrays.subject[self._start])
        if self._subjects.release(subject):
            for permitted in self._permitted.values():
                permitted[subject : subject + 1] = _UNKNOWN
        self._start += 1

    def permitted(self, countable: SubjectPermissions | None, numbers: I64) -> U8:
        """Return by number of a subject whether it may be counted, for those of some events."""
        size = self._subjects.capacity
        if countable is None:
            return np.ones(size, np.uint8)
        known = self._permitted.pop(countable, _NO_SUBJECTS)
        if len(known) < size:
            known = np.concatenate((known, np.full(size - len(known), _UNKNOWN, np.uint8)))
        subjects = self.arrays.subject[numbers - self.base]
        for subject in np.unique(subjects[known[subjects] == _UNKNOWN]).tolist():
            known[subject] = countable.permits(self._subjects.value(subject))
        # The permissions that were not used for longest are forgotten.
        self._permitted[countable] = known
        if len(self._permitted) > MOST_PERMISSIONS:
            del self._permitted[next(iter(self._permitted))]
        return known[:size]

    def _make_room(self) -> None:
        """Move the events to the beginning, of larger arrays unless half is free."""
        count, size = self._end - self._start, len(self.arrays.flags)
        if 2 * count > size:
            size = enough(size, 2 * count)
        kept = (array[self._start : self._end] for array in self.arrays)
        moved = (resized(array, size) for array in kept)
        self.arrays = RecentArrays(*moved)  # type: ignore[arg-type]  # the kinds stay
        self.base += self._start
        self._start, self._end = 0, count


_NO_SUBJECTS: U8 = np.zeros(0, np.uint8)


def _circle_of(event: Event) -> tuple[float, float, float] | None:
    """Return the circle that an event's target was when it arrived; None if it was no circle."""
    to, anchor = event.to, event.target_at
    if isinstance(to, Circle):
        return to.center.lat, to.center.lon, to.radius_m
    if not isinstance(to, Around):
        return None
    if anchor is None:
        return 0.0, 0.0, NOBODY_M
    shape = to.shape
    if isinstance(shape, MovingCircle) and shape.east_m == shape.north_m == 0.0:
        return anchor.lat, anchor.lon, shape.radius_m
    return None


@compiled
def count_sure(
    numbers: I64,
    base: int,
    events: RecentArrays,
    own: I64,
    permitted: U8,
    area: F64,
    here: F64,
    hides_positions: bool,
    most: int,
    unsure: I64,
) -> tuple[int, int]:
    """Count the events that count for somebody: (for sure, to be looked at one by one).

    It stops when `most` are sure. `own` are numbers that do not count, `area` is the code of the
    area that they must be in (empty: anywhere), `here` the position of who asks (NaN: none). With
    `hides_positions`, borrowed positions may be hidden.
    """
    sure = unsure_count = 0
    x = y = z = 0.0
    placed = here[0] == here[0]
    if placed:
        x, y, z = ecef(here[0], here[1])
    for number in numbers:
        if sure >= most:
            break
        row = number - base
        if permitted[events.subject[row]] != 1:
            continue
        flags = events.flags[row]
        if flags & CIRCLE_TARGET:
            lat, lon, radius_m = events.target[row, 0], events.target[row, 1], events.target[row, 2]
            if not placed or radius_m < 0.0:
                continue
            tx, ty, tz = ecef(lat, lon)
            if not within(lat, lon, tx, ty, tz, here[0], here[1], x, y, z, radius_m):
                continue
        if len(area) > 0:
            lat, lon = events.at[row, 0], events.at[row, 1]
            if lat != lat:
                continue
            ex, ey, ez = ecef(lat, lon)
            if not shape_holds(area, 0, lat, lon, ex, ey, ez, 0.0, 0.0):
                continue
        is_own = False
        for other in own:
            is_own = is_own or other == number
        if is_own:
            continue
        if flags & (OTHER_TARGET | ABOUT) or (hides_positions and flags & BORROWED):
            unsure[unsure_count] = number
            unsure_count += 1
        else:
            sure += 1
    return sure, unsure_count
