"""Sight: what one node may see of another, and friend lists.

Nodes are in groups, and a table gives what each group may see of each other; pairs of nodes may be
excepted. Position, identity and attributes are hidden separately. Under a policy, the policy sets a
node's group and what friends see of each other; explicit exceptions take precedence.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol

import numpy as np

from nearcast.core.language.evaluation.scope import Value
from nearcast.core.matching.filters.atoms import HAS_LIST, lookup
from nearcast.core.matching.nodes import DEFAULT_GROUP, Newcomer, Nodes
from nearcast.core.matching.pairs import NodePairs
from nearcast.core.matching.tables import NONE
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.visibility import SEE_ALL

GROUPS = 256
EXCEPTION = 128
"""Set in the byte of every exception, to tell a mask of 0 from no exception."""


class SightPolicy(Protocol):
    """Rules for visibility between nodes."""

    @property
    def restricts(self) -> bool:
        """True if anything may be hidden at all."""
        ...

    @property
    def asks_friends(self) -> bool:
        """True if friends may see more or less of each other than the table permits."""
        ...

    def group(self, node: str) -> int:
        """The visibility group of a node."""
        ...

    def granted(self, node: str) -> Mapping[str, Value]:
        """The attributes that rules grant to a node."""
        ...

    def mask(self, viewer: str, other: str, friends: bool) -> int:
        """The visibility mask of a node for a viewer, whom it lists as a friend or not."""
        ...

    def conceals(self, node: str, at: Position | None) -> bool:
        """True if a node's position is hidden from some nodes because of where it is, or was."""
        ...


