"""Expiry of nodes: what is known of a node that is gone for long is dropped, by a recorded input.

A node is idle if it has no session, no live event and no watched area; announcements and
subscriptions end with sessions. About once a second a slice of all nodes is looked at, so that a
tick never looks at all of them. When there are as many nodes as allowed, the one that has been idle
for longest, as far as the latest pass knows, makes room for a new one.
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
        self._idle: list[tuple[float, str]] = []
        """Idle nodes of the pass before, the oldest last."""

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
        self._idle = sorted(((-since, node) for since, node in self._found), reverse=True)
        self._found = []
        self._pass = iter(list(nodes))

    def make_room(self) -> bool:
        """Drop the node that has been idle for longest; False if there is none."""
        if not self._idle and len(self._state.engine.nodes) <= SLICE:
            names = filter(self._is_idle, self._state.engine.nodes)
            self._idle = sorted(((self._since(n), n) for n in names), reverse=True)
        while self._idle:
            since, node = self._idle.pop()
            is_unchanged = self._is_idle(node) and self._since(node) == since
            if is_unchanged and not self._state.pending.concerns(node):
                self._expire(node)
                return True
        return False

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
        state.quotas.anticipate(f"expired {node}", Resource.NODES)
        state.counters["expired_nodes"] += 1

    def _remember(self, since: float, node: str) -> None:
        if len(self._found) < MOST_IDLE:
            heapq.heappush(self._found, (-since, node))
        else:
            heapq.heappushpop(self._found, (-since, node))
