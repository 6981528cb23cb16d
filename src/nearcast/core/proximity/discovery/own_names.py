"""Own names: what a node is called, and the pseudonyms under which others know it."""

from collections.abc import Callable

NodeOf = Callable[[str], str]
"""Tells which node goes by a name; what is no pseudonym is its own."""


def by_itself(name: str) -> str:
    """Return the node that goes by a name where there are no pseudonyms."""
    return name


class OwnNames:
    """The name of a node in its own engine, and its name to others now.

    All its pseudonyms are its own, also those of a run before.
    """

    def __init__(self, name: str, node_of: NodeOf = by_itself) -> None:
        self.name = name
        self.alias = name
        self._node_of = node_of

    def __contains__(self, name: str) -> bool:
        return name in (self.name, self.alias) or self._node_of(name) == self.name
