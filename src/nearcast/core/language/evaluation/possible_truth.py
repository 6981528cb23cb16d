"""The possible results of a filter when some of its values are certainly missing.

A missing value makes every operation that is strict in it unknown. All other operations may have
any result, so the answer errs on one side only: a filter that cannot hold by it never holds.
"""

from collections.abc import Callable
from typing import TypeAlias

from nearcast.core.language.ast import (
    LOGICAL,
    Array,
    Interval,
    Node,
    Operation,
    Property,
    walk,
)

Truths: TypeAlias = frozenset[bool | None]
Missing: TypeAlias = Callable[[str], bool]
"""Returns whether the value of a property is certainly missing."""

ANYTHING: Truths = frozenset((True, False, None))
UNKNOWN: Truths = frozenset((None,))
NEVER_TRUE: Truths = frozenset((False, None))
LENIENT = ("isNull", "friend", "node", "earlier")
"""Operations that may be known despite a missing argument, or whose arguments are not examined."""
CONTEXTS = ("me", "publisher", "node")
EVENT_FIELDS = ("subject", "time", "id", "priority", "position")


def can_hold(root: Node, is_missing: Missing, two_valued: bool = False) -> bool:
    """Return whether a filter can be true although some values are missing."""
    return True in possible_truths(root, is_missing, two_valued)


def possible_truths(node: Node, is_missing: Missing, two_valued: bool = False) -> Truths:
    """Return the possible results of a condition: true, false, unknown."""
    if isinstance(node, bool):
        return frozenset((node,))
    if isinstance(node, Operation) and node.op in LOGICAL:
        parts = [possible_truths(arg, is_missing, two_valued) for arg in node.args]
        if node.op == "not":
            return frozenset(None if truth is None else not truth for truth in parts[0])
        return _joined(parts, settles=node.op == "or")
    found = _of_atom(node, is_missing)
    return frozenset(truth or False for truth in found) if two_valued else found


def attribute_name(name: str) -> str | None:
    """Return the event attribute that a property refers to, or None if it refers to none."""
    head, _, rest = name.partition(".")
    if head in CONTEXTS:
        return None
    if head != "event":
        return name
    return None if not rest or rest in EVENT_FIELDS else rest.removeprefix("attributes.")


def attribute_names(root: Node) -> frozenset[str]:
    """Return the event attributes that a filter refers to."""
    names = (attribute_name(part.name) for part, _ in walk(root) if isinstance(part, Property))
    return frozenset(name for name in names if name is not None)


def _joined(parts: list[Truths], settles: bool) -> Truths:
    """Return the possible results of AND (`settles` is False) or OR (`settles` is True)."""
    found: set[bool | None] = set()
    if any(settles in part for part in parts):
        found.add(settles)
    if all((not settles) in part for part in parts):
        found.add(not settles)
    if any(None in part for part in parts) and all(part - {settles} for part in parts):
        found.add(None)
    return frozenset(found)


def _of_atom(node: Node, is_missing: Missing) -> Truths:
    if isinstance(node, Operation):
        if node.op == "isNull":
            return frozenset((True,) if _is_absent(node.args[0], is_missing) else (True, False))
        if node.op == "between" and any(_is_absent(arg, is_missing) for arg in node.args[1:]):
            return NEVER_TRUE
    return UNKNOWN if _is_absent(node, is_missing) else ANYTHING


def _is_absent(node: Node, is_missing: Missing) -> bool:
    """Return whether the value of a node is certainly unknown."""
    if isinstance(node, Property):
        return is_missing(node.name)
    if isinstance(node, Array):
        return any(_is_absent(item, is_missing) for item in node.items)
    if isinstance(node, Interval):
        ends = (node.start, node.end)
        return any(isinstance(end, Property) and is_missing(end.name) for end in ends)
    if not isinstance(node, Operation) or node.op in LENIENT:
        return False
    if node.op in LOGICAL:
        return possible_truths(node, is_missing) == UNKNOWN
    if node.op == "count":
        # With a distance, it counts around me.
        return len(node.args) == 3 and is_missing("me")
    if node.op == "approaching" and is_missing("me"):
        return True
    args = node.args[:1] if node.op in ("in", "between") else node.args
    return any(_is_absent(arg, is_missing) for arg in args)
