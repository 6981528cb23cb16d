"""Sight: what one node may see of another, and who is whose friend.

Nodes are in groups, and a table says what a group may see of a group; pairs of nodes may be
excepted. Position, identity and attributes are hidden separately.
"""

import numpy as np

from nearcast.core.language.scope import Value
from nearcast.core.matching.atoms import HAS_LIST, lookup
from nearcast.core.matching.nodes import DEFAULT_GROUP, Nodes
from nearcast.core.matching.pairs import Pairs
from nearcast.core.matching.tables import NONE
from nearcast.core.model.visibility import SEE_ALL

GROUPS = 256
EXCEPTION = 128
"""Set in every exception's byte, so that seeing nothing is not the same as having none."""


class Sight:
    """Who may see what of whom."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.groups = np.full((GROUPS, GROUPS), SEE_ALL, np.uint8)
        self.exceptions = Pairs()
        self.friends = Pairs()
        self.restricted = False
        """Whether anything may be hidden at all."""
        self._friends_of: dict[int, list[int]] = {}

    def set_group(self, node: str, group: int) -> None:
        """Put a node into a group, 1 to 255; everyone is in group 1 at first."""
        if not DEFAULT_GROUP <= group < GROUPS:
            raise ValueError(f"visibility groups are 1 to {GROUPS - 1}, not {group}")
        row = self._nodes.find(node)
        before = DEFAULT_GROUP if row == NONE else int(self._nodes.arrays.group[row])
        if before == group:
            return
        # A node in a group of its own is remembered for it.
        if before == DEFAULT_GROUP:
            row = self._nodes.acquire(node)
        self._nodes.arrays.group[row] = group
        if group == DEFAULT_GROUP:
            self._nodes.release(row)

    def set_groups(self, viewers: int, others: int, mask: int) -> None:
        """What nodes of one group may see of nodes of another."""
        self.groups[viewers, others] = mask
        self.restricted = True

    def set_exception(self, viewer: str, other: str, mask: int | None) -> None:
        """What one node may see of another, whatever their groups; None: as their groups say."""
        first, second = self._nodes.find(viewer), self._nodes.find(other)
        excepted = second in self.exceptions.seconds(first)
        if mask is None:
            if excepted:
                self.exceptions.drop(first, second)
                self._nodes.release(first)
                self._nodes.release(second)
            return
        if not excepted:
            first, second = self._nodes.acquire(viewer), self._nodes.acquire(other)
        self.exceptions.put(first, second, mask | EXCEPTION)
        self.restricted = True

    def may_see(self, viewer: str, other: str) -> int:
        """What one node may see of another."""
        if viewer == other:
            return SEE_ALL
        first, second = self._nodes.find(viewer), self._nodes.find(other)
        if second in self.exceptions.seconds(first):
            return int(lookup(self.exceptions.arrays, first, second)) & SEE_ALL
        group = self._nodes.arrays.group
        viewers = int(group[first]) if first != NONE else DEFAULT_GROUP
        others = int(group[second]) if second != NONE else DEFAULT_GROUP
        return int(self.groups[viewers, others])

    def befriend(self, row: int, friends: Value) -> None:
        """A node's context lists these friends now, or has no list."""
        before = self._friends_of.pop(row, None)
        now: list[int] | None = None
        if isinstance(friends, list | tuple):
            names = {friend for friend in friends if isinstance(friend, str)}
            now = [self._nodes.acquire(friend) for friend in names]
        if before is not None:
            for friend in before:
                self.friends.drop(row, friend)
                self._nodes.release(friend)
            self.friends.drop(row, HAS_LIST)
        if now is not None:
            self._friends_of[row] = now
            self.friends.put(row, HAS_LIST, 1)
            for friend in now:
                self.friends.put(row, friend, 1)
