"""What atoms say of themselves, with values."""

import pytest

from nearcast.core.language import parse
from nearcast.core.language.evaluation.atom_verdicts import atom_verdicts, to_blame
from nearcast.core.language.evaluation.scope import PropertiesScope

EVENT = PropertiesScope(
    {"delay": 1, "kind": "bus", "speed": 52.5, "on": False, "a": {"b": [1, 2]}, "long": "x" * 200}
)

WHY = {
    "delay > 2": "delay is 1, wants > 2",
    "delay = '4'": "delay is 1, wants = '4'",
    "speed BETWEEN 60 AND 80": "speed is 52.5, wants BETWEEN 60 AND 80",
    "kind IN ('car', 'tram')": "kind is 'bus', wants IN ('car', 'tram')",
    "kind LIKE 'c%'": "kind is 'bus', wants LIKE 'c%'",
    "missing > 2": "missing is unknown, wants > 2",
    "delay IS NULL": "delay is 1, wants IS NULL",
    "delay + 1 > speed": "delay + 1 is 2, speed is 52.5, wants > speed",
    "2 < delay": "delay is 1, wants 2 < delay",
    "on": "on is false",
    "a.b > 1": "a.b is [1,2], wants > 1",
}


@pytest.mark.parametrize("text", WHY)
def test_an_atom_says_what_is_and_what_it_wants(text: str) -> None:
    (verdict,) = atom_verdicts(parse(text), EVENT)
    assert verdict.holds is not True
    assert verdict.why == WHY[text]
    assert parse(verdict.atom) == parse(text)


def test_what_is_long_is_cut() -> None:
    (verdict,) = atom_verdicts(parse("long = 'y'"), EVENT)
    assert len(verdict.why) < 120


BLAMED = {
    "delay > 2 AND kind = 'bus'": ["delay > 2"],
    "delay > 2 OR kind = 'car'": ["delay > 2", "kind = 'car'"],
    "delay > 2 OR kind = 'bus'": [],
    "NOT kind = 'bus'": ["kind = 'bus'"],
    "NOT (kind = 'bus' AND delay = 1)": ["kind = 'bus'", "delay = 1"],
    "NOT (kind = 'bus' OR delay = 2)": ["kind = 'bus'"],
    "delay = 1 AND missing = 2": ["missing = 2"],
}


@pytest.mark.parametrize("text", BLAMED)
def test_those_are_blamed_that_would_have_to_be_otherwise(text: str) -> None:
    found = to_blame(parse(text), EVENT)
    assert [parse(each.atom) for each in found] == [parse(each) for each in BLAMED[text]]
    assert bool(found) is (parse(text).evaluate_in(EVENT) is not True)
