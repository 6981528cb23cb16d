"""The book of recent events: what `count()` counts, of the last few minutes.

Kept whether somebody counts or not, because whoever begins to count expects what was there
before. Who may know of which of them is decided when somebody counts, by the rights of then.
Bounded in number and in bytes; events are looked into only once somebody counts, and until then
those that came as columns stay columns.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.event import Event
from nearcast.core.model.event_columns import EventColumns
from nearcast.core.model.payload import LARGEST_JSON_PAYLOAD, attributes_of


class RecentBook:
    """Recent events, the oldest first."""

    def __init__(self, matcher: Matcher, most: int, most_bytes: int) -> None:
        self._matcher = matcher
        self._most = most
        self._most_bytes = most_bytes
        self._events: deque[tuple[float, Event] | EventColumns] = deque()
        self._first = 0
        """The number of the oldest; those that follow are numbered on."""
        self._count = 0
        self._bytes = 0
        self._counting = False

    def note(self, events: Sequence[Event], times: Sequence[float]) -> None:
        """Remember events, each made at its time."""
        noted = self._events
        for event, now in zip(events, times, strict=True):
            size = len(event.payload)
            if size > LARGEST_JSON_PAYLOAD:
                event, size = replace(event, payload=b""), 0
            self._bytes += size
            noted.append((now, event))
            if self._counting:
                self._put(self._first + self._count, event)
            self._count += 1
        self._bound()

    def note_columns(self, events: EventColumns) -> None:
        """Remember events that are columns."""
        if self._counting or int(events.sizes.max(initial=0)) > LARGEST_JSON_PAYLOAD:
            self.note(events, events.times.tolist())
            return
        self._events.append(events)
        self._count += len(events)
        self._bytes += int(events.sizes.sum())
        self._bound()

    def take_over(self, other: "RecentBook") -> None:
        """Remember what another book does, which is of no more use; nobody counts yet."""
        assert not self._count
        assert not self._counting
        self._events, self._count, self._bytes = other._events, other._count, other._bytes

    def refresh(self) -> None:
        """Subscriptions changed: somebody may have begun to count, or the last one stopped."""
        if self._matcher.counting != self._counting:
            self._counting = self._matcher.counting
            self._index()

    def expire(self, before: float) -> None:
        """Forget what is older."""
        while self._events:
            oldest = self._events[0]
            if isinstance(oldest, EventColumns):
                young = np.flatnonzero(oldest.times >= before)
                old = int(young[0]) if len(young) else len(oldest)
            else:
                old = int(oldest[0] < before)
            if not old:
                break
            self._drop(old)

    def forget(self, node: str) -> None:
        """Forget what a node published."""
        left = [each for each in self._one_by_one() if each[1].publisher != node]
        if len(left) < self._count:
            self._events = deque(left)
            self._count = len(left)
            self._bytes = sum(len(event.payload) for _, event in left)
            self._index()

    def _index(self) -> None:
        """Let filters find all of them, if any filter counts."""
        self._matcher.world.recent.clear()
        if self._counting:
            for number, (_, event) in enumerate(self._one_by_one(), self._first):
                self._put(number, event)

    def _one_by_one(self) -> deque[tuple[float, Event]]:
        """All of them, none as columns from now on."""
        found: deque[tuple[float, Event]] = deque()
        for each in self._events:
            if isinstance(each, EventColumns):
                found.extend(zip(each.times.tolist(), each, strict=True))
            else:
                found.append(each)
        self._events = found  # type: ignore[assignment]  # all of one kind will do
        return found

    def _bound(self) -> None:
        """Forget the oldest of what is too much."""
        while self._bytes > self._most_bytes or self._count > self._most:
            oldest, many = self._events[0], 1
            if isinstance(oldest, EventColumns):
                room = self._bytes - np.cumsum(oldest.sizes)
                enough = (room <= self._most_bytes) & (
                    self._count - np.arange(1, len(oldest) + 1) <= self._most
                )
                many = int(enough.argmax()) + 1 if enough.any() else len(oldest)
            self._drop(many)

    def _put(self, number: int, event: Event) -> None:
        if not event.attributes and event.payload:
            event = replace(event, attributes=attributes_of(event.payload))
        self._matcher.world.recent.put(str(number), event)

    def _drop(self, many: int) -> None:
        """Forget so many of the oldest, which came together."""
        oldest = self._events.popleft()
        number = self._first
        self._first += many
        self._count -= many
        if isinstance(oldest, EventColumns):
            self._bytes -= int(oldest.sizes[:many].sum())
            if many < len(oldest):
                self._events.appendleft(oldest.part(many, len(oldest)))
            return
        self._bytes -= len(oldest[1].payload)
        if self._counting:
            self._matcher.world.recent.remove(str(number))
