"""Rules as operators write them: what they mean, and what is said of those that mean nothing."""

import pytest

from nearcast.core.gathering import (
    GatheringRule,
    Per,
    Threshold,
    parse_rule,
    parse_rules,
)
from nearcast.core.model import ModelError


@pytest.mark.parametrize(
    ("text", "threshold", "per"),
    [
        ("volume 5", Threshold("volume", 5), Per()),
        ("volume 5 per subject", Threshold("volume", 5), Per()),
        ("volume 5 wait 30 at most 7", Threshold("volume", 5, 3600, 7, 30), Per()),
        ("time 300 per cell 500", Threshold("time", 300, wait_s=360), Per("cell", None, 500)),
        ("time 300 wait 900", Threshold("time", 300, wait_s=900), Per()),
        ("time 7200", Threshold("time", 7200, 7260, wait_s=7260), Per()),
        ("time 300 within 310", Threshold("time", 300, 310, wait_s=310), Per()),
        ("people 10 per place", Threshold("people", 10), Per("place")),
        ("  people 10  per place pub ", Threshold("people", 10), Per("place", "pub")),
        ("people 10 per place 'bus stop'", Threshold("people", 10), Per("place", "bus stop")),
        ("people 10 per place within 60", Threshold("people", 10, 60), Per("place")),
        ("people 10 per place 'within'", Threshold("people", 10), Per("place", "within")),
        ("people 2000 at most 2000", Threshold("people", 2000, at_most=2000), Per()),
    ],
)
def test_a_rule_says_what_is_gathered_and_until_when(
    text: str, threshold: Threshold, per: Per
) -> None:
    assert parse_rule("a/#", text) == GatheringRule("a/#", threshold, per)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a rule is text such as"),
        (5, "a rule is text such as .* not 5"),
        ("volum 5", "begins with volume or time or people, not 'volum'; did you mean volume?"),
        ("volume", "volume needs a whole number$"),
        ("volume five", "volume needs a whole number, not 'five'"),
        ("volume 1.5", "a whole number above 0, not '1.5'"),
        ("people 0", "a whole number above 0, not '0'"),
        ("people 20000", "up to 10000, not '20000'"),
        ("time nan", "time needs seconds, not 'nan'"),
        ("volume 5 per", "per is followed by subject or place or cell, not nothing"),
        ("volume 5 per town", "not 'town'"),
        ("volume 5 per cell", "per cell needs metres$"),
        ("volume 5 per cell 0.1", "a cell is at least 1 m wide"),
        ("volume 5 per place ''", "between the quotes is empty"),
        ("volume 5 at 3", "at is followed by most, not '3'"),
        ("volume 5 within 3 within 4", "within is said twice"),
        ("volume 5 please", "after the threshold comes per or within or at or wait"),
        ("volume 5 at most 4", "there can never be 5; say at most 5 or more"),
        ("volume 5 wait 60 within 30", "say within 60 or more"),
        ("time 300 within 100", "can never span 300 s; say within 300 or more"),
        ("time 300 wait 100", "can never span 300 s; say wait 300 or more"),
        ("people 3 wait 60", "before 3 people are together: leave wait out"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_with_what_would_be_right(
    text: object, problem: str
) -> None:
    with pytest.raises(ModelError, match=problem):
        parse_rule("a/#", text)


def test_an_error_says_where_it_is() -> None:
    with pytest.raises(ModelError, match=r'^\[aggregates\] "b/\+": \'time x\': time needs'):
        parse_rules({"a/#": "volume 5", "b/+": "time x"})
    with pytest.raises(ModelError, match=r'^\[aggregates\] "a/#/b": .* whole last level'):
        parse_rules({"a/#/b": "volume 5"})
