"""Sight rules in the rules file: what is read, and what is said of what cannot be."""

from pathlib import Path

import pytest

from nearcast.broker.auth import AuthError
from nearcast.broker.auth.rules.rules_file import read_rules
from nearcast.core.language import parse
from nearcast.core.model import SEE_ALL, SEE_IDENTITY, SEE_POSITION, circle, place
from nearcast.core.model.inputs import RulesSet
from nearcast.core.rights import NodeCondition, SightRule
from tests.support.accounts import house

FULL = """
default = "deny"
sight_default = ["identity"]
protected = ["rank", "badge"]
settable = ["role"]

[[rule]]
permission = "allow"
who = "all"
action = "all"

[[sight]]                                   # staff see whoever is in hospital
viewer = ["node:staff-*", "user:ann"]
viewer_where = "rank >= 3"
other_in = "place:hospital/St%20James"
see = ["position", "identity", "attributes"]

[[sight]]                                   # and nobody else does
other_in = "circle:53.35,-6.26,200"
see = []

[[sight]]
viewer = "all"
other = "node:*"
other_where = "NOT shy"
friend = true
same = "team"
see = ["position"]

[grants."ann"]
rank = 3

[grants."truck-*"]
rank = 1
fleet = { name = "north" }
"""


def test_a_file_says_who_sees_whom_beside_who_may_do_what(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(FULL)
    rules = (
        SightRule(
            NodeCondition(("staff-*", "ann"), parse("rank >= 3")),
            NodeCondition(inside=place("St James", "hospital")),
            SEE_ALL,
        ),
        SightRule(other=NodeCondition(inside=circle((53.35, -6.26), 200.0)), see=0),
        SightRule(
            NodeCondition(), NodeCondition(("*",), parse("NOT shy")), SEE_POSITION, True, "team"
        ),
    )
    grants = {"ann": {"rank": 3}, "truck-*": {"rank": 1, "fleet": {"name": "north"}}}
    expected = RulesSet(rules, grants, ("rank", "badge"), ("role",), SEE_IDENTITY)  # type: ignore[arg-type]
    both = read_rules(path)
    assert (both.sight, len(both.rules), both.default_allow) == (expected, 1, False)


def test_a_file_without_sight_rules_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('default = "deny"\n')
    assert read_rules(tmp_path / "rules.toml").sight == RulesSet()


GOOD = "[[sight]]\nsee = []\n"
WRONG = {
    "a key": (f"{GOOD}viewr = 'all'\n", 3, "did you mean viewer"),
    "no see": ("[[sight]]\nviewer = 'all'\n", 1, 'the rule has no see: ["position"'),
    "see": ("[[sight]]\nsee = ['positon']\n", 2, "did you mean position"),
    "see as text": ("[[sight]]\nsee = 'position'\n", 2, "see is a list of texts"),
    "a viewer": (f"{GOOD}viewer = 'everyone'\n", 3, "is nobody; there is all, node:PATTERN"),
    "a user": (f"{GOOD}other = 'user:a*'\n", 3, "a pattern is of nodes: node:a*"),
    "a user's name": (f"{GOOD}other = 'user:a/b'\n", 3, "holds '/'"),
    "nobody at all": (f"{GOOD}viewer = []\n", 3, "and not empty"),
    "a filter": (f"{GOOD}viewer_where = 'rank >'\n", 3, "rank >"),
    "me in a filter": (f"{GOOD}viewer_where = 'me.rank > 1'\n", 3, "bare names"),
    "a distance": (f"{GOOD}other_where = 'friend(publisher)'\n", 3, "friend means nothing"),
    "an area": (f"{GOOD}other_in = 'circl:1,2,3'\n", 3, "circl"),
    "an area that moves": (f"{GOOD}other_in = 'circle:me,30'\n", 3, "fixed or a named place"),
    "friend": (f"{GOOD}friend = 1\n", 3, "friend is true or false"),
    "same": (f"{GOOD}same = ''\n", 3, "same is a text"),
    "sight as a table": ("[sight]\nsee = []\n", 1, "sight is written as [[sight]]"),
    "a default": ("\nsight_default = ['all']\n", 2, "is nothing to see"),
    "protected": ("protected = 'rank'\n", 1, "protected is a list of texts"),
    "grants": ("[grants]\nrank = 3\n", 1, 'by node: [grants."ann"]'),
    "a grant": ("[grants.ann]\nposition = [1, 2]\n", 1, "position cannot be granted to 'ann'"),
    "a date": ("[grants.ann]\nsince = 2026-01-01\n", 1, "not a JSON value"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_the_line_and_what_would_be_right(
    name: str, tmp_path: Path
) -> None:
    text, line, said = WRONG[name]
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(AuthError) as caught:
        read_rules(path)
    assert f"{path}:{line}: " in str(caught.value)
    assert said in str(caught.value)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f"{GOOD}same = 1\n{GOOD}frend = true\n[[rule]]\nwho = 'all'\n")
    with pytest.raises(AuthError) as caught:
        read_rules(path)
    assert len(caught.value.problems) == 4


def test_a_reload_takes_both_kinds_of_rules_or_none(tmp_path: Path) -> None:
    doors = house(tmp_path, rules=GOOD)
    before = doors.sight
    assert before == RulesSet((SightRule(see=0),))
    (tmp_path / "rules.toml").write_text("[[sight]]\nsee = ['identity']\n[[rule]]\nwho = 'all'\n")
    assert len(doors.reload()) == 2
    assert doors.sight is before
    (tmp_path / "rules.toml").write_text("[[sight]]\nsee = ['identity']\n")
    assert doors.reload() == []
    assert doors.sight == RulesSet((SightRule(see=SEE_IDENTITY),))
