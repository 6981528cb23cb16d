"""The book of nodes: the state of each, and the expiry of its position."""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from nearcast.core.model.context import NodeState
from nearcast.core.model.geometry.position import Position


class NodeBook:
    """States of nodes by name."""

    def __init__(self, position_ttl_s: float) -> None:
        self.by_name: dict[str, NodeState] = {}
        self._ttl_s = position_ttl_s
        self._fixes: deque[tuple[float, str]] = deque()
        """Times of position fixes with the node, oldest first."""
        self._earlier: list[tuple[float, str]] = []
        """A heap of fixes that were older than one before them: a clock was set back."""
        self.silent: dict[str, set[str]] = {}
        """Nodes whose position does not age, each with the sessions that keep silent."""

    def __getstate__(self) -> tuple[dict[str, NodeState], float, dict[str, set[str]]]:
        # Fixes follow from the states, and share their names and times when they are made anew.
        return self.by_name, self._ttl_s, self.silent

    def __setstate__(self, state: tuple[dict[str, NodeState], float, dict[str, set[str]]]) -> None:
        self.by_name, self._ttl_s, self.silent = state
        self._earlier = []
        self.resumed()

    def state_of(self, node: str) -> NodeState:
        """The state of a node, empty if unknown."""
        return self.by_name.get(node) or NodeState(node)

    def position(self, node: str) -> Position | None:
        """The position of a node, None if unknown."""
        state = self.by_name.get(node)
        return None if state is None else state.position

    def fixed(self, node: str, now: float) -> None:
        """Record that a node reported its position."""
        if self._fixes and now < self._fixes[-1][0]:
            heappush(self._earlier, (now, node))
        else:
            self._fixes.append((now, node))

    def resumed(self) -> None:
        """Rebuild the queue of fixes from restored states."""
        self._earlier.clear()
        self._fixes = deque(
            sorted(
                (state.position_at, state.node)
                for state in self.by_name.values()
                if state.position is not None and state.position_at is not None
            )
        )

    def outdated(self, now: float) -> Iterator[tuple[NodeState, float]]:
        """Yield the states of nodes whose position has expired, each once, and when it did.

        Ordered by the times of the fixes and by name, as in an engine that was restored since.
        """
        due = []
        while self._fixes and self._fixes[0][0] + self._ttl_s <= now:
            due.append(self._fixes.popleft())
        while self._earlier and self._earlier[0][0] + self._ttl_s <= now:
            due.append(heappop(self._earlier))
        for at, node in sorted(due):
            state = self.by_name.get(node)
            if state is not None and state.position_at == at and node not in self.silent:
                yield state, at + self._ttl_s

    def next_expiry(self) -> float | None:
        """The time at which the next position expires."""
        first = [each[0][0] for each in (self._fixes, self._earlier) if each]
        return min(first) + self._ttl_s if first else None
