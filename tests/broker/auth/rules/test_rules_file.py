from pathlib import Path

import pytest

from nearcast.broker.auth import AuthError
from nearcast.broker.auth.rules.rules_file import read_rules

GOOD = 'permission = "allow"\nwho = "all"\naction = "publish"\n'

WRONG = {
    "no TOML": ("[[rule]\n", 1, "Expected"),
    "a word at the top": ('defualt = "deny"\n', 1, "did you mean default"),
    "a default": ('\ndefault = "no"\n', 2, 'default is "allow" or "deny", not \'no\''),
    "rule as a table": ("[rule]\n", 1, "rule is written as [[rule]]"),
    "a key": (f"[[rule]]\n{GOOD}topic = ['a']\n", 5, "did you mean topics"),
    "no permission": ('[[rule]]\nwho = "all"\naction = "publish"\n', 1, "rule has no permission"),
    "no who": ('[[rule]]\npermission = "deny"\naction = "publish"\n', 1, "the rule has no who"),
    "no action": ('[[rule]]\npermission = "deny"\nwho = "all"\n', 1, "the rule has no action"),
    "a permission": (f"[[rule]]\n{GOOD}".replace("allow", "maybe"), 2, "not 'maybe'"),
    "a who": (f"[[rule]]\n{GOOD}".replace('"all"', '"everyone"'), 3, "is nobody; there is all"),
    "who without a name": (f"[[rule]]\n{GOOD}".replace('"all"', '"user:"'), 3, "user:USER"),
    "who with a name too many": (f"[[rule]]\n{GOOD}".replace('"all"', '"all:x"'), 3, "is nobody"),
    "a user's name": (f"[[rule]]\n{GOOD}".replace('"all"', '"user:a/b"'), 3, "holds '/'"),
    "an address": (f"[[rule]]\n{GOOD}".replace('"all"', '"address:10.0.0.300"'), 3, "10.0.0.0/8"),
    "host bits": (f"[[rule]]\n{GOOD}".replace('"all"', '"address:10.1.0.0/8"'), 3, "host bits set"),
    "an empty list": (f"[[rule]]\n{GOOD}topics = []\n", 5, "and not empty"),
    "a number as text": (f"[[rule]]\n{GOOD}topics = [1]\n", 5, "list of texts"),
    "an action": (f"[[rule]]\n{GOOD}".replace("publish", "publsh"), 4, "did you mean publish"),
    "a pattern": (f"[[rule]]\n{GOOD}topics = ['a/#/b']\n", 5, "# must be the whole last level"),
    "a placeholder": (f"[[rule]]\n{GOOD}topics = ['${{usr}}']\n", 5, "did you mean user"),
    "qos": (f"[[rule]]\n{GOOD}qos = 3\n", 5, "qos is 0, 1, 2"),
    "qos as truth": (f"[[rule]]\n{GOOD}qos = true\n", 5, "qos is 0, 1, 2"),
    "no qos": (f"[[rule]]\n{GOOD}qos = []\n", 5, "qos is 0, 1, 2"),
    "retain": (f"[[rule]]\n{GOOD}retain = 1\n", 5, "retain is true or false"),
    "retain for all": (
        f"[[rule]]\n{GOOD}retain = true\n".replace("publish", "all"), 5, "publishing only"
    ),
    "nodes": (f"[[rule]]\n{GOOD}nodes = ['x']\n", 5, 'for the action "connect"'),
    "a node": (
        f"[[rule]]\n{GOOD}nodes = ['${{node}}']\n".replace("publish", "connect"), 5, "stands for"
    ),
    "an empty node": (f"[[rule]]\n{GOOD}nodes = ['']\n".replace("publish", "connect"), 5, "a name"),
    "connect as anyone": (f"[[rule]]\n{GOOD}".replace("publish", "connect"), 4, "which nodes"),
    "topics to connect": (
        f"[[rule]]\n{GOOD}nodes = ['x']\ntopics = ['x']\n".replace("publish", "connect"),
        6,
        '"connect" has nodes',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_line(name: str, tmp_path: Path) -> None:
    text, line, said = WRONG[name]
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises(AuthError) as caught:
        read_rules(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:{line}: ")
    assert said in message
    assert len(message.splitlines()) == 1


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(f"[[rule]]\n{GOOD}\n[[rule]] # second\n{GOOD}qos = 9\nretain = 9\n[[rule]]\n")
    with pytest.raises(AuthError) as caught:
        read_rules(file)
    assert [problem.split(":")[1] for problem in caught.value.problems] == [
        "10",
        "11",
        "12",
        "12",
        "12",
    ]


def test_lines_that_cannot_be_told_are_not_made_up(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('rule = [{permission = "maybe", who = "all", action = "all"}]')
    with pytest.raises(AuthError) as caught:
        read_rules(file)
    assert caught.value.problems[0].startswith(f"{file}, rule 1: permission")


@pytest.mark.parametrize(
    ("data", "said"), [(b"a = '\xff'", ":1: this is not UTF-8"), (b"a = " + b"[" * 9_999, "nested")]
)
def test_what_is_no_text_or_too_deep_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_bytes(data)
    with pytest.raises(AuthError, match=said):
        read_rules(file)


def test_a_file_that_cannot_be_read_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(AuthError, match=r"there is no such file; without rules, leave"):
        read_rules(tmp_path / "rules.toml")
    with pytest.raises(AuthError, match="it cannot be read"):
        read_rules(tmp_path)
