"""Visibility rules as values: the nodes they are about, and the mask.

A rule names viewers and others by their ids, by their contexts and by their positions; the first
rule that matches a pair decides. A condition that is unknown does not match.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.area import Area, Around, PlaceHere
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.visibility import SEE_ALL, SEE_ATTRIBUTES, SEE_IDENTITY, SEE_POSITION

if TYPE_CHECKING:
    from nearcast.core.language import Filter

SEE_NAMES = {
    "position": SEE_POSITION,
    "identity": SEE_IDENTITY,
    "attributes": SEE_ATTRIBUTES,
}


class NodeCondition(Struct, frozen=True):
    """A set of nodes by id, by context and by position: all given conditions must hold."""

    nodes: tuple[str, ...] = ()
    """Patterns of ids, with `*` for any text; empty: any id."""
    where: "Filter | None" = None
    """Bare names are attributes of the node's own context and granted ones."""
    inside: Area | None = None

    def __post_init__(self) -> None:
        if isinstance(self.inside, Around | PlaceHere):
            raise ModelError(
                "a rule's area is fixed or a named place, as in place:hospital/St%20James; "
                "one that moves with a node would follow whoever is asked about"
            )

    def is_named(self, node: str) -> bool:
        """Return whether an id matches one of the patterns."""
        return not self.nodes or any(fits(pattern, node) for pattern in self.nodes)


ANYONE = NodeCondition()


class SightRule(Struct, frozen=True):
    """What viewers may see of other nodes."""

    viewer: NodeCondition = ANYONE
    other: NodeCondition = ANYONE
    see: int = SEE_ALL
    friend: bool = False
    """Only if the other lists the viewer as a friend."""
    same: str | None = None
    """Only if both have the same value of this attribute."""

    def __post_init__(self) -> None:
        check_mask(self.see)
        if self.same is not None and not self.same:
            raise ModelError('same names an attribute of both contexts, as in same = "team"')


def mask_of(names: Iterable[str]) -> int:
    """Return the mask of the names: position, identity, attributes."""
    mask = 0
    for name in names:
        if name not in SEE_NAMES:
            known = ", ".join(SEE_NAMES)
            raise ModelError(
                f"{shown(name)} is nothing to see; there is {known}{did_you_mean(name, SEE_NAMES)}"
            )
        mask |= SEE_NAMES[name]
    return mask


def check_mask(mask: int) -> None:
    """Raise `ModelError` if a mask has undefined bits."""
    if not 0 <= mask <= SEE_ALL:
        raise ModelError(f"what may be seen is a mask of {SEE_NAMES}, not {mask}")


def fits(pattern: str, node: str) -> bool:
    """Return whether an id matches a pattern, in one pass, however many stars there are."""
    first, *rest = pattern.split("*")
    if not rest:
        return node == first
    *middle, last = rest
    at, end = len(first), len(node) - len(last)
    if end < at or not node.startswith(first) or not node.endswith(last):
        return False
    for part in middle:
        found = node.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
