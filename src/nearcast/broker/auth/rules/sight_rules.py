"""Sight rules in the rules file: who may see what of other nodes, and granted attributes.

They are in the same file as the topic rules, in `[[sight]]` and `[grants.NODE]`; both are read, or
neither. A user is identified with the node of the same name.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from nearcast.broker.auth.errors import AuthError
from nearcast.broker.auth.names import check_user_name
from nearcast.broker.auth.toml_file import TomlFile
from nearcast.core.language import Filter, LanguageError, parse
from nearcast.core.model.context import Value
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.forms.area_text import parse_area
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.inputs import RulesSet
from nearcast.core.model.sight_rule import NodeCondition, SightRule, mask_of
from nearcast.core.rights.rule_checks import check_grants, check_own

T = TypeVar("T")
Problem = tuple[str | None, str]
"""The key concerned, and the message."""

SECTIONS = ("sight", "grants", "protected", "settable", "sight_default")
_SIDES = ("viewer", "viewer_where", "viewer_in", "other", "other_where", "other_in")
_KEYS = (*_SIDES, "friend", "same", "see")


def read_sight(file: TomlFile) -> tuple[RulesSet, list[str]]:
    """Return the sight rules of a file, and their problems, one per line."""
    problems: list[str] = []
    rules = []
    for at, table in enumerate(file.tables("sight")):
        reading = _SightRuleReader(table)
        rule = reading.rule()
        problems += (
            f"{file.place_of('sight', at, key)}: {problem}" for key, problem in reading.problems
        )
        if rule is not None:
            rules.append(rule)
    whole = _SightRuleReader(file.table)
    default = whole.mask("sight_default", ("position", "identity", "attributes"))
    protected, settable = whole.names("protected", ("rank",)), whole.names("settable", ())
    grants = whole.grants()
    problems += (f"{file.place(key or 'grants')}: {problem}" for key, problem in whole.problems)
    found = RulesSet(tuple(rules), grants, protected, settable, default)
    try:
        check_grants(found)
    except ModelError as error:
        problems.append(f"{file.place('grants')}: {error}")
    return found, problems


class _SightRuleReader:
    """Parses one table into a rule; problems are collected with their key."""

    def __init__(self, table: dict[str, object]) -> None:
        self.table = table
        self.problems: list[Problem] = []

    def rule(self) -> SightRule | None:
        """Return the rule, or None if there are problems."""
        for key in self.table:
            if key not in _KEYS:
                problem = f"{key} means nothing in a sight rule; there is {', '.join(_KEYS)}"
                self.problems.append((key, problem + did_you_mean(key, _KEYS)))
        if "see" not in self.table:
            problem = (
                'the rule has no see: ["position", "identity", "attributes"], or [] for nothing'
            )
            self.problems.append((None, problem))
        see = self.mask("see", ())
        viewer, other = self._who("viewer"), self._who("other")
        friend = self.table.get("friend", False)
        if not isinstance(friend, bool):
            self.problems.append(("friend", f"friend is true or false, not {shown(friend)}"))
        same = self._text("same", str)
        if self.problems:
            return None
        assert isinstance(friend, bool)
        try:
            return SightRule(viewer, other, see, friend, same)
        except ModelError as error:
            self.problems.append((None, str(error)))
            return None

    def mask(self, key: str, otherwise: tuple[str, ...]) -> int:
        """Return the visibility mask for a key."""
        try:
            return mask_of(self.names(key, otherwise))
        except ModelError as error:
            self.problems.append((key, str(error)))
            return 0

    def names(self, key: str, otherwise: tuple[str, ...]) -> tuple[str, ...]:
        """Return a list of texts for a key."""
        value = self.table.get(key, list(otherwise))
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.problems.append((key, f"{key} is a list of texts, not {shown(value)}"))
            return otherwise
        return tuple(value)

    def grants(self) -> dict[str, dict[str, Value]]:
        """Return the granted attributes by node."""
        value = self.table.get("grants", {})
        tables = value.values() if isinstance(value, dict) else ()
        if not isinstance(value, dict) or not all(isinstance(each, dict) for each in tables):
            problem = 'grants are tables of attributes, by node: [grants."ann"] and then rank = 3'
            self.problems.append(("grants", problem))
            return {}
        return value

    def _who(self, side: str) -> NodeCondition:
        named = list(self._named(side))
        where = self._text(f"{side}_where", _condition)
        inside = self._text(f"{side}_in", _area)
        # A wildcard for anyone makes the other names redundant.
        nodes = () if None in named else tuple(name for name in named if name is not None)
        return NodeCondition(nodes, where, inside)

    def _named(self, side: str) -> Iterator[str | None]:
        value = self.table.get(side, "all")
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
            problem = f"{side} is a text or a list of texts, and not empty; it is {shown(value)}"
            self.problems.append((side, problem))
            return
        for text in texts:
            try:
                yield _node_pattern(text, side)
            except AuthError as error:
                self.problems.append((side, str(error)))

    def _text(self, key: str, read: Callable[[str], T]) -> T | None:
        value = self.table.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            self.problems.append((key, f"{key} is a text, not {shown(value)}"))
            return None
        try:
            return read(value)
        except (ModelError, LanguageError) as error:
            self.problems.append((key, str(error)))
            return None


def _condition(text: str) -> Filter:
    where = parse(text)
    check_own(where)
    return where


def _area(text: str) -> Area:
    area = parse_area(text)
    # This refuses areas that move.
    NodeCondition(inside=area)
    return area


def _node_pattern(text: str, side: str) -> str | None:
    """Return the node pattern in a text; None for any node."""
    kind, colon, name = text.partition(":")
    if text == "all":
        return None
    if kind not in ("node", "user") or not colon or not name:
        raise AuthError(
            f"{side} {shown(text)} is nobody; there is all, node:PATTERN, user:NAME"
            f"{did_you_mean(kind, ('all', 'node', 'user'))}"
        )
    if kind == "user":
        check_user_name(name)
        if "*" in name:
            raise AuthError(f"{shown(text)} is one user; a pattern is of nodes: node:{name}")
    return name
