"""The book of recent events: what `count()` counts, of the last few minutes.

Kept whether somebody counts or not, because whoever begins to count expects what was there
before, but without where a publisher is hidden. Bounded in number and in bytes; events are looked
into only once somebody counts.
"""

from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.event import Event
from nearcast.core.model.payload import LARGEST_JSON_PAYLOAD, attributes_of
from nearcast.core.rights import Rights


class RecentBook:
    """Recent events, the oldest first."""

    def __init__(self, matcher: Matcher, rights: Rights, most: int, most_bytes: int) -> None:
        self._matcher = matcher
        self._rights = rights
        self._most = most
        self._most_bytes = most_bytes
        self._events: deque[tuple[float, Event]] = deque()
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
        if self._bytes > self._most_bytes or len(noted) > self._most:
            while self._bytes > self._most_bytes or len(noted) > self._most:
                self._drop()

    def refresh(self) -> None:
        """Subscriptions changed: somebody may have begun to count, or the last one stopped."""
        if self._matcher.counting != self._counting:
            self._counting = self._matcher.counting
            self._matcher.world.recent.clear()
            if self._counting:
                for _, earlier in self._events:
                    self._put(earlier)

    def expire(self, before: float) -> None:
        """Forget what is older."""
        while self._events and self._events[0][0] < before:
            self._drop()

    def forget(self, node: str) -> None:
        """Forget what a node published."""
        for _ in range(len(self._events)):
            at, event = self._events.popleft()
            if event.publisher != node:
                self._events.append((at, event))
                continue
            self._bytes -= len(event.payload)
            if self._counting:
                self._matcher.world.recent.remove(_key(event))

    def _concealed(self, event: Event) -> Event:
        """The event, without its publisher's own position if that is hidden from some."""
        if event.position is None or event.at_given:
            return event
        return replace(event, position=None) if self._rights.conceals(event.publisher) else event

    def _put(self, event: Event) -> None:
        if not event.attributes and event.payload:
            event = replace(event, attributes=attributes_of(event.payload))
        self._matcher.world.recent.put(_key(event), event)

    def _drop(self) -> None:
        _, event = self._events.popleft()
        self._bytes -= len(event.payload)
        if self._counting:
            self._matcher.world.recent.remove(_key(event))


def _key(event: Event) -> str:
    return f"{event.publisher}\0{event.id}"
