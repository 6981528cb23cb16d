"""Expiry of nodes: what is known of a node that is gone for long is dropped, by a recorded input.

A node is idle if it has no session, no live event and no watched area; announcements and
subscriptions end with sessions. About once a second a slice of all nodes is looked at, so that a
tick never looks at all of them. When there are as many nodes as allowed, the one that has been idle
for longest, as far as the latest pass knows, makes room for a new one; when a user has as many as
one may have, one of that user's.
"""

import heapq
from collections import Counter
from collections.abc import Iterator

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.quotas.quota import Resource
from nearcast.core.model.inputs import NodeExpired

SLICE = 2_000
"""Nodes that are looked at in one sweep."""
MOST_EXPIRED = 200
"""Nodes that expire in one sweep."""
MOST_IDLE = 10_000
"""Idle nodes that a pass remembers: the oldest ones."""


class NodeExpiry:
    """Drops what is known of idle nodes."""

    def __init__(self, state: BrokerState, live_nodes: Counter[str], ttl_s: float) -> None:
        """Take the number of live events of each node."""
        self._state = state
        self._live_nodes = live_nodes
        self._ttl_s = ttl_s
        self._started_at: float | None = None
        """The first sweep: nodes without a recorded time are as old as this."""
        self._pass: Iterator[str] = iter(())
        self._found: list[tuple[float, str]] = []
        """A heap of the idle nodes that this pass found: negative times and names."""
        self._idle: dict[str, list[tuple[float, str]]] = {}
        """By user: idle nodes of the pass before, negative times and names, the oldest last."""

    def sweep(self, now: float) -> None:
        """Look at the next nodes, and drop those whose time is over."""
        if self._started_at is None:
            self._started_at = now
        nodes, expired = self._state.engine.nodes, 0
        for looked_at, node in enumerate(self._pass, 1):
            if self._is_idle(node):
                since = self._since(node)
                if since + self._ttl_s <= now:
                    self._expire(node)
                    expired += 1
                else:
                    self._remember(since, node)
            if looked_at == SLICE or expired == MOST_EXPIRED:
                return
        self._idle = self._by_user(self._found)
        self._found = []
        self._pass = iter(list(nodes))

    def make_room(self, user: str | None) -> bool:
        """Drop the node that has been idle for longest, if given of a user's; False if none is."""
        is_known = self._idle if user is None else user in self._idle
        if not is_known and len(self._state.engine.nodes) <= SLICE:
            names = filter(self._is_idle, self._state.engine.nodes)
            self._idle = self._by_user([(-self._since(name), name) for name in names])
        while self._idle if user is None else user in self._idle:
            of = self._idle_longest() if user is None else user
            since, node = self._idle[of].pop()
            if not self._idle[of]:
                del self._idle[of]
            is_unchanged = self._is_idle(node) and -self._since(node) == since
            if is_unchanged and not self._state.pending.concerns(node):
                self._expire(node)
                return True
        return False

    def _by_user(self, idle: list[tuple[float, str]]) -> dict[str, list[tuple[float, str]]]:
        found: dict[str, list[tuple[float, str]]] = {}
        for since, node in sorted(idle):
            found.setdefault(self._user_of(node), []).append((since, node))
        return found

    def _idle_longest(self) -> str:
        """The user of the node that has been idle for longest."""
        return max(self._idle, key=lambda user: self._idle[user][-1])

    def _user_of(self, node: str) -> str:
        usage = self._state.quotas.find(node)
        return "" if usage is None else usage.user.name

    def _since(self, node: str) -> float:
        """The time of the last input of a node."""
        changed_at = self._state.engine.nodes[node].changed_at
        return (self._started_at or 0.0) if changed_at is None else changed_at

    def _is_idle(self, node: str) -> bool:
        state = self._state
        if node not in state.engine.nodes or node in state.parts or self._live_nodes[node]:
            return False
        if state.pending.is_expiring(node):
            return False
        usage = state.quotas.find(node)
        return usage is None or not usage.used[Resource.AREAS]

    def _expire(self, node: str) -> None:
        state = self._state
        state.pending.ask(NodeExpired(node))
        usage = state.quotas.find(node)
        assert usage is not None
        state.quotas.anticipate(usage, f"expired {node}", Resource.NODES)
        state.counters["expired_nodes"] += 1

    def _remember(self, since: float, node: str) -> None:
        if len(self._found) < MOST_IDLE:
            heapq.heappush(self._found, (-since, node))
        else:
            heapq.heappushpop(self._found, (-since, node))
