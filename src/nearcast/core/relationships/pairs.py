"""The pair predicate: when two nodes are near each other, and which pairs are declared.

Two nodes are near at a time if both have a last fix that is not older than `fresh_s` then, and the
fixes are within `within_m`. Seed A's relationships between named members consist of pairs.
"""

from collections.abc import Mapping

from nearcast.core.model.geometry.geodesy import ecef, within
from nearcast.core.relationships.tracks import Fix


def is_near(a: Fix, b: Fix, time: float, within_m: float, fresh_s: float) -> bool:
    """Return whether two nodes with these last fixes are near each other at a time."""
    if time > min(a.time, b.time) + fresh_s:
        return False
    here, there = (a.lat, a.lon), (b.lat, b.lon)
    return within(*here, *ecef(*here), *there, *ecef(*there), within_m)


class DeclaredPairs:
    """Relationships by name, each with its members."""

    def __init__(self, members: Mapping[str, tuple[str, ...]]) -> None:
        self._by_node: dict[str, set[str]] = {}
        for name, nodes in sorted(members.items()):
            for node in nodes:
                self._by_node.setdefault(node, set()).add(name)

    def __contains__(self, node: str) -> bool:
        return node in self._by_node

    def names(self, a: str, b: str) -> list[str]:
        """Return the relationships of which both nodes are members."""
        return sorted(self._by_node.get(a, set()) & self._by_node.get(b, set()))
