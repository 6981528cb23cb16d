"""Filters in CQL2 text and JSON: round trips, errors with a place, bounded work, no exceptions."""

import json
from random import Random

from nearcast.core.language import Filter, LanguageError, parse
from nearcast.core.language.evaluation.scope import Value
from tests.fuzz.random_filters import filter_json, filter_text, nested_json, nested_text
from tests.support.fuzzing.call_counter import counted_calls
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import mutated_text

LONGEST_ERROR = 2_000
CALLS, CALLS_PER_CHARACTER = 20_000, 60
"""At most so many calls read a filter; with more than a fixed number for each character the time
would grow faster than the text."""
_WORDS = (
    "AND", "OR", "NOT", "LIKE", "BETWEEN", "IN", "IS NULL", "(", ")", ",", "'", '"', "''", "=", "<",
    "<>", "-", "+", "*", "/", "^", "DIV", "BBOX(", "POINT(", "POLYGON((", "INTERVAL(", "DATE(",
    "TIMESTAMP(", "CASEI(", "count(", "distance(", "me", "publisher", "event", "1e400", "TRUE",
    "NULL", "{", "}", "[", "]", ":", '"op"', '"args"', '"property"', "\\ud800", "\\u0000", ";",
)  # fmt: skip
_EVENTS: tuple[dict[str, Value], ...] = (
    {},
    {"a": 1, "speed": 50.0, "kind": "bus", "über": True},
    {"a": "x", "speed": "50", "kind": None, "me": {"role": ["x"]}},
    {"a": [1, "a"], "speed": float("1e308"), "kind": "BÜS", "a.b.c": -0.0, "s": 10**30},
)
TEXT_EXAMPLES: dict[str, str] = {}
_MEMBERS = ",".join(f'"{at}":1' for at in range(8_000))
JSON_EXAMPLES = {
    "work that grew with the square of the members": f'{{{_MEMBERS},"7999":1}}',
    "an error that repeats a long member": '{"op":"=","' + "x" * 3_000 + '":1}',
    "an error that repeats a long member given twice": f'{{"{"x" * 3_000}":1,"{"x" * 3_000}":1}}',
    "an error that repeats a long member of a geometry": '{"type":"Point","' + "x" * 3_000 + '":1}',
}


class FilterTextTarget(FuzzTarget[str]):
    """CQL2 text."""

    name = "filter-text"
    suite_cases = 3_000
    examples = TEXT_EXAMPLES

    def generate(self, random: Random) -> str:
        if random.random() < 0.03:
            return nested_text(random)
        text = filter_text(random)
        return mutated_text(random, text, _WORDS) if random.random() < 0.5 else text

    def check(self, case: str) -> None:
        check_filter(case)


class FilterJsonTarget(FuzzTarget[str]):
    """CQL2 JSON, as text."""

    name = "filter-json"
    suite_cases = 3_000
    examples = JSON_EXAMPLES

    def generate(self, random: Random) -> str:
        if random.random() < 0.03:
            return nested_json(random)
        text = json.dumps(filter_json(random), ensure_ascii=random.random() < 0.5)
        return mutated_text(random, text, _WORDS) if random.random() < 0.5 else text

    def check(self, case: str) -> None:
        check_filter(case)


def check_filter(text: str) -> None:
    """Assert that a text is a filter whose forms agree, or is refused with the place."""
    found: Filter | LanguageError
    with counted_calls() as counter:
        try:
            found = parse(text)
        except LanguageError as error:
            found = error
    most = CALLS + CALLS_PER_CHARACTER * len(text)
    assert counter.calls <= most, f"{counter.calls} calls for {len(text)} characters"
    if isinstance(found, LanguageError):
        check_error(found, text)
        return
    written, value = found.to_text(), found.to_json()
    forms = (parse(written), parse(json.dumps(value)), parse(value))  # type: ignore[arg-type]
    for form in forms:
        assert form == found, written
        assert form.to_text() == written
    for event in _EVENTS:
        truth = found.evaluate(event)
        assert truth in (True, False, None)
        assert all(form.evaluate(event) is truth for form in forms)


def check_error(error: LanguageError, text: str) -> None:
    """Assert that an error can be sent, and says where it is."""
    shown = str(error)
    assert len(shown) <= LONGEST_ERROR, f"the error has {len(shown)} characters"
    shown.encode()
    assert error.message
    assert 0 <= error.position <= len(error.text)
    assert error.line >= 1
    assert error.column >= 1
    if error.text:
        assert text.startswith(error.text)
