"""Fair queueing by virtual time: whoever has been served least is next.

A share has a virtual time, which its costs advance; costs are charged when they are known, mostly
after the work. The waiting share with the least virtual time is served first. A share that had
nothing waiting continues at the virtual time of the queue, so unused service is not saved up, and
such a share is served before all that have had more. Once nothing waits, all shares are equal
again: what was used without competition is not held against anyone.

Two shares that both wait all the time differ in service by at most one piece of work of each.
"""

import heapq
from typing import Generic, TypeVar

ShareType = TypeVar("ShareType", bound="Share")


class Share:
    """One competitor: what it has used, as virtual time."""

    __slots__ = ("is_waiting", "time")

    def __init__(self) -> None:
        self.time = 0.0
        self.is_waiting = False


class FairQueue(Generic[ShareType]):
    """Shares with waiting work."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ShareType]] = []
        """Virtual time, order of arrival, share. A time may be outdated: shares move on."""
        self._time = 0.0
        """The virtual time of the share that was first last."""
        self._latest = 0.0
        self._pushed = 0
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, share: ShareType) -> None:
        """Add a share whose work waits, unless it is there already."""
        if share.is_waiting:
            return
        share.is_waiting = True
        self._waiting += 1
        if share.time < self._time:
            share.time = self._time
        self._push(share)

    def remove(self, share: ShareType) -> None:
        """Remove a share whose work is done, if it is there."""
        if share.is_waiting:
            share.is_waiting = False
            self._waiting -= 1
            if not self._waiting:
                self._heap.clear()

    def charge(self, share: ShareType, cost: float) -> None:
        """Charge a share, waiting or not, for work done."""
        if share.time < self._time:
            share.time = self._time
        share.time += cost
        if share.time > self._latest:
            self._latest = share.time

    def first(self) -> ShareType | None:
        """The share to serve next; it stays in the queue. None if nothing waits."""
        heap = self._heap
        while heap:
            time, _, share = heap[0]
            if share.is_waiting and share.time == time:
                self._time = time
                return share
            heapq.heappop(heap)
            if share.is_waiting:
                self._push(share)
        return None

    def forgive(self) -> None:
        """Make all shares equal if nothing waits."""
        if not self._waiting:
            self._time = self._latest

    def _push(self, share: ShareType) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (share.time, self._pushed, share))
        if len(self._heap) > 64 + 2 * self._waiting:
            # Entries of shares that came and went.
            latest = {entry[2]: entry for entry in self._heap if entry[2].is_waiting}
            self._heap = list(latest.values())
            heapq.heapify(self._heap)
