"""Contexts: the known state of a node, in seed E's form of people, a time span and attributes.

Contexts aggregate into a context of the same form, in any grouping with the same result. A node's
own context changes by merge patches (RFC 7396) and by its positions, of which the last two are
kept: *approaching* needs them (seed D). Times are seconds since 1970, UTC.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeGuard

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position, number, position_from_json, shown

LARGEST_ATTRIBUTES_BYTES = 64 * 1024
FEW_ATTRIBUTES, SHORT_ATTRIBUTES = 64, 4 * 1024
"""Attributes within both limits (number, and characters in total) are never too large as JSON."""
DEEPEST_ATTRIBUTES = 32

Value = bool | int | float | str | list["Value"] | dict[str, "Value"] | None
Attributes = Mapping[str, Value]


class Context(Struct, frozen=True):
    """The known state of one node, or of several together."""

    people: frozenset[str]
    start: float
    end: float
    attributes: Attributes

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and math.isfinite(self.end) and self.start <= self.end):
            raise ModelError(f"a time span from {self.start} to {self.end} is not one")


class NodeState(Struct, frozen=True, gc=False):
    """The current state of a node: its last two fixes and its attributes."""

    node: str
    position: Position | None = None
    position_at: float | None = None
    previous: Position | None = None
    previous_at: float | None = None
    attributes: Attributes = {}
    changed_at: float | None = None

    def context(self, now: float) -> Context:
        """Return the node's context: from its last change until now."""
        since = now if self.changed_at is None else min(self.changed_at, now)
        return Context(frozenset((self.node,)), since, now, self.attributes)


def moved(state: NodeState, position: Position, at: float) -> NodeState:
    """Return the state after a new fix; the last one becomes the previous."""
    return NodeState(
        state.node, position, at, state.position, state.position_at, state.attributes, at
    )


def patched(state: NodeState, patch: Mapping[str, object], at: float) -> NodeState:
    """Return the state after a merge patch; its `position` is a fix, or null to clear both fixes.

    Raises `ModelError`, changing nothing, if any part is invalid.
    """
    # The patch is checked before it is merged: its depth bounds the recursion.
    wanted = check_attributes({name: patch[name] for name in patch if name != "position"})
    attributes = check_attributes(merge_patch(state.attributes, wanted))
    if "position" not in patch:
        return replace(state, attributes=attributes, changed_at=at)
    fix = patch["position"]
    if fix is not None:
        return replace(moved(state, position_from_json(fix), at), attributes=attributes)
    return NodeState(state.node, attributes=attributes, changed_at=at)


def merge_patch(target: object, patch: Mapping[str, object]) -> dict[str, object]:
    """Return `target` after a JSON merge patch: null removes a member, objects merge."""
    result: dict[str, object] = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = merge_patch(result.get(name), value)
        else:
            result[name] = value
    return result


def check_attributes(value: object) -> dict[str, Value]:
    """Return attributes that are a JSON object of bounded depth and size, or raise `ModelError`."""
    if _is_plain(value):
        return dict(value)
    if not isinstance(value, Mapping):
        raise ModelError(f"attributes are a JSON object, not {shown(value)}")
    checked = _checked_object(value, "attributes", 1)
    check_size(checked, LARGEST_ATTRIBUTES_BYTES)
    return checked


def check_size(attributes: Attributes, most_bytes: int) -> None:
    """Raise `ModelError` if attributes take more than so many bytes as JSON."""
    try:
        size = len(msgspec.json.encode(attributes))
    except UnicodeEncodeError:
        raise ModelError("attributes hold text that cannot be written as UTF-8") from None
    if size > most_bytes:
        raise ModelError(f"attributes take {size} bytes of {most_bytes} allowed")


def aggregate(contexts: Iterable[Context]) -> Context:
    """Return the combined context of several.

    People are united and the span covers all spans. An attribute that is equal in all stays as it
    is; any other becomes the list of its distinct values, in order of appearance, where a list
    counts as its items.
    """
    parts = list(contexts)
    if not parts:
        raise ModelError("an aggregate needs at least one context")
    names = dict.fromkeys(name for part in parts for name in part.attributes)
    return Context(
        frozenset().union(*(part.people for part in parts)),
        min(part.start for part in parts),
        max(part.end for part in parts),
        {name: _together(name, parts) for name in names},
    )


def _together(name: str, parts: list[Context]) -> Value:
    found = [part.attributes[name] for part in parts if name in part.attributes]
    if len(found) == len(parts) and len({_identity(value) for value in found}) == 1:
        return found[0]
    flat = (item for value in found for item in (value if isinstance(value, list) else [value]))
    distinct: dict[Hashable, Value] = {}
    for item in flat:
        distinct.setdefault(_identity(item), item)
    return list(distinct.values())


def _identity(value: Value) -> Hashable:
    """Return a key shared by equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", tuple(_identity(item) for item in value))
    if isinstance(value, Mapping):
        return ("object", frozenset((name, _identity(item)) for name, item in value.items()))
    return value


def _is_plain(value: object) -> TypeGuard[dict[str, Value]]:
    """Return True for few short attributes of the usual kinds, which are always valid.

    A shortcut: the full check gives the same result more slowly.
    """
    if type(value) is not dict or len(value) > FEW_ATTRIBUTES:
        return False
    size = 0
    for name, item in value.items():
        kind = type(item)
        if type(name) is not str or not name.isascii():
            return False
        if kind is str:
            if not item.isascii():
                return False
            size += len(item)
        elif kind is float:
            if not math.isfinite(item):
                return False
        elif kind is int:
            if abs(item) >= 1 << 63:
                return False
        elif kind is not bool and item is not None:
            return False
        size += len(name)
    return size <= SHORT_ATTRIBUTES


def _checked_object(value: Mapping[object, object], path: str, depth: int) -> dict[str, Value]:
    checked: dict[str, Value] = {}
    for name, item in value.items():
        if not isinstance(name, str):
            raise ModelError(f"{path} has a name that is not text: {shown(name)}")
        checked[name] = _checked(item, f"{path}.{name}", depth + 1)
    return checked


def _checked(value: object, path: str, depth: int) -> Value:
    if depth > DEEPEST_ATTRIBUTES:
        raise ModelError(f"attributes nest deeper than {DEEPEST_ATTRIBUTES} levels")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    if isinstance(value, int | float):
        # Numbers compare as doubles everywhere, so larger integers are stored as doubles.
        return number(value, path)
    if isinstance(value, list | tuple):
        return [_checked(item, path, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return _checked_object(value, path, depth)
    raise ModelError(f"{path} is {shown(value)}, which is not a JSON value")
