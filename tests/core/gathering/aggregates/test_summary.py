"""What aggregates say of their parts, and what they never say of people."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.gathering import Aggregate, Part, Threshold
from nearcast.core.gathering.aggregates.summary import LARGEST_EVENTS_BYTES, aggregate, aggregate_id
from nearcast.core.model import Position

VOLUME = Threshold("volume", 2)


def part(
    id_: str,
    publisher: str = "ann",
    said: object = None,
    time: float = 60.0,
    lat: float | None = None,
    lon: float | None = None,
) -> Part:
    return Part(
        id_, publisher, time, time, lat, lon, b"" if said is None else msgspec.json.encode(said)
    )


def said(parts: Sequence[Part], threshold: Threshold = VOLUME) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(gathered(parts, threshold).payload)
    return found


def gathered(
    parts: Sequence[Part], threshold: Threshold = VOLUME, middle: Position | None = None
) -> Aggregate:
    return aggregate("a/#", "subject:a", parts, threshold, middle)


def test_an_aggregate_is_a_context_of_people_a_span_and_attributes() -> None:
    where = {"location": "Joe's Pub"}
    alice = part("1", "Alice", where | {"activity": "dancing", "beat": 2}, time=80_000.0)
    marc = part("2", "Marc", where | {"activity": "singing", "beat": 4}, lat=53.5, lon=-6.5)
    assert said([alice, marc]) == {
        "people": ["Alice", "Marc"],
        "first": "1970-01-01T00:01:00.000Z",
        "last": "1970-01-01T22:13:20.000Z",
        "count": 2,
        "attributes": {
            "location": "Joe's Pub",
            "activity": ["dancing", "singing"],
            "beat": {"mean": 3.0, "min": 2, "max": 4},
        },
        "events": [
            {
                "id": "1",
                "publisher": "Alice",
                "time": "1970-01-01T22:13:20.000Z",
                "attributes": {"activity": "dancing", "beat": 2},
            },
            {
                "id": "2",
                "publisher": "Marc",
                "time": "1970-01-01T00:01:00.000Z",
                "position": [-6.5, 53.5],
                "attributes": {"activity": "singing", "beat": 4},
            },
        ],
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1.0], 1),
        ([1, True], [1, True]),
        ([None, None], None),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], {"a": 1, "b": 2}),
        ([[1], [2]], [[1], [2]]),
        (["x", "y", "x"], ["x", "y"]),
        ([1, "x"], [1, "x"]),
        ([1e308, 1e308], 1e308),
        ([9e299, 8e299], {"mean": 8.5e299, "min": 8e299, "max": 9e299}),
    ],
)
def test_values_that_differ_are_summarised(values: list[object], expected: object) -> None:
    parts = [part(str(number), said={"x": value}) for number, value in enumerate(values)]
    assert said(parts)["attributes"] == {"x": expected}


def test_what_only_some_say_is_a_list_and_too_many_values_are_left_out() -> None:
    assert said([part("1", said={"x": 1}), part("2")])["attributes"] == {"x": [1]}
    many = [part(str(number), said={"x": f"{number}"}) for number in range(17)]
    assert said(many)["attributes"] == {}


def test_events_that_take_too_much_are_left_out() -> None:
    large = [part(str(number), said={"x": f"{number}" * 4000}) for number in range(100)]
    assert sum(len(each.payload) for each in large) > LARGEST_EVENTS_BYTES
    found = said(large)
    assert "events" not in found
    assert found["count"] == 100


def test_the_position_is_the_middle_of_all_across_the_antimeridian_too() -> None:
    found = gathered([part("1", lat=0.0, lon=179.0), part("2", lat=0.0, lon=-179.0), part("3")])
    assert (found.lat, abs(found.lon or 0.0)) == (0.0, 180.0)
    assert gathered([part("1"), part("2")]).lat is None
    opposite = [part("1", lat=0.0, lon=0.0), part("2", lat=0.0, lon=180.0)]
    assert gathered(opposite).lat is None
    assert gathered(opposite, middle=Position(1.0, 2.0)).lat == 1.0


@given(st.permutations([part(str(number), publisher) for number in range(4) for publisher in "ab"]))
def test_the_id_is_that_of_the_parts_in_any_order(parts: list[Part]) -> None:
    expected = aggregate_id("a/#", "subject:a", sorted(parts, key=lambda each: each.key))
    assert aggregate_id("a/#", "subject:a", parts) == expected
    others = {
        expected,
        aggregate_id("b/#", "subject:a", parts),
        aggregate_id("a/#", "subject:b", parts),
        aggregate_id("a/#", "subject:a", parts[1:]),
        aggregate_id("a/#", "subject:a", [*parts, part("4", "a")]),
    }
    assert len(others) == 5


NUMBERS = st.integers(1001, 9999)


@given(
    st.lists(
        st.tuples(st.integers(0, 6), NUMBERS, NUMBERS, NUMBERS, st.booleans()),
        min_size=3,
        max_size=12,
        unique_by=(lambda each: each[1], lambda each: each[2], lambda each: each[3]),
    )
)
def test_with_people_nothing_tells_of_one_of_them(
    them: list[tuple[int, int, int, int, bool]],
) -> None:
    parts = [
        part(
            f"event-{speed}",
            f"person-{who}",
            {"speed": speed, "name": f"person-{who}", "own": f"mark-{who}", "here": "pub"},
            time=seconds + 0.25,
            lat=50.0 + lat / 1e4 if located else None,
            lon=-6.0 if located else None,
        )
        for who, speed, seconds, lat, located in them
    ]
    people = {each.publisher for each in parts}
    if len(people) < 3:
        return
    found = gathered(parts, Threshold("people", 3))
    text = found.payload.decode()
    assert "person-" not in text
    assert "mark-" not in text
    assert "event" not in text
    payload = msgspec.json.decode(text)
    assert (payload["people"], payload["count"]) == (len(people), len(parts))
    assert payload["attributes"].keys() == {"speed", "here"}
    assert payload["attributes"]["speed"].keys() == {"mean"}
    assert found.time % 60.0 == 0.0
    assert payload["first"].endswith(":00.000Z")
    assert payload["last"].endswith(":00.000Z")
    located = {each.publisher for each in parts if each.lat is not None}
    assert (found.lat is not None) == (len(located) >= 3)


def test_with_people_each_counts_once() -> None:
    loud = [part(f"a{number}", "ann", {"speed": 100}) for number in range(8)]
    quiet = [part("b", "bob", {"speed": 10}), part("c", "cat", {"speed": 40})]
    found = said([*loud, *quiet], Threshold("people", 3))
    assert found["attributes"] == {"speed": {"mean": 50.0}}
