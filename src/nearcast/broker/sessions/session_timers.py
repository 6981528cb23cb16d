"""Timers of sessions without a connection: delayed wills and expiry."""

import heapq
from collections.abc import Iterator
from itertools import count
from math import inf

from nearcast.wire.mqtt import Will


class SessionTimers:
    """Delayed wills and expiry times, by client id."""

    def __init__(self) -> None:
        self._wills: dict[str, tuple[float, Will]] = {}
        self._ends: dict[str, float] = {}
        self._heap: list[tuple[float, int, str, bool]] = []
        """Due times of wills (True) and ends (False); stale if the dictionaries differ."""
        self._numbers = count()

    def delay_will(self, client_id: str, will: Will, due: float) -> None:
        """Publish a will at a given time, unless it is cancelled before."""
        self._wills[client_id] = (due, will)
        heapq.heappush(self._heap, (due, next(self._numbers), client_id, True))

    def will(self, client_id: str) -> Will | None:
        """The delayed will of a client."""
        return self._wills.get(client_id, (0.0, None))[1]

    def take_will(self, client_id: str) -> tuple[float, Will] | None:
        """Cancel a delayed will; return its due time and the will."""
        return self._wills.pop(client_id, None)

    def expire_at(self, client_id: str, end: float) -> None:
        """End a session at a given time; `inf`: never."""
        self._ends[client_id] = end
        if end != inf:
            # If both are due at the same time, the will precedes the end of its session.
            heapq.heappush(self._heap, (end, next(self._numbers) + (1 << 62), client_id, False))

    def cancel_end(self, client_id: str) -> None:
        """Cancel the expiry of a session."""
        self._ends.pop(client_id, None)

    def take_due(self, now: float, most: int) -> Iterator[tuple[str, Will | None]]:
        """Yield client ids with their due will, or with None if their session ends."""
        for _ in range(most):
            if not self._heap or self._heap[0][0] > now:
                return
            at, _, client_id, is_will = heapq.heappop(self._heap)
            if is_will:
                due, will = self._wills.get(client_id, (inf, None))
                if due == at:
                    del self._wills[client_id]
                    yield client_id, will
            elif self._ends.get(client_id) == at:
                del self._ends[client_id]
                yield client_id, None

    def next_timer(self) -> float | None:
        """The time of the first timer."""
        return self._heap[0][0] if self._heap else None
