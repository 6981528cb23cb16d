"""Decisions of rules, compared with a reference that tries every topic of a small world."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from nearcast.broker.auth import Identity
from nearcast.core.model.subject import subject_matches
from tests.broker.auth.rules.topics import TOPICS, patterns, selected
from tests.support.accounts import house

CLIENTS = {
    "anonymous": (Identity(), "b", "192.0.2.7"),
    "user": (Identity("a"), "a", "10.0.0.1"),
    "superuser": (Identity("b", superuser=True), "a", "127.0.0.1"),
    # Names that would widen a rule if they were put into it.
    "plus": (Identity(), "+", "192.0.2.8"),
    "hash": (Identity(), "#", "::ffff:10.0.0.2"),
    "slash": (Identity("a"), "a/b", "2001:db8::1"),
}
# What may be put into a pattern for whom.
NAMES = {
    "anonymous": {"node": "b", "client": "b"},
    "user": {"user": "a", "node": "a", "client": "a"},
    "superuser": {"user": "b", "node": "a", "client": "a"},
    "plus": {},
    "hash": {},
    "slash": {"user": "a"},
}
WHO = {
    "all": ("anonymous", "user", "plus", "hash", "slash"),
    "anonymous": ("anonymous", "plus", "hash"),
    "superuser": ("superuser",),
    "user:a": ("user", "slash"),
    "user:b": ("superuser",),
    "node:b*": ("anonymous",),
    "node:a": ("user",),
    "address:10.0.0.0/8": ("user", "hash"),
    "address:2001:db8::/32": ("slash",),
}


class Line(Struct, frozen=True):
    """A rule as it is written."""

    permission: str
    who: list[str]
    action: str
    topics: list[str]
    retain: bool | None = None

    def text(self) -> str:
        lines = [
            f"{key} = {json.dumps(getattr(self, key))}"
            for key in ("permission", "who", "action", "topics")
        ]
        if self.retain is not None:
            lines.append(f"retain = {json.dumps(self.retain)}")
        return "\n".join(("[[rule]]", *lines, ""))

    def patterns_for(self, client: str) -> list[str]:
        found = []
        for topic in self.topics:
            for name, value in NAMES[client].items():
                topic = topic.replace(f"${{{name}}}", value)
            found += [] if "${" in topic else [topic]
        return found

    def is_about(self, client: str, action: str) -> bool:
        return self.action in ("all", action) and any(client in WHO[who] for who in self.who)


TOPIC = patterns() | st.sampled_from(
    ("${node}/#", "a/${user}", "+/${client}", "eq a/#", "eq #", "eq a/b")
)
LINE = st.builds(
    Line,
    st.sampled_from(("allow", "deny")),
    st.lists(st.sampled_from(sorted(WHO)), min_size=1, max_size=2),
    st.sampled_from(("publish", "subscribe", "all")),
    st.lists(TOPIC, min_size=1, max_size=2),
)
CONDITION = st.builds(
    Line,
    st.sampled_from(("allow", "deny")),
    st.just(["all"]),
    st.just("publish"),
    st.lists(patterns(), min_size=1, max_size=2),
    st.booleans(),
)
LINES = st.lists(LINE | CONDITION, max_size=5)
DEFAULT = st.sampled_from(("allow", "deny"))
CLIENT = st.sampled_from(sorted(CLIENTS))


def written(lines: list[Line], default: str) -> str:
    return f'default = "{default}"\n' + "".join(line.text() for line in lines)


def topic_allowed(
    lines: list[Line], default: str, client: str, action: str, topic: str, retain: bool
) -> bool:
    """Decide a single topic: the first rule that selects it."""
    for line in lines:
        if line.is_about(client, action) and line.retain in (None, retain):
            for pattern in line.patterns_for(client):
                if pattern == f"eq {topic}" or subject_matches(pattern, topic):
                    return line.permission == "allow"
    return default == "allow" or client == "superuser"


def filter_allowed(lines: list[Line], default: str, client: str, wanted: str) -> bool:
    """Decide a filter: denied by the first overlap, allowed by the first cover."""
    for line in lines:
        for pattern in line.patterns_for(client) if line.is_about(client, "subscribe") else ():
            if pattern.startswith("eq "):
                bears = pattern == f"eq {wanted}"
            elif line.permission == "deny":
                bears = bool(selected(pattern) & selected(wanted))
            else:
                bears = selected(wanted) <= selected(pattern)
            if bears:
                return line.permission == "allow"
    return default == "allow" or client == "superuser"


@given(LINES, DEFAULT, CLIENT, st.sampled_from(TOPICS), st.booleans())
def test_publishing_is_decided_by_the_first_rule_that_selects_the_topic(
    lines: list[Line], default: str, client: str, topic: str, retain: bool
) -> None:
    with tempfile.TemporaryDirectory() as base:
        rights = house(Path(base), rules=written(lines, default)).rights(*CLIENTS[client])
    expected = topic_allowed(lines, default, client, "publish", topic, retain)
    assert rights.may_publish(topic, 0, retain) == expected
    assert rights.may_publish(topic, 0, retain) == expected
    assert expected or not rights.unrestricted


@given(LINES, DEFAULT, CLIENT, patterns())
def test_subscribing_is_denied_by_overlap_and_allowed_by_cover(
    lines: list[Line], default: str, client: str, wanted: str
) -> None:
    with tempfile.TemporaryDirectory() as base:
        rights = house(Path(base), rules=written(lines, default)).rights(*CLIENTS[client])
    expected = filter_allowed(lines, default, client, wanted)
    assert rights.may_subscribe(wanted) == expected
    assert rights.may_subscribe(f"$share/group/{wanted}") == expected
    assert expected or not rights.unrestricted


@given(LINES, DEFAULT, CLIENT, patterns())
def test_who_may_subscribe_may_receive_every_topic_of_the_filter(
    lines: list[Line], default: str, client: str, wanted: str
) -> None:
    # What is said about a filter's letters is not about topics.
    lines = [line for line in lines if not any(topic.startswith("eq ") for topic in line.topics)]
    with tempfile.TemporaryDirectory() as base:
        rights = house(Path(base), rules=written(lines, default)).rights(*CLIENTS[client])
    if rights.may_subscribe(wanted):
        for topic in selected(wanted):
            assert topic_allowed(lines, default, client, "subscribe", topic, False)


@given(LINES, DEFAULT, CLIENT, patterns())
def test_what_may_be_counted_is_what_may_be_subscribed_to_subject_by_subject(
    lines: list[Line], default: str, client: str, counted: str
) -> None:
    with tempfile.TemporaryDirectory() as base:
        rights = house(Path(base), rules=written(lines, default)).rights(*CLIENTS[client])
    readable = rights.readable([counted])
    for topic in selected(counted):
        assert (readable is None or readable.permits(topic)) == rights.may_subscribe(topic)


@pytest.mark.parametrize("node", ["+", "#", "a/b", "$SYS", "x%2Fy", ""])
def test_a_node_cannot_widen_a_rule_by_its_name(node: str, tmp_path: Path) -> None:
    rule = '[[rule]]\npermission = "allow"\nwho = "all"\naction = "all"\ntopics = ["${node}/#"]\n'
    rights = house(tmp_path, rules='default = "deny"\n' + rule).rights(Identity(), node, "::1")
    assert not rights.may_subscribe(f"{node}/#")
    assert not rights.may_publish("a/b")
    assert not rights.may_publish("$SYS/x")


def test_a_rule_may_depend_on_quality_of_service_and_retain(tmp_path: Path) -> None:
    rules = """
    [[rule]]
    permission = "deny"
    who = "all"
    action = "publish"
    qos = [1, 2]
    retain = true
    """
    rights = house(tmp_path, rules=rules).rights(Identity(), "a", "::1")
    assert rights.may_publish("t", 0, True)
    assert rights.may_publish("t", 1, False)
    assert not rights.may_publish("t", 1, True)
    assert not rights.may_publish("t", 2, True)
    assert rights.may_subscribe("#")


def test_a_rule_without_topics_is_about_those_with_a_dollar_too(tmp_path: Path) -> None:
    rule = '[[rule]]\npermission = "deny"\nwho = "all"\naction = "all"\n'
    bare = house(tmp_path, rules=rule).rights(Identity(), "a", "::1")
    assert not bare.may_publish("$me/context")
    wild = house(tmp_path, rules=rule + 'topics = ["#"]\n').rights(Identity(), "a", "::1")
    assert wild.may_publish("$me/context")
    assert not wild.may_publish("x")


def test_memory_of_answers_is_bounded(tmp_path: Path) -> None:
    rule = '[[rule]]\npermission = "deny"\nwho = "all"\naction = "all"\ntopics = ["t/7", "s/#"]\n'
    rights = house(tmp_path, rules=rule).rights(Identity(), "a", "::1")
    for number in range(1_000):
        assert rights.may_publish(f"t/{number}") == (number != 7)
        assert rights.may_publish("x" * 1_000 + str(number))
        assert rights.remembered <= 128
    assert not rights.may_publish("t/7")


def test_without_rules_nobody_need_ask(tmp_path: Path) -> None:
    rights = house(tmp_path).rights(Identity(), "a", "::1")
    assert rights.unrestricted
    assert rights.may_publish("a")
    assert rights.may_subscribe("#")


def test_rules_about_others_leave_one_unrestricted(tmp_path: Path) -> None:
    doors = house(
        tmp_path, rules='[[rule]]\npermission = "deny"\nwho = "anonymous"\naction = "all"\n'
    )
    assert doors.rights(Identity("alice"), "alice", "::1").unrestricted
    assert doors.rights(Identity("root", superuser=True), "x", "::1").unrestricted
    assert not doors.rights(Identity(), "x", "::1").unrestricted
