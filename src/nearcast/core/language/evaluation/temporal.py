"""Instants and intervals at evaluation: their order, and Allen's relations between them.

A day and an instant are compared by day: ``t = DATE('2024-05-31')`` is true throughout that day.
The functions ``t_...`` compare days with days as days; if any end is an instant, a day is the
interval from its first to its last microsecond. All days are UTC.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from nearcast.core.language.evaluation.instants import read_instant

Instant: TypeAlias = date | datetime
Number: TypeAlias = int | float

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY = 86_400_000_000


class Span(Struct, frozen=True):
    """The time from one instant to another; None is unbounded."""

    start: Instant | None
    end: Instant | None


def as_instant(value: object) -> Instant | None:
    """Return a value as a day or an instant in UTC, or None if it is neither."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return value
    if isinstance(value, str):
        try:
            return read_instant(value)
        except ValueError:
            return None
    return None


def order(left: Instant, right: Instant) -> int:
    """Return -1, 0 or 1 if the left is before, at or after the right; by day if one is a day."""
    if not (isinstance(left, datetime) and isinstance(right, datetime)):
        left, right = day_of(left), day_of(right)
    return (left > right) - (left < right)


def day_of(instant: Instant) -> date:
    """Return the day of an instant."""
    return instant.date() if isinstance(instant, datetime) else instant


def related(op: str, left: Span, right: Span) -> bool | None:
    """Return whether a relation holds; None if a span ends before it starts."""
    ends = (left.start, left.end, right.start, right.end)
    fine = any(isinstance(end, datetime) for end in ends)
    a1, a2 = bounds(left, fine)
    b1, b2 = bounds(right, fine)
    if a1 > a2 or b1 > b2:
        return None
    return RELATIONS[op](a1, a2, b1, b2)


def bounds(span: Span, fine: bool) -> tuple[Number, Number]:
    """Return a span's ends as numbers: in microseconds if `fine`, otherwise in days."""
    start = float("-inf") if span.start is None else place(span.start, fine)
    end = float("inf") if span.end is None else place(span.end, fine)
    if fine and span.end is not None and not isinstance(span.end, datetime):
        end += DAY - 1
    return start, end


def place(instant: Instant, fine: bool) -> int:
    """Return the microseconds since the epoch; for a day without `fine`, the days."""
    if isinstance(instant, datetime):
        return (instant - EPOCH) // MICROSECOND
    return (instant.toordinal() - EPOCH.toordinal()) * (DAY if fine else 1)


Relation: TypeAlias = Callable[[Number, Number, Number, Number], bool]

RELATIONS: dict[str, Relation] = {
    "t_after": lambda a1, a2, b1, b2: a1 > b2,
    "t_before": lambda a1, a2, b1, b2: a2 < b1,
    "t_contains": lambda a1, a2, b1, b2: a1 < b1 and a2 > b2,
    "t_disjoint": lambda a1, a2, b1, b2: a2 < b1 or a1 > b2,
    "t_during": lambda a1, a2, b1, b2: a1 > b1 and a2 < b2,
    "t_equals": lambda a1, a2, b1, b2: a1 == b1 and a2 == b2,
    "t_finishedBy": lambda a1, a2, b1, b2: a1 < b1 and a2 == b2,
    "t_finishes": lambda a1, a2, b1, b2: a1 > b1 and a2 == b2,
    "t_intersects": lambda a1, a2, b1, b2: a1 <= b2 and a2 >= b1,
    "t_meets": lambda a1, a2, b1, b2: a2 == b1,
    "t_metBy": lambda a1, a2, b1, b2: a1 == b2,
    "t_overlappedBy": lambda a1, a2, b1, b2: b1 < a1 < b2 < a2,
    "t_overlaps": lambda a1, a2, b1, b2: a1 < b1 < a2 < b2,
    "t_startedBy": lambda a1, a2, b1, b2: a1 == b1 and a2 > b2,
    "t_starts": lambda a1, a2, b1, b2: a1 == b1 and a2 < b2,
}
