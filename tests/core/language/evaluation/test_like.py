"""LIKE is what a regular expression would say, at a cost that many filters over an event share."""

import re

from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.language.evaluation import like
from nearcast.core.language.evaluation.like import MAX_MATCHED, compile_pattern, folded
from nearcast.core.language.filter import parse

LETTERS = "aabÄ\\%_\n\ud800x"


def plain(pattern: str) -> "re.Pattern[str]":
    """The pattern as a regular expression, which may take exponential time."""
    found, quoted = "", False
    for c in pattern:
        if quoted or c not in "%_\\":
            found += re.escape(c)
            quoted = False
        elif c == "\\":
            quoted = True
        else:
            found += ".*" if c == "%" else "."
    return re.compile(found + (re.escape("\\") if quoted else ""), re.DOTALL)


@given(st.text(LETTERS, max_size=8), st.text(LETTERS, max_size=14))
def test_patterns_match_as_regular_expressions_do(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).matches(text) == bool(plain(pattern).fullmatch(text))


def test_many_patterns_over_one_text_fold_it_once() -> None:
    text = "Ünïcode " * 2_000
    where = " OR ".join(f"ACCENTI(CASEI(name)) LIKE '%no{n}_such%'" for n in range(70))
    compiled = parse(where)
    compiled.evaluate({"name": "compiles the patterns"})
    folded.cache_clear()
    like._codes.cache_clear()
    assert compiled.evaluate({"name": text}) is False
    # Without case, and then without accents.
    assert folded.cache_info().misses == 2
    assert like._codes.cache_info().misses == 1


def test_texts_that_are_too_long_are_unknown() -> None:
    for where in ("name LIKE '%a%'", "CASEI(name) = 'b'", "ACCENTI(name) LIKE 'x'"):
        for count in (MAX_MATCHED, MAX_MATCHED + 1):
            found = parse(f"({where}) IS NULL").evaluate({"name": "a" * count})
            assert found is (count > MAX_MATCHED)
