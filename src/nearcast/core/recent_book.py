"""The book of recent events: what `count()` counts, of the last few minutes.

Kept whether somebody counts or not, because whoever begins to count expects what was there
before, but without where a publisher is hidden. Bounded in number and in bytes; events are looked
into only once somebody counts, and until then those that came as columns stay columns.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.event import Event
from nearcast.core.model.event_columns import EventColumns
from nearcast.core.model.payload import LARGEST_JSON_PAYLOAD, attributes_of
from nearcast.core.rights import Rights


class RecentBook:
    """Recent events, the oldest first."""

    def __init__(self, matcher: Matcher, rights: Rights, most: int, most_bytes: int) -> None:
        self._matcher = matcher
        self._rights = rights
        self._most = most
        self._most_bytes = most_bytes
        self._events: deque[tuple[float, Event] | EventColumns] = deque()
        self._count = 0
        self._bytes = 0
        self._counting = False

    def note(self, events: Sequence[Event], times: Sequence[float]) -> None:
        """Remember events, each made at its time."""
        noted = self._events
        if self._rights.restricts:
            events = list(map(self._concealed, events))
        for event, now in zip(events, times, strict=True):
            size = len(event.payload)
            if size > LARGEST_JSON_PAYLOAD:
                event, size = replace(event, payload=b""), 0
            self._bytes += size
            noted.append((now, event))
            if self._counting:
                self._put(event)
        self._count += len(events)
        self._bound()

    def note_columns(self, events: EventColumns) -> None:
        """Remember events that are columns."""
        if self._counting or int(events.sizes.max(initial=0)) > LARGEST_JSON_PAYLOAD:
            self.note(events, events.times.tolist())
            return
        if self._rights.restricts:
            hidden = [name for name in events.publishers if self._rights.conceals(name)]
            events = events.hiding(hidden) if hidden else events
        self._events.append(events)
        self._count += len(events)
        self._bytes += int(events.sizes.sum())
        self._bound()

    def refresh(self) -> None:
        """Subscriptions changed: somebody may have begun to count, or the last one stopped."""
        if self._matcher.counting != self._counting:
            self._counting = self._matcher.counting
            self._matcher.world.recent.clear()
            if self._counting:
                for _, earlier in self._one_by_one():
                    self._put(earlier)

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
        events = self._one_by_one()
        for _ in range(len(events)):
            at, event = events.popleft()
            if event.publisher != node:
                events.append((at, event))
                continue
            self._count -= 1
            self._bytes -= len(event.payload)
            if self._counting:
                self._matcher.world.recent.remove(_key(event))

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

    def _concealed(self, event: Event) -> Event:
        """The event, without its publisher's own position if that is hidden from some."""
        if event.position is None or event.at_given:
            return event
        return replace(event, position=None) if self._rights.conceals(event.publisher) else event

    def _put(self, event: Event) -> None:
        if not event.attributes and event.payload:
            event = replace(event, attributes=attributes_of(event.payload))
        self._matcher.world.recent.put(_key(event), event)

    def _drop(self, many: int) -> None:
        """Forget so many of the oldest, which came together."""
        oldest = self._events.popleft()
        self._count -= many
        if isinstance(oldest, EventColumns):
            self._bytes -= int(oldest.sizes[:many].sum())
            if many < len(oldest):
                self._events.appendleft(oldest.part(many, len(oldest)))
            return
        event = oldest[1]
        self._bytes -= len(event.payload)
        if self._counting:
            self._matcher.world.recent.remove(_key(event))


def _key(event: Event) -> str:
    return f"{event.publisher}\0{event.id}"
