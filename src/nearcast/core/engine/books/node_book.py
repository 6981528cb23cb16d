"""The book of nodes: the state of each, and the expiry of its position."""

from collections import deque
from collections.abc import Iterator

from nearcast.core.model.context import NodeState
from nearcast.core.model.geometry.position import Position


class NodeBook:
    """States of nodes by name."""

    def __init__(self, position_ttl_s: float) -> None:
        self.by_name: dict[str, NodeState] = {}
        self._ttl_s = position_ttl_s
        self._fixes: deque[tuple[float, str]] = deque()
        """Times of position fixes with the node, oldest first."""

    def state_of(self, node: str) -> NodeState:
        """The state of a node, empty if unknown."""
        return self.by_name.get(node) or NodeState(node)

    def position(self, node: str) -> Position | None:
        """The position of a node, None if unknown."""
        state = self.by_name.get(node)
        return None if state is None else state.position

    def fixed(self, node: str, now: float) -> None:
        """Record that a node reported its position."""
        self._fixes.append((now, node))

    def resumed(self) -> None:
        """Rebuild the queue of fixes from restored states."""
        self._fixes = deque(
            sorted(
                (state.position_at, state.node)
                for state in self.by_name.values()
                if state.position is not None and state.position_at is not None
            )
        )

    def outdated(self, now: float) -> Iterator[NodeState]:
        """Yield the states of nodes whose position has expired, each once.

        Ordered by the times of the fixes and by name, as in an engine that was restored since.
        """
        due = []
        while self._fixes and self._fixes[0][0] + self._ttl_s <= now:
            due.append(self._fixes.popleft())
        for at, node in sorted(due):
            state = self.by_name.get(node)
            if state is not None and state.position_at == at:
                yield state

    def next_expiry(self) -> float | None:
        """The time at which the next position expires."""
        return self._fixes[0][0] + self._ttl_s if self._fixes else None
