"""Hostile input is refused, or answered with bounded work."""

import pytest

from nearcast.core.language import LanguageError, parse
from nearcast.core.language.limits import MAX_DEPTH, MAX_NODES, MAX_TEXT, MAX_VERTICES


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {"property": "a"}
    for _ in range(depth):
        value = {"op": "not", "args": [value]}
    return value


HOSTILE: list[str | dict[str, object]] = [
    "(" * 10_000,
    "(" * 5_000_000,
    "NOT " * 5_000 + "a",
    "NOT " * 3_000 + "a",
    "x = " + "-" * 3_000 + "y",
    "x = " + "casei(" * 2_000,
    "A_EQUALS(" + "(" * 8_000,
    "x = 1" + "^2" * 3_000,
    "x = 1" + "+2" * 3_000,
    " AND ".join(["a"] * 2_000),
    "x IN (" + ",".join(["1"] * 5_000) + ")",
    "x = " + "9" * 10_000,
    "x = 1e" + "9" * 1_000,
    "{" * 10_000,
    '{"op":"not","args":[' * 5_000,
    '{"op":"not","args":[' * 4_000 + "true" + "]}" * 4_000,
    '{"op":"=","args":[1,' + "9" * 10_000 + "]}",
    nested(100_000),
    {"op": "and", "args": [True] * 1_000_000},
    {"op": "isNull", "args": [{"type": "MultiPoint", "coordinates": [[0, 0]] * 100_000}]},
    {"op": "=", "args": [1, "x" * 5_000_000]},
    "x = '\0'",
    "x = '\ud800'",
    "\ud800 = 1",
]


@pytest.mark.parametrize("source", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_filters_are_refused(source: str | dict[str, object]) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(source)
    assert len(str(caught.value)) < 600


def test_a_json_value_that_contains_itself_is_refused() -> None:
    value: dict[str, object] = {"op": "not"}
    value["args"] = [value]
    with pytest.raises(LanguageError, match="deep"):
        parse(value)


def test_filters_at_the_limits_are_accepted_and_survive_being_written() -> None:
    deep = parse(nested(MAX_DEPTH - 1))
    assert parse(deep.to_text()) == deep
    wide = parse(" OR ".join(["a"] * (MAX_NODES - 1)))
    assert parse(wide.to_text()) == wide
    points = ",".join(["1 2"] * 3_000)
    many = parse(f"S_INTERSECTS(g, LINESTRING({points}))")
    assert many.evaluate({}) is None
    brackets = "(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH
    assert parse(brackets) == parse("a")


def test_filters_just_beyond_the_limits_are_refused() -> None:
    coordinates = [[0, 0]] * (MAX_VERTICES + 1)
    for source in (
        nested(MAX_DEPTH),
        " OR ".join(["a"] * MAX_NODES),
        "(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1),
        "a" * (MAX_TEXT + 1),
        {"op": "isNull", "args": [{"type": "MultiPoint", "coordinates": coordinates}]},
    ):
        with pytest.raises(LanguageError):
            parse(source)


def test_a_filter_too_long_to_be_written_is_refused() -> None:
    with pytest.raises(LanguageError, match="written out"):
        parse({"op": "=", "args": [{"property": "x"}, "'" * (MAX_TEXT // 2)]})


@pytest.mark.parametrize("pattern", ["%a" * 7_000 + "b%", "%" + "a_" * 7_000 + "b%", "%" * 16_000])
def test_patterns_made_to_be_slow_are_answered(pattern: str) -> None:
    assert parse(f"x LIKE '{pattern}'").evaluate({"x": "a" * 16_000}) is (set(pattern) == {"%"})


def test_a_property_nested_absurdly_deep_is_unknown() -> None:
    deep: list[object] = []
    for _ in range(50_000):
        deep = [deep]
    assert parse("A_EQUALS(x, ('a'))").evaluate({"x": deep}) is None  # type: ignore[dict-item]
