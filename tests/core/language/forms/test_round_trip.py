"""Text and JSON forms of every construct, read and written back."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.core.language import parse
from tests.core.language.strategies import Written, conditions, spaced


def typed(value: object) -> str:
    """Return JSON text, in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


@given(conditions(), st.data())
@settings(max_examples=400, deadline=None)
def test_text_becomes_the_json_the_grammar_says(written: Written, data: st.DataObject) -> None:
    text = data.draw(spaced(written[0]))
    assert typed(parse(text).to_json()) == typed(written[1])


@given(conditions(depth=4))
@settings(max_examples=400, deadline=None)
def test_text_to_json_to_text_to_json_changes_nothing(written: Written) -> None:
    once = parse(" ".join(written[0]))
    again = parse(once.to_text())
    from_json = parse(json.dumps(once.to_json())) if written[1] not in (True, False) else once
    assert again == once == from_json
    assert hash(again) == hash(once) == hash(from_json)
    assert again.to_text() == from_json.to_text() == once.to_text()
    assert typed(again.to_json()) == typed(once.to_json())


def test_literals_of_different_types_are_different_filters() -> None:
    filters = {parse(f"x = {literal}") for literal in ("1", "1.0", "TRUE", "'1'")}
    assert len(filters) == 4


def test_names_that_could_be_taken_for_something_else_are_quoted() -> None:
    for name in ("and", "point", "Distance", "a b", "1st", "a-b", 'say "hi"', "é", "a..b", "a."):
        filter_ = parse({"op": "isNull", "args": [{"property": name}]})
        assert '"' in filter_.to_text()
        assert parse(filter_.to_text()) == filter_


def test_plain_names_stay_without_quotes() -> None:
    assert parse('"a.b" = 1').to_text() == "a.b = 1"


def test_brackets_are_written_only_where_they_matter() -> None:
    text = "a + b * (c - (-1)) > 2 AND (x OR NOT y) AND z NOT LIKE 'q%'"
    assert parse(f"(({text}))").to_text() == text


def test_and_and_or_are_flattened_through_brackets() -> None:
    assert parse("a AND (b AND (c AND d))") == parse("a AND b AND c AND d")


def test_a_boolean_is_a_whole_filter_in_text_and_json() -> None:
    assert parse(True) == parse("true")
    assert parse("TRUE").to_json() is True


def test_an_offset_is_written_in_utc() -> None:
    assert parse("t > TIMESTAMP('2024-01-01T00:30:00+01:00')").to_text() == (
        "t > TIMESTAMP('2023-12-31T23:30:00Z')"
    )
