"""The book of nodes: what is known of each, and until when its position counts."""

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
        """When a node said where it is, the oldest first."""

    def state_of(self, node: str) -> NodeState:
        """What is known of a node."""
        return self.by_name.get(node) or NodeState(node)

    def position(self, node: str) -> Position | None:
        """Where a node is, as far as that is known."""
        state = self.by_name.get(node)
        return None if state is None else state.position

    def fixed(self, node: str, now: float) -> None:
        """A node said where it is."""
        self._fixes.append((now, node))

    def resumed(self) -> None:
        """The states of nodes are those of another book, with positions as old as they are."""
        self._fixes = deque(
            sorted(
                (state.position_at, state.node)
                for state in self.by_name.values()
                if state.position is not None and state.position_at is not None
            )
        )

    def outdated(self, now: float) -> Iterator[NodeState]:
        """Yield what is known of nodes whose position is too old by now, each once."""
        while self._fixes and self._fixes[0][0] + self._ttl_s <= now:
            at, node = self._fixes.popleft()
            state = self.by_name.get(node)
            if state is not None and state.position_at == at:
                yield state

    def next_expiry(self) -> float | None:
        """When the next fix is too old."""
        return self._fixes[0][0] + self._ttl_s if self._fixes else None
