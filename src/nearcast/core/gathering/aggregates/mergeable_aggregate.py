"""Aggregates that merge: counts, exact sums and bounded sets of values (seed E).

An aggregate has the form of a context: people, a time span, attributes. Two that have no part in
common merge into that of all parts, in whatever order and grouping; means, minima and lists are
read off when it is shown. Parts are ordered by arrival, and so is whatever names a first one.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from heapq import merge as merge_sorted
from operator import attrgetter
from typing import TypeGuard

import msgspec
from msgspec import Struct

from nearcast.core.gathering.aggregates.exact_sum import ExactSum
from nearcast.core.gathering.aggregates.parts import Part, PartOrder
from nearcast.core.model.context import Value
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position

MOST_VALUES = 16
"""An attribute with more distinct values than this is left out."""


class NumberSummary(Struct, frozen=True, gc=False):
    """Numbers: how many, their sum, and the least and the greatest, each as first given."""

    count: int
    total: ExactSum
    least: tuple[float, PartOrder]
    greatest: tuple[float, PartOrder]

    @property
    def mean(self) -> float:
        """The mean."""
        return self.total.mean(self.count)

    def merged(self, other: "NumberSummary") -> "NumberSummary":
        """Return the summary of both."""
        highest, challenger = self.greatest, other.greatest
        if (-challenger[0], challenger[1]) < (-highest[0], highest[1]):
            highest = challenger
        return NumberSummary(
            self.count + other.count,
            self.total + other.total,
            min(self.least, other.least),
            highest,
        )


class AttributeSummary(Struct, frozen=True):
    """An attribute of several parts."""

    count: int
    """The number of parts that have it."""
    first: tuple[PartOrder, int]
    """The first part that has it, and its place there."""
    values: Mapping[bytes, tuple[PartOrder, Value]] | None
    """Distinct values by their canonical JSON, each as first given; None: too many."""
    numbers: NumberSummary | None
    """Its numbers, if there are any."""

    @classmethod
    def of(cls, value: Value, order: PartOrder, place: int) -> "AttributeSummary":
        """Return the summary of one value."""
        numbers = None
        if is_number(value):
            numbers = NumberSummary(1, ExactSum.of(value), (value, order), (value, order))
        return cls(1, (order, place), {_canonical(value): (order, value)}, numbers)

    def merged(self, other: "AttributeSummary") -> "AttributeSummary":
        """Return the summary of both."""
        numbers = self.numbers or other.numbers
        if self.numbers is not None and other.numbers is not None:
            numbers = self.numbers.merged(other.numbers)
        return AttributeSummary(
            self.count + other.count,
            min(self.first, other.first),
            _merged_values(self.values, other.values),
            numbers,
        )

    def shown(self, count: int) -> object:
        """Return what is shown of it for `count` parts, `LEFT_OUT` if that is nothing."""
        if self.is_alike(count):
            assert self.values is not None
            return next(iter(self.values.values()))[1]
        numbers = self.numbers
        if numbers is not None and numbers.count == count:
            return {"mean": numbers.mean, "min": numbers.least[0], "max": numbers.greatest[0]}
        if self.values is None:
            return LEFT_OUT
        ordered = sorted(self.values.values(), key=lambda each: each[0])
        return [value for _, value in ordered]

    def is_alike(self, count: int) -> bool:
        """True if all of `count` parts have it, with one value."""
        return self.count == count and self.values is not None and len(self.values) == 1


class PositionSummary(Struct, frozen=True, gc=False):
    """Positions, as sums of vectors on a sphere."""

    count: int
    x: ExactSum
    y: ExactSum
    z: ExactSum
    only: tuple[float, float] | None
    """The position, if it is the same in all parts."""

    @classmethod
    def of(cls, lat: float, lon: float) -> "PositionSummary":
        """Return the summary of one position."""
        phi, lam = math.radians(lat), math.radians(lon)
        x, y = math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam)
        z = math.sin(phi)
        return cls(1, ExactSum.of(x), ExactSum.of(y), ExactSum.of(z), (lat, lon))

    def merged(self, other: "PositionSummary") -> "PositionSummary":
        """Return the summary of both."""
        only = self.only if self.only == other.only else None
        return PositionSummary(
            self.count + other.count, self.x + other.x, self.y + other.y, self.z + other.z, only
        )

    def mean(self) -> Position | None:
        """Return the mean position, also across the antimeridian; None if there is no such."""
        if self.only is not None:
            return Position(*self.only)
        x, y, z = (each.mean(1) for each in (self.x, self.y, self.z))
        across = math.hypot(x, y)
        if math.hypot(across, z) < 1e-9 * self.count:
            return None
        return Position(math.degrees(math.atan2(z, across)), math.degrees(math.atan2(y, x)))


class MergeableAggregate(Struct, frozen=True):
    """Parts together, in the form of a context."""

    count: int
    people: frozenset[str]
    first: float
    last: float
    attributes: Mapping[str, AttributeSummary]
    position: PositionSummary | None
    """Of the parts that have a position."""
    parts: tuple[Part, ...]
    """The parts, in order of arrival."""

    @classmethod
    def of(cls, part: Part) -> "MergeableAggregate":
        """Return the aggregate of one part."""
        order = part.order
        attributes = {
            name: AttributeSummary.of(value, order, place)
            for place, (name, value) in enumerate(part.attributes().items())
        }
        position = None
        if part.lat is not None and part.lon is not None:
            position = PositionSummary.of(part.lat, part.lon)
        people = frozenset((part.publisher,)) if part.publisher else frozenset()
        return cls(1, people, part.time, part.time, attributes, position, (part,))

    def merged(self, other: "MergeableAggregate") -> "MergeableAggregate":
        """Return the aggregate of the parts of both, which have none in common."""
        attributes = dict(self.attributes)
        for name, summary in other.attributes.items():
            known = attributes.get(name)
            attributes[name] = summary if known is None else known.merged(summary)
        position = self.position or other.position
        if self.position is not None and other.position is not None:
            position = self.position.merged(other.position)
        return MergeableAggregate(
            self.count + other.count,
            self.people | other.people,
            min(self.first, other.first),
            max(self.last, other.last),
            attributes,
            position,
            tuple(merge_sorted(self.parts, other.parts, key=_BY_ARRIVAL)),
        )

    def shown_attributes(self) -> dict[str, object]:
        """Return what is shown of the attributes, in the order in which they first came."""
        found = {}
        for name, summary in sorted(self.attributes.items(), key=lambda each: each[1].first):
            shown = summary.shown(self.count)
            if shown is not LEFT_OUT:
                found[name] = shown
        return found

    def alike(self) -> frozenset[str]:
        """Return the names of attributes that are the same in all parts."""
        every = self.attributes.items()
        return frozenset(name for name, summary in every if summary.is_alike(self.count))


def aggregate_of(parts: Sequence[Part]) -> MergeableAggregate:
    """Return the aggregate of parts, each of which is another event."""
    return merged(map(MergeableAggregate.of, parts))


def merged(aggregates: Iterable[MergeableAggregate]) -> MergeableAggregate:
    """Return the aggregate of all parts of several aggregates."""
    found = list(aggregates)
    if not found:
        raise ModelError("an aggregate needs at least one part")
    while len(found) > 1:
        # In pairs, so that a part is moved as often as the number of aggregates can be halved.
        found = [
            reduce(MergeableAggregate.merged, found[at : at + 2])
            for at in range(0, len(found), 2)
        ]  # fmt: skip
    return found[0]


def is_number(value: Value) -> TypeGuard[float]:
    """True for numbers that have a mean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


LEFT_OUT = object()
_BY_ARRIVAL = attrgetter("order")


def _merged_values(
    some: Mapping[bytes, tuple[PartOrder, Value]] | None,
    others: Mapping[bytes, tuple[PartOrder, Value]] | None,
) -> Mapping[bytes, tuple[PartOrder, Value]] | None:
    if some is None or others is None:
        return None
    found = dict(some)
    for key, given in others.items():
        known = found.get(key)
        if known is None or given[0] < known[0]:
            found[key] = given
    return found if len(found) <= MOST_VALUES else None


def _canonical(value: Value) -> bytes:
    """Return the same bytes for equal values: 1 and 1.0 are equal, 1 and true are not."""
    return msgspec.json.encode(float(value) if is_number(value) else value, order="sorted")