class Sight:
    """Visibility between nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.groups = np.full((GROUPS, GROUPS), SEE_ALL, np.uint8)
        self.exceptions = NodePairs()
        self.friends = NodePairs()
        self.restricted = False
        """True if anything may be hidden at all."""
        self._friends_of: dict[int, list[int]] = {}
        self._listed_by: dict[int, set[int]] = {}
        self._set: dict[tuple[int, int], int] = {}
        self._policy: SightPolicy | None = None

    def govern(self, policy: SightPolicy | None) -> None:
        """Replace the policy that decides visibility; None: everything is visible."""
        self._policy = policy
        self.groups[DEFAULT_GROUP:, DEFAULT_GROUP:] = SEE_ALL if policy is None else 0
        self._nodes.introduce(None if policy is None else _by(policy))
        self.restricted = len(self._set) > 0 or (policy is not None and policy.restricts)
        for other, friends in self._friends_of.items():
            self._judge((friend, other) for friend in friends)

    def reclass(self, node: str) -> None:
        """Update the group of a node from the policy."""
        row = self._nodes.find(node)
        if row == NONE or self._policy is None:
            return
        self._nodes.arrays.group[row] = self._policy.group(node)
        if self._policy.asks_friends:
            self._judge((friend, row) for friend in self._friends_of.get(row, ()))
            self._judge((row, other) for other in self._listed_by.get(row, ()))

    def granted(self, node: str) -> Mapping[str, Value]:
        """The attributes that the policy grants to a node."""
        return {} if self._policy is None else self._policy.granted(node)

    def conceals(self, node: str, at: Position | None) -> bool:
        """True if a node's position is hidden from some nodes because of where it is, or was."""
        return self._policy is not None and self._policy.conceals(node, at)

    def names(self) -> list[str]:
        """The names of all nodes with a row."""
        return self._nodes.names()

    def group_of(self, node: str) -> int | None:
        """The group of a node, None if it has no row."""
        row = self._nodes.find(node)
        return None if row == NONE else int(self._nodes.arrays.group[row])

    def members(self, group: int) -> int:
        """The number of nodes in a group."""
        return int((self._nodes.arrays.group == group).sum())

    def groups_in_use(self) -> set[int]:
        """The groups that have members."""
        return set(np.unique(self._nodes.arrays.group).tolist())

    def set_group(self, node: str, group: int) -> None:
        """Put a node into a group, 1 to 255; the default is group 1."""
        if not DEFAULT_GROUP <= group < GROUPS:
            raise ModelError(f"visibility groups are 1 to {GROUPS - 1}, not {group}")
        row = self._nodes.find(node)
        before = DEFAULT_GROUP if row == NONE else int(self._nodes.arrays.group[row])
        if before == group:
            return
        # A node outside the default group keeps its row for that.
        if before == DEFAULT_GROUP:
            row = self._nodes.acquire(node)
        self._nodes.arrays.group[row] = group
        if group == DEFAULT_GROUP:
            self._nodes.release(row)

    def set_groups(self, viewers: int, others: int, mask: int) -> None:
        """Set what nodes of one group may see of nodes of another."""
        self.groups[viewers, others] = mask
        self.restricted = True

    def set_exception(self, viewer: str, other: str, mask: int | None) -> None:
        """Set what one node may see of another, whatever their groups; None: as by their groups."""
        if mask is None:
            first, second = self._nodes.find(viewer), self._nodes.find(other)
            if self._set.pop((first, second), None) is not None:
                self._judge(((first, second),))
            return
        first, second = self._nodes.acquire(viewer), self._nodes.acquire(other)
        self._set[first, second] = mask
        self.restricted = True
        self._judge(((first, second),))
        # The exception holds both rows itself.
        self._nodes.release(first)
        self._nodes.release(second)

    def exceptions_by_name(self) -> list[tuple[str, str, int]]:
        """The exceptions that were set, each as viewer, other node and mask."""
        name = self._nodes.name
        return [(name(first), name(second), mask) for (first, second), mask in self._set.items()]

    def may_see(self, viewer: str, other: str) -> int:
        """The visibility mask of a node for a viewer."""
        if viewer == other:
            return SEE_ALL
        first, second = self._nodes.find(viewer), self._nodes.find(other)
        if second in self.exceptions.seconds(first):
            return int(lookup(self.exceptions.arrays, first, second)) & SEE_ALL
        if self._policy is not None and NONE in (first, second):
            return self._policy.mask(viewer, other, False)
        group = self._nodes.arrays.group
        viewers = int(group[first]) if first != NONE else DEFAULT_GROUP
        others = int(group[second]) if second != NONE else DEFAULT_GROUP
        return int(self.groups[viewers, others])

    def befriend(self, row: int, friends: Value) -> None:
        """Set the friend list of a node's context, or None."""
        before = self._friends_of.pop(row, None)
        now: list[int] | None = None
        if isinstance(friends, list | tuple):
            names = {friend for friend in friends if isinstance(friend, str)}
            now = [self._nodes.acquire(friend) for friend in names]
        if before is not None:
            for friend in before:
                self.friends.drop(row, friend)
                self._listed_by[friend].discard(row)
                if not self._listed_by[friend]:
                    del self._listed_by[friend]
            self.friends.drop(row, HAS_LIST)
        if now is not None:
            self._friends_of[row] = now
            self.friends.put(row, HAS_LIST, 1)
            for friend in now:
                self.friends.put(row, friend, 1)
                self._listed_by.setdefault(friend, set()).add(row)
        if self._policy is not None and self._policy.asks_friends:
            self._judge((friend, row) for friend in {*(before or ()), *(now or ())})
        for friend in before or ():
            self._nodes.release(friend)

    def _judge(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Set or clear the exceptions of pairs, from explicit masks and the policy for friends."""
        for first, second in pairs:
            mask = self._set.get((first, second))
            if mask is None:
                mask = self._among_friends(first, second)
            excepted = second in self.exceptions.seconds(first)
            if mask is not None:
                if not excepted:
                    self._nodes.acquire_again(first)
                    self._nodes.acquire_again(second)
                self.exceptions.put(first, second, mask | EXCEPTION)
            elif excepted:
                self.exceptions.drop(first, second)
                self._nodes.release(first)
                self._nodes.release(second)

    def _among_friends(self, first: int, second: int) -> int | None:
        """The policy's mask for a listed friend, None if it equals that of their groups."""
        policy = self._policy
        if policy is None or not policy.asks_friends or first not in self.friends.seconds(second):
            return None
        mask = policy.mask(self._nodes.name(first), self._nodes.name(second), True)
        group = self._nodes.arrays.group
        return None if mask == self.groups[group[first], group[second]] else mask


def _by(policy: SightPolicy) -> Newcomer:
    # Not a lambda: a matcher may be pickled.
    return partial(_introduced, policy)


def _introduced(policy: SightPolicy, node: str) -> tuple[int, Mapping[str, Value]]:
    return policy.group(node), policy.granted(node)
