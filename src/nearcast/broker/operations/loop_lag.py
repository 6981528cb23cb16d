"""How late the event loop is: what is due every second tells it."""

from collections import deque

REMEMBERED_S = 30.0


class LoopLag:
    """The lateness of something that should happen at fixed intervals."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._last: float | None = None
        self._late: deque[tuple[float, float]] = deque()
        """When it was late, and by how much; recent ones only."""

    def note(self, now: float) -> None:
        """Note that it happens now."""
        late_s = 0.0 if self._last is None else now - self._last - self._every_s
        self._last = now
        self._late.append((now, max(0.0, late_s)))
        while now - self._late[0][0] > REMEMBERED_S:
            self._late.popleft()

    @property
    def longest_s(self) -> float:
        """By how much it was late at most, lately."""
        return max((late_s for _, late_s in self._late), default=0.0)
