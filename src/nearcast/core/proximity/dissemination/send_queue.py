"""What a node has yet to send: the most urgent first, within its share of the channel."""

import heapq
import math

from msgspec import Struct

from nearcast.core.proximity.dissemination.admission import OVERHEAD_BYTES, TokenBucket
from nearcast.core.proximity.messages import Beacon, EventMessage, Message

LISTED_BYTES = 5
"""What the number of an event takes in a list, about."""


class Send(Struct, frozen=True):
    """A message for a group; None: for everybody who listens for beacons."""

    message: Message
    group: int | None = None


class SendQueue:
    """Messages that wait for their time, or for the channel."""

    def __init__(self, share: TokenBucket, most: int) -> None:
        self._share = share
        self._most = most
        self._delayed: list[tuple[float, int, int, float, Send]] = []
        self._ready: list[tuple[int, int, float, Send]] = []
        self._count = 0
        self._waits_until = math.inf
        self.overdue = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._ready) + len(self._delayed)

    def put(self, send: Send, due: float, priority: int, overdue_at: float = math.inf) -> None:
        """Add a message to send from a time on; after `overdue_at` it is not sent any more."""
        self._count += 1
        if len(self) >= self._most:
            self.dropped += 1
            return
        heapq.heappush(self._delayed, (due, self._count, priority, overdue_at, send))

    def take(self, now: float) -> list[Send]:
        """Return what is sent now, the most urgent first."""
        while self._delayed and self._delayed[0][0] <= now:
            _, count, priority, overdue_at, send = heapq.heappop(self._delayed)
            heapq.heappush(self._ready, (priority, count, overdue_at, send))
        found: list[Send] = []
        self._waits_until = math.inf
        while self._ready:
            _, _, overdue_at, send = self._ready[0]
            if overdue_at < now:
                heapq.heappop(self._ready)
                self.overdue += 1
                continue
            size = size_of(send.message)
            if not self._share.take(size, now):
                self._waits_until = now + max(self._share.wait_s(size, now), 1e-6)
                break
            heapq.heappop(self._ready)
            found.append(send)
        return found

    @property
    def wake_at(self) -> float:
        """When `take` is due."""
        at = self._delayed[0][0] if self._delayed else math.inf
        return min(at, self._waits_until) if self._ready else at


def size_of(message: Message) -> float:
    """Return about how many bytes a message takes on the channel."""
    if isinstance(message, EventMessage):
        beacon_size = 0.0 if message.beacon is None else size_of(message.beacon)
        return OVERHEAD_BYTES + len(message.payload) + beacon_size
    if isinstance(message, Beacon):
        return 2.0 * OVERHEAD_BYTES + len(message.area)
    return OVERHEAD_BYTES + LISTED_BYTES * sum(len(each[3]) for each in message.events)
