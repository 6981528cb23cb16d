import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model import ModelError, check_pattern, check_subject, subject_matches
from nearcast.core.model.subject import which_match

levels = st.sampled_from(["", "a", "b", "$a"])
subjects = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
patterns = (
    st.tuples(
        st.lists(st.sampled_from(["", "a", "b", "$a", "+"]), min_size=1, max_size=4),
        st.booleans(),
    )
    .map(lambda drawn: "/".join([*drawn[0], "#"] if drawn[1] else drawn[0]))
    .filter(bool)
)


@given(patterns, subjects)
def test_patterns_match_as_a_regular_expression_would(pattern: str, subject: str) -> None:
    check_pattern(pattern)
    check_subject(subject)
    body, rest = (pattern[:-2], "(/.*)?") if pattern.endswith("/#") else (pattern, "")
    levels = ("[^/]*" if level == "+" else re.escape(level) for level in body.split("/"))
    expected = re.fullmatch("/".join(levels) + rest, subject) is not None
    if subject.startswith("$") and pattern[0] in "+#":
        expected = False
    assert subject_matches(pattern, subject) == expected


@given(patterns, st.lists(subjects))
def test_many_subjects_are_matched_as_each_of_them(pattern: str, some: list[str]) -> None:
    assert which_match(pattern, some) == [subject_matches(pattern, each) for each in some]


@pytest.mark.parametrize("pattern", ["+/b/" * 30 + "#", "a.c/\n+/+", "a.c/\n+", "a/#"])
def test_many_subjects_are_matched_by_any_pattern(pattern: str) -> None:
    some = ["a/b/" * 30, "a/b/" * 14, "abc/\n+/x", "a.c/\n+/x\n", "a.c/\n+", "a\n", "a/\n"]
    assert which_match(pattern, some) == [subject_matches(pattern, each) for each in some]


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("#", "a", True),
        ("#", "a/b", True),
        ("#", "$me/errors", False),
        ("+/errors", "$me/errors", False),
        ("$me/#", "$me/errors", True),
        ("a/#", "a", True),
        ("a/#", "ab", False),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("+", "a/b", False),
        ("+/+", "/a", True),
        ("a/+/#", "a/b", True),
    ],
)
def test_the_rules_of_mqtt_hold(pattern: str, subject: str, matches: bool) -> None:
    assert subject_matches(pattern, subject) is matches


@pytest.mark.parametrize("name", ["", "a/+", "a/#", "a\x00b", "x" * 65_536, "\ud800"])
def test_names_that_no_event_can_have_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="subject"):
        check_subject(name)


@pytest.mark.parametrize("pattern", ["", "a#", "#/a", "a/#/b", "a+", "+a/b", "a\x00"])
def test_patterns_with_misplaced_wildcards_are_refused(pattern: str) -> None:
    with pytest.raises(ModelError, match="pattern"):
        check_pattern(pattern)
