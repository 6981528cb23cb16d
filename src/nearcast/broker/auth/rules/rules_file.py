"""The rules file: parses TOML into rules, or reports all problems by line."""

from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar, cast, get_args

from nearcast.broker.auth.errors import AuthError
from nearcast.broker.auth.names import check_user_name
from nearcast.broker.auth.rules.people_rules import SECTION as PEOPLE
from nearcast.broker.auth.rules.people_rules import read_people
from nearcast.broker.auth.rules.sight_rules import SECTIONS, read_sight
from nearcast.broker.auth.rules.topic_patterns import check_placeholders, parse_topic_pattern
from nearcast.broker.auth.rules.topic_rules import (
    Action,
    ClientKind,
    PrincipalCondition,
    Rules,
    TopicRule,
)
from nearcast.broker.auth.toml_file import TomlFile, read_bytes
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.position import shown

T = TypeVar("T")

_PERMISSIONS = ("allow", "deny")
_KEYS = ("permission", "who", "action", "topics", "nodes", "qos", "retain")
_KINDS: tuple[ClientKind, ...] = get_args(ClientKind)
_NAMED = ("user", "node", "address")
_ACTIONS: dict[str, tuple[Action, ...]] = {
    "publish": ("publish",),
    "subscribe": ("subscribe",),
    "connect": ("connect",),
    # As in EMQX; `connect` is never implied by `all`.
    "all": ("publish", "subscribe"),
}


def read_rules(path: Path) -> Rules:
    """Return the rules in a file, or raise `AuthError` with all problems."""
    file = TomlFile(path, read_bytes(path, "without rules, leave the setting doors.rules out"))
    known = ("default", "rule", *SECTIONS, PEOPLE)
    problems = [f"{file.place(key)}: {problem}" for key, problem in file.unknown(file.table, known)]
    default = file.table.get("default", "allow")
    if default not in _PERMISSIONS:
        problems.append(
            f'{file.place("default")}: default is "allow" or "deny", not {shown(default)}'
        )
    rules = []
    for at, table in enumerate(file.tables("rule")):
        reading = _TopicRuleReader(table)
        rule = reading.rule()
        problems += (
            f"{file.place_of('rule', at, key)}: {problem}" for key, problem in reading.problems
        )
        if rule is not None:
            rules.append(rule)
    sight, wrong = read_sight(file)
    problems += wrong
    people, wrong = read_people(file)
    problems += wrong
    if problems:
        raise AuthError(*problems)
    return Rules(tuple(rules), default == "allow", sight, people=people)


class _TopicRuleReader:
    """Parses one table into a rule; problems are collected with their key."""

    def __init__(self, table: dict[str, object]) -> None:
        self.table = table
        self.problems: list[tuple[str | None, str]] = []

    def rule(self) -> TopicRule | None:
        """Return the rule, or None if there are problems."""
        for key in self.table:
            if key not in _KEYS:
                problem = f"{key} means nothing in a rule; there is {', '.join(_KEYS)}"
                self.problems.append((key, problem + did_you_mean(key, _KEYS)))
        permission = self._needed("permission", '"allow" or "deny"')
        if permission is not None and permission not in _PERMISSIONS:
            problem = f'permission is "allow" or "deny", not {shown(permission)}'
            self.problems.append(("permission", problem))
        who = self._each("who", self._needed("who", '"all", "user:NAME" or another'), parse_who)
        named = self._each("action", self._needed("action", '"publish" or another'), _actions)
        actions = frozenset(action for word in named for action in word)
        topics = self._each("topics", self.table.get("topics"), parse_topic_pattern)
        nodes = self._each("nodes", self.table.get("nodes"), _node_pattern)
        qos = self._each_qos(self.table.get("qos"))
        retain = self.table.get("retain")
        if retain is not None and not isinstance(retain, bool):
            self.problems.append(("retain", f"retain is true or false, not {shown(retain)}"))
        self.problems += _contradictions(self.table, permission == "allow", actions)
        if self.problems:
            return None
        return TopicRule(
            permission == "allow",
            tuple(who),
            actions,
            tuple(topics) if "topics" in self.table else None,
            tuple(nodes) if "nodes" in self.table else None,
            frozenset(qos) if "qos" in self.table else None,
            cast("bool | None", retain),
        )

    def _needed(self, key: str, such_as: str) -> object:
        if key not in self.table:
            self.problems.append((None, f"the rule has no {key}: {such_as}"))
        return self.table.get(key)

    def _each(self, key: str, value: object, read: Callable[[str], T]) -> list[T]:
        if value is None:
            return []
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
            problem = f"{key} is a text or a list of texts, and not empty; it is {shown(value)}"
            self.problems.append((key, problem))
            return []
        found = []
        for text in texts:
            try:
                found.append(read(text))
            except (AuthError, ModelError) as error:
                self.problems.append((key, str(error)))
        return found

    def _each_qos(self, value: object) -> list[int]:
        values = value if isinstance(value, list) else [] if value is None else [value]
        # True equals 1 in Python, but is not a QoS.
        good = [one for one in values if type(one) is int and one in (0, 1, 2)]
        if len(good) != len(values) or (value is not None and not values):
            self.problems.append(("qos", f"qos is 0, 1, 2 or a list of them, not {shown(value)}"))
        return good


def parse_who(text: str) -> PrincipalCondition:
    """Return the condition in the `who` of a rule, or raise `AuthError`."""
    kind, colon, name = text.partition(":")
    if kind not in _KINDS or bool(colon) != (kind in _NAMED) or (colon and not name):
        forms = [f"{one}:{'CIDR' if one == 'address' else one.upper()}" for one in _NAMED]
        forms[:0] = [one for one in _KINDS if one not in _NAMED]
        raise AuthError(
            f"who {shown(text)} is nobody; there is {', '.join(forms)}{did_you_mean(text, _KINDS)}"
        )
    if kind == "user":
        check_user_name(name)
    if kind != "address":
        return PrincipalCondition(kind, name)
    try:
        return PrincipalCondition(kind, name, ip_network(name))
    except ValueError as error:
        raise AuthError(
            f"{error}; an address or a network is meant, as in address:10.0.0.0/8"
        ) from None


def _actions(text: str) -> tuple[Action, ...]:
    if text not in _ACTIONS:
        known = ", ".join(_ACTIONS)
        raise AuthError(
            f"action {shown(text)} is none; there is {known}{did_you_mean(text, _ACTIONS)}"
        )
    return _ACTIONS[text]


def _node_pattern(text: str) -> str:
    check_placeholders(text, ("user",))
    if not text:
        raise AuthError("a node has a name; * stands for any")
    return text


def _contradictions(
    table: dict[str, object], allow: bool, actions: frozenset[Action]
) -> Iterator[tuple[str | None, str]]:
    if not actions:
        return
    if "connect" in actions and allow and "nodes" not in table:
        problem = "allow connect says as which nodes; * is any"
        yield "action", f'{problem}: nodes = ["${{user}}", "truck-*"]'
    if "nodes" in table and "connect" not in actions:
        problem = 'nodes are for the action "connect"'
        yield "nodes", f'{problem}; to whom a rule applies is said by who = "node:PATTERN"'
    if "topics" in table and actions == {"connect"}:
        yield "topics", 'topics are for publish and subscribe; "connect" has nodes'
    for key in ("qos", "retain"):
        if key in table and actions != {"publish"}:
            yield key, f'{key} is a condition of publishing only: write action = "publish"'
