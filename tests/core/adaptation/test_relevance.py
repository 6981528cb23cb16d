"""Relevance vectors: forms, levels, lengths and nesting."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.adaptation.relevance import (
    ByRole,
    Learned,
    atoms_against_nesting,
    checked_vector,
    level_of,
    parse_relevance,
)
from nearcast.core.language import parse


@pytest.mark.parametrize(
    ("given_", "vector"),
    [
        ("1, 0.5 0", (3, 2, 0)),
        ("0.33,0.34,1", (1, 2, 3)),
        ([1, 0.1], (3, 1)),
        ("levels:3,2,1,3", (3, 2, 1, 3)),
        ("levels: 0 1", (0, 1)),
        (0.5, (2,)),
    ],
)
def test_vectors_are_read_as_levels(given_: object, vector: tuple[int, ...]) -> None:
    assert parse_relevance(given_, 3) == vector


def test_vectors_may_come_from_elsewhere() -> None:
    assert parse_relevance("role", 3) == ByRole()
    assert parse_relevance("learned:buses", 3) == Learned("buses")


@pytest.mark.parametrize(
    ("given_", "problem"),
    [
        ("0, 0", "selects nothing"),
        ("", "selects nothing"),
        ("1, 2", "number from 0 to 1"),
        ("nan", "number from 0 to 1"),
        ("0_1", "number from 0 to 1"),
        ("\u0661", "number from 0 to 1"),
        ("levels:\u0661", "from 0 to 3"),
        ("high", "number from 0 to 1"),
        ([True], "number from 0 to 1"),
        ("levels:4", "from 0 to 3"),
        ("levels:1.5", "from 0 to 3"),
        ("learned:", "name"),
        ({"a": 1}, "number from 0 to 1"),
    ],
)
def test_other_forms_are_refused_with_what_is_right(given_: object, problem: str) -> None:
    with pytest.raises(AdaptationError, match=problem):
        parse_relevance(given_, 3)


@given(st.integers(1, 16), st.integers(0, 1000))
def test_levels_are_half_open_intervals(levels: int, thousandth: int) -> None:
    relevance = Fraction(thousandth, 1000)
    level = level_of(float(relevance), levels)
    if not relevance:
        assert level == 0
    # A double next to a border may stand for either side.
    elif all(abs(relevance * levels - k) > Fraction(1, 10**9) for k in range(levels + 1)):
        assert Fraction(level - 1, levels) < relevance <= Fraction(level, levels)


@pytest.mark.parametrize("levels", range(1, 17))
def test_borders_belong_to_the_lower_level(levels: int) -> None:
    assert [level_of(k / levels, levels) for k in range(levels + 1)] == list(range(levels + 1))


def test_a_vector_of_the_wrong_length_names_the_atoms() -> None:
    form = FormFunction(parse("kind = 'fire' OR level > 5"))
    with pytest.raises(AdaptationError, match=r"3 values.*2 atoms.*kind = 'fire', level > 5"):
        checked_vector((1, 2, 3), form)
    with pytest.raises(AdaptationError, match="one number"):
        checked_vector((1, 2), FormFunction(None))


@pytest.mark.parametrize(
    ("where", "vector", "atoms"),
    [
        ("a = 1 OR b = 2", (3, 1), []),
        ("a = 1 AND b = 2", (3, 3), []),
        ("a = 1 AND b = 2", (3, 1), [1]),
        ("a = 1 AND b = 2", (3, 0), []),
        ("(a = 1 OR b = 2 OR c = 3) AND d = 4", (3, 2, 1, 3), []),
        ("(a = 1 OR b = 2) AND d = 4", (2, 1, 3), [0, 1]),
        ("NOT (a = 1 OR b = 2)", (3, 1), [1]),
        ("NOT (a = 1 AND b = 2)", (3, 1), []),
    ],
)
def test_atoms_that_break_nesting_are_found(
    where: str, vector: tuple[int, ...], atoms: list[int]
) -> None:
    assert atoms_against_nesting(FormFunction(parse(where)), vector) == atoms
