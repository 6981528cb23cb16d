import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.auth.rules.topic_patterns import (
    covers,
    filled,
    levels_of,
    like,
    overlaps,
    parse_topic_pattern,
)
from nearcast.core.model.errors import ModelError
from nearcast.core.model.subject import subject_matches
from tests.broker.auth.rules.topics import TOPICS, patterns, selected


@given(patterns(), patterns())
def test_a_pattern_covers_another_if_it_selects_all_its_topics(one: str, other: str) -> None:
    assert covers(levels_of(one), levels_of(other)) == (selected(other) <= selected(one))


@given(patterns(), patterns())
def test_patterns_overlap_if_a_topic_is_selected_by_both(one: str, other: str) -> None:
    expected = bool(selected(one) & selected(other))
    assert overlaps(levels_of(one), levels_of(other)) == expected
    assert overlaps(levels_of(other), levels_of(one)) == expected


@given(patterns(), st.sampled_from(TOPICS))
def test_for_a_topic_covering_and_overlapping_are_selecting(pattern: str, topic: str) -> None:
    expected = subject_matches(pattern, topic)
    assert covers(levels_of(pattern), levels_of(topic)) == expected
    assert overlaps(levels_of(pattern), levels_of(topic)) == expected


@pytest.mark.parametrize(
    "name", ["", "+", "#", "a/b", "a+b", "$SYS", "a%2Fb", " a", "a ", "a\0b", None]
)
def test_a_name_that_is_not_plain_spoils_the_pattern(name: str | None) -> None:
    assert filled("$node/${node}/context", {"node": name}) is None


def test_names_are_put_in_once() -> None:
    values = {"node": "x${user}", "user": "alice"}
    assert filled("x/${node}/${user}", values) == "x/x${user}/alice"
    assert filled("x/dev-${user}/y", values) == "x/dev-alice/y"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "at least one character"),
        ("a/#/b", "# must be the whole last level"),
        ("a+/b", "+ must be a whole level"),
        ("${node}+/b", "+ must be a whole level"),
        ("eq a/#/b", "# must be the whole last level"),
        ("x/${nod}", "did you mean node"),
        ("x/${}", "stands for nothing"),
        ("$share/g/a", "leave $share/GROUP/ out"),
    ],
)
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_topic_pattern(pattern)
    assert said in str(caught.value)


@given(st.text("ab*", max_size=6), st.text("ab", max_size=6))
def test_a_star_stands_for_any_text(pattern: str, text: str) -> None:
    def plain(pattern: str, text: str) -> bool:
        if not pattern or pattern[0] != "*":
            return pattern[:1] == text[:1] and (not pattern or plain(pattern[1:], text[1:]))
        return any(plain(pattern[1:], text[at:]) for at in range(len(text) + 1))

    assert like(tuple(pattern.split("*")), text) == plain(pattern, text)
