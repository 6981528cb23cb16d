"""Aggregates merge in any order and grouping, and say what a plain look at all parts says."""

import math
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.gathering.aggregates.aggregate_json import (
    aggregate_json,
    events_json,
    parts_from_json,
)
from nearcast.core.gathering.aggregates.exact_sum import ExactSum
from nearcast.core.gathering.aggregates.mergeable_aggregate import (
    MergeableAggregate,
    aggregate_of,
    merged,
)
from nearcast.core.gathering.aggregates.parts import Part
from nearcast.core.model.errors import ModelError

NUMBERS = st.integers(-3, 3) | st.floats(-1e299, 1e299, allow_nan=False)
VALUES = NUMBERS | st.booleans() | st.none() | st.sampled_from(["a", "b"]) | st.lists(NUMBERS)
NAMES = st.sampled_from(["speed", "line", "lane", "value"])
BODIES = st.one_of(
    st.dictionaries(NAMES, VALUES, max_size=3).map(msgspec.json.encode),
    st.sampled_from([b"", b"{}", b"plain text", b"\xff\x00"]),
)


@st.composite
def some_parts(draw: st.DrawFn) -> list[Part]:
    many = draw(st.integers(1, 24))
    return [
        Part(
            f"e{number}",
            draw(st.sampled_from(["ann", "bob", "cat"])),
            draw(st.integers(0, 4_000_000)) / 1000.0,
            draw(st.integers(0, 2)) * 10.0,
            *draw(st.sampled_from([(None, None), (53.5, -6.25), (0.0, 180.0)])),
            draw(BODIES),
            number,
            draw(st.sampled_from([(), (("u", "1"), ("u", "2"))])),
        )
        for number in range(many)
    ]


def plain_attributes(parts: list[Part]) -> dict[str, object]:
    """The attributes of parts as one would write them in a hurry."""
    said = [part.attributes() for part in parts]
    found: dict[str, object] = {}
    for name in dict.fromkeys(name for each in said for name in each):
        values = [each[name] for each in said if name in each]
        distinct: list[object] = []
        for value in values:
            if not any(same(value, each) for each in distinct):
                distinct.append(value)
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(distinct) == 1 and len(values) == len(parts):
            found[name] = values[0]
        elif len(numbers) == len(parts):
            mean = float(sum(map(Fraction, numbers)) / len(numbers))
            found[name] = {"mean": mean, "min": min(numbers), "max": max(numbers)}
        elif len(distinct) <= 16:
            found[name] = distinct
    return found


def same(one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


@given(some_parts())
def test_it_says_what_a_plain_look_at_all_parts_says(parts: list[Part]) -> None:
    parts.sort(key=lambda each: each.order)
    found = aggregate_of(parts)
    assert found.people == {part.publisher for part in parts}
    assert found.first == min(part.time for part in parts)
    assert found.last == max(part.time for part in parts)
    shown, plain = found.shown_attributes(), plain_attributes(parts)
    assert list(shown.items()) == list(plain.items())
    assert [each["id"] for each in events_json(found)] == [part.id for part in parts]


@given(st.data(), some_parts())
def test_it_is_the_same_in_any_order_and_grouping(data: st.DataObject, parts: list[Part]) -> None:
    expected = aggregate_of(parts)
    waiting = [MergeableAggregate.of(part) for part in data.draw(st.permutations(parts))]
    while len(waiting) > 1:
        other = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        one = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        waiting.append(one.merged(other))
    assert waiting[0] == expected
    assert msgspec.json.encode(aggregate_json(waiting[0])) == msgspec.json.encode(
        aggregate_json(expected)
    )


@given(some_parts(), st.integers(1, 23))
def test_an_aggregate_of_aggregates_is_that_of_all_parts(parts: list[Part], cut: int) -> None:
    parts.sort(key=lambda each: each.order)
    whole = written(aggregate_of(parts))
    first, second = parts[:cut], parts[cut:]
    given = [written(aggregate_of(some)) for some in (first, second) if some]
    read = [
        part for n, each in enumerate(given) for part in parts_from_json(*counted(each), float(n))
    ]
    assert msgspec.json.decode(written(aggregate_of(read))) == msgspec.json.decode(whole)


def written(aggregate: MergeableAggregate) -> bytes:
    return msgspec.json.encode(
        {**aggregate_json(aggregate), "events": events_json(aggregate)}, order="sorted"
    )


def counted(payload: bytes) -> tuple[bytes, int]:
    return payload, msgspec.json.decode(payload)["count"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"count": 3}, "must be equal"),
        ({"events": []}, "must be equal"),
        ({"events": "none"}, "not an aggregate"),
        ({"count": None}, "not an aggregate"),
    ],
)
def test_what_is_no_aggregate_is_refused(change: dict[str, Any], why: str) -> None:
    good = msgspec.json.decode(written(aggregate_of([Part("1", "ann", 1.0, 1.0)])))
    with pytest.raises(ModelError, match=why):
        parts_from_json(msgspec.json.encode(good | change), 1, 0.0)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1))
def test_sums_are_exact(numbers: list[float]) -> None:
    total = merged_sum(numbers)
    assert Fraction(total.units, 1 << total.shift) == sum(map(Fraction, numbers))
    assert merged_sum(numbers[::-1]) == total
    if max(map(abs, numbers)) < 1e300:
        assert math.isclose(
            total.mean(len(numbers)), math.fsum(number / len(numbers) for number in numbers),
            rel_tol=1e-9, abs_tol=1e284,
        )  # fmt: skip


def merged_sum(numbers: list[float]) -> ExactSum:
    total = ExactSum()
    for number in numbers:
        total += ExactSum.of(number)
    return total


def test_nothing_is_no_aggregate() -> None:
    with pytest.raises(ModelError, match="at least one part"):
        merged([])
