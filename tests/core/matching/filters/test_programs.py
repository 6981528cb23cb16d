"""Filters as programs: in which order their conditions are asked."""

import pytest

from nearcast.core.language import parse
from nearcast.core.matching.filters.programs import program
from nearcast.core.matching.filters.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        (
            "distance(me, publisher) < 5 AND level > 5",
            "level > 5 AND distance(me, publisher) < 5",
        ),
        (
            "approaching(event) OR me.rank = 3 OR level > 5",
            "level > 5 OR me.rank = 3 OR approaching(event)",
        ),
        (
            "(distance(me, event) < 9 OR a = 1) AND (me.rank = 2 OR b = 1) AND c = 1",
            "c = 1 AND (b = 1 OR me.rank = 2) AND (a = 1 OR distance(me, event) < 9)",
        ),
    ],
)
def test_what_the_event_alone_decides_is_asked_first(written: str, asked: str) -> None:
    vocabulary = Vocabulary()
    assert program(parse(written), vocabulary).words == program(parse(asked), vocabulary).words
