"""Grants of rules, attributes that nodes cannot set, and validation of rules."""

from collections.abc import Iterator

from nearcast.core.language import Filter, Operation, Property
from nearcast.core.language.ast import walk
from nearcast.core.matching.reference import PERSONAL, WHO
from nearcast.core.model.context import check_attributes
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.inputs import RulesSet
from nearcast.core.model.sight_rule import check_mask, fits

NOT_GRANTED = ("position", "friends", "node")
"""A node's own data or its name: no rule can set these."""


def check_rules(rules: RulesSet) -> None:
    """Raise `ModelError` if rules could never match, or grant what no rule can set."""
    check_mask(rules.default)
    check_grants(rules)
    for rule in rules.rules:
        check_own(rule.viewer.where)
        check_own(rule.other.where)


def check_own(where: Filter | None) -> None:
    """Raise `ModelError` if a condition is about more than one node's own context."""
    for part, _ in () if where is None else walk(where.root):
        if isinstance(part, Operation) and part.op in PERSONAL:
            raise ModelError(
                f"{part.op} means nothing in a rule: it is about one node's own context; "
                "where a node is, is said by an area"
            )
        if isinstance(part, Property) and part.name.partition(".")[0] in WHO:
            bare = part.name.partition(".")[2] or "rank"
            raise ModelError(
                f"{part.name} means nothing in a rule: bare names are the node's own attributes, "
                f"as in {bare} = 3"
            )


def check_grants(rules: RulesSet) -> None:
    """Raise `ModelError` if something is granted that no rule can set."""
    for pattern, granted in rules.grants.items():
        check_attributes(granted)
        for name in granted:
            if name in NOT_GRANTED:
                raise ModelError(f"{name} cannot be granted to {shown(pattern)}: it is its own")


def granted_to(node: str, rules: RulesSet) -> dict[str, object]:
    """Return the attributes granted to a node; for each, the first matching pattern applies."""
    found: dict[str, object] = {}
    for pattern, granted in rules.grants.items():
        if fits(pattern, node):
            found = {**granted, **found}
    return found


def carrying_rights(rules: RulesSet) -> frozenset[str]:
    """Return the attributes that nodes cannot set themselves.

    These are the ones named as such, those that are granted, and all that a viewer must have to see
    more: a node that could set these could see what it likes.
    """
    names = {*rules.protected, *(name for granted in rules.grants.values() for name in granted)}
    for rule in rules.rules:
        names.update(heads(rule.viewer.where))
        if rule.same is not None:
            names |= {rule.same, rule.same.partition(".")[0]}
    return frozenset(names - set(rules.settable))


def heads(where: Filter | None) -> Iterator[str]:
    """Return the context attributes that a filter reads."""
    for part, _ in () if where is None else walk(where.root):
        if isinstance(part, Property):
            yield part.name
            yield part.name.partition(".")[0]
