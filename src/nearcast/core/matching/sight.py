"""Sight: what one node may see of another, and who is whose friend.

Nodes are in groups, and a table says what a group may see of a group; pairs of nodes may be
excepted. Position, identity and attributes are hidden separately. Where a policy governs, it says
which group a node is in, and what friends see of each other; exceptions that were set go before.
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
"""Set in every exception's byte, so that seeing nothing is not the same as having none."""


class SightPolicy(Protocol):
    """Rules by which nodes see each other."""

    @property
    def restricts(self) -> bool:
        """Whether anything may be hidden at all."""
        ...

    @property
    def asks_friends(self) -> bool:
        """Whether friends see other things of each other than the table says."""
        ...

    def group(self, node: str) -> int:
        """The visibility group of a node."""
        ...

    def granted(self, node: str) -> Mapping[str, Value]:
        """What a node has in its context by rule."""
        ...

    def mask(self, viewer: str, other: str, friends: bool) -> int:
        """What one node may see of another, who lists it as a friend or does not."""
        ...

    def conceals(self, node: str, at: Position | None) -> bool:
        """Whether a node's position is hidden from some because of where it is, or was."""
        ...


class Sight:
    """Who may see what of whom."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.groups = np.full((GROUPS, GROUPS), SEE_ALL, np.uint8)
        self.exceptions = NodePairs()
        self.friends = NodePairs()
        self.restricted = False
        """Whether anything may be hidden at all."""
        self._friends_of: dict[int, list[int]] = {}
        self._listed_by: dict[int, set[int]] = {}
        self._set: dict[tuple[int, int], int] = {}
        self._policy: SightPolicy | None = None

    def govern(self, policy: SightPolicy | None) -> None:
        """Let a policy decide what everyone may see, in place of the last; None: everything."""
        self._policy = policy
        self.groups[DEFAULT_GROUP:, DEFAULT_GROUP:] = SEE_ALL if policy is None else 0
        self._nodes.introduce(None if policy is None else _by(policy))
        self.restricted = len(self._set) > 0 or (policy is not None and policy.restricts)
        for other, friends in self._friends_of.items():
            self._judge((friend, other) for friend in friends)

    def reclass(self, node: str) -> None:
        """A node may be in another group by the policy."""
        row = self._nodes.find(node)
        if row == NONE or self._policy is None:
            return
        self._nodes.arrays.group[row] = self._policy.group(node)
        if self._policy.asks_friends:
            self._judge((friend, row) for friend in self._friends_of.get(row, ()))
            self._judge((row, other) for other in self._listed_by.get(row, ()))

    def granted(self, node: str) -> Mapping[str, Value]:
        """What a node has in its context by the policy."""
        return {} if self._policy is None else self._policy.granted(node)

    def conceals(self, node: str, at: Position | None) -> bool:
        """Whether a node's position is hidden from some because of where it is, or was."""
        return self._policy is not None and self._policy.conceals(node, at)

    def names(self) -> list[str]:
        """Everyone who is in a group."""
        return self._nodes.names()

    def group_of(self, node: str) -> int | None:
        """The group of a node, if it is in one."""
        row = self._nodes.find(node)
        return None if row == NONE else int(self._nodes.arrays.group[row])

    def members(self, group: int) -> int:
        """How many nodes are in a group."""
        return int((self._nodes.arrays.group == group).sum())

    def groups_in_use(self) -> set[int]:
        """The groups that somebody is in."""
        return set(np.unique(self._nodes.arrays.group).tolist())

    def set_group(self, node: str, group: int) -> None:
        """Put a node into a group, 1 to 255; everyone is in group 1 at first."""
        if not DEFAULT_GROUP <= group < GROUPS:
            raise ModelError(f"visibility groups are 1 to {GROUPS - 1}, not {group}")
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
        if mask is None:
            first, second = self._nodes.find(viewer), self._nodes.find(other)
            if self._set.pop((first, second), None) is not None:
                self._judge(((first, second),))
            return
        first, second = self._nodes.acquire(viewer), self._nodes.acquire(other)
        self._set[first, second] = mask
        self.restricted = True
        self._judge(((first, second),))
        # The exception holds on to both rows itself.
        self._nodes.release(first)
        self._nodes.release(second)

    def may_see(self, viewer: str, other: str) -> int:
        """What one node may see of another."""
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
        """A node's context lists these friends now, or has no list."""
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
        """Except these pairs of viewer and other if they were set or the policy does so."""
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
        """What the policy lets a node see of one who lists it, if that is not what anyone sees."""
        policy = self._policy
        if policy is None or not policy.asks_friends or first not in self.friends.seconds(second):
            return None
        mask = policy.mask(self._nodes.name(first), self._nodes.name(second), True)
        group = self._nodes.arrays.group
        return None if mask == self.groups[group[first], group[second]] else mask


def _by(policy: SightPolicy) -> Newcomer:
    # Not a lambda: a matcher may be written down and read back.
    return partial(_introduced, policy)


def _introduced(policy: SightPolicy, node: str) -> tuple[int, Mapping[str, Value]]:
    return policy.group(node), policy.granted(node)
