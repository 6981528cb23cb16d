"""The book of recent events: what `count()` counts, of the last few minutes.

Kept whether somebody counts or not, because whoever begins to count expects what was there
before. Who may know of which of them is decided when somebody counts, by the rights of then.
Bounded in number and in bytes; events are looked into only once somebody counts, and until then
those that came as columns stay columns.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.engine.dependent import EngineDependent
from nearcast.core.engine.outcome import EngineStep
from nearcast.core.engine.settings import EngineSettings
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.event import Event
from nearcast.core.model.event_columns import EventColumns
from nearcast.core.model.event_run import EventRun
from nearcast.core.model.payload import LARGEST_JSON_PAYLOAD, attributes_of


class RecentEvents(Struct, gc=False):
    """Events that came together: all at one time, or columns with the time of each."""

    events: Sequence[Event]
    at: float
    """When they were made; of columns, when the first was."""
    nbytes: int
    """Bytes of their payloads."""

    def count_before(self, before: float) -> int:
        """Return how many of the first were made before a time."""
        if isinstance(self.events, EventColumns):
            young = np.flatnonzero(self.events.times >= before)
            return int(young[0]) if len(young) else len(self.events)
        return len(self.events) if self.at < before else 0

    def sizes(self) -> list[int]:
        """Return the bytes of each payload."""
        events = self.events
        if isinstance(events, EventColumns):
            found: list[int] = events.sizes.tolist()
            return found
        if isinstance(events, EventRun):
            return list(map(len, events.payloads))
        return [len(event.payload) for event in events]

    def one_by_one(self) -> "Iterator[RecentEvents]":
        """Yield the same, each event apart."""
        times = [self.at] * len(self.events)
        if isinstance(self.events, EventColumns):
            times = self.events.times.tolist()
        for event, at in zip(self.events, times, strict=True):
            yield RecentEvents((event,), at, len(event.payload))

    def without_first(self, many: int, nbytes: int) -> "RecentEvents":
        """Return the same without the first, which have so many bytes."""
        events = self.events
        if isinstance(events, EventColumns):
            rest = events.part(many, len(events))
            return RecentEvents(rest, float(rest.times[0]), self.nbytes - nbytes)
        return RecentEvents(events[many:], self.at, self.nbytes - nbytes)


class RecentBook(EngineDependent):
    """Recent events, the oldest first."""

    def __init__(self, matcher: Matcher, settings: EngineSettings) -> None:
        self._matcher = matcher
        self._recent_s = settings.recent_s
        self._most = settings.recent_most
        self._most_bytes = settings.recent_most_bytes
        self._events: deque[RecentEvents] = deque()
        self._first = 0
        """The number of the oldest; those that follow are numbered on."""
        self._count = 0
        self._bytes = 0
        self._counting = False

    def note(self, events: Sequence[Event], times: Sequence[float]) -> None:
        """Remember events, each made at its time."""
        for event, now in zip(events, times, strict=True):
            size = len(event.payload)
            if size > LARGEST_JSON_PAYLOAD:
                event, size = replace(event, payload=b""), 0
            self._append(RecentEvents((event,), now, size))
        self._bound()

    def note_run(self, run: EventRun) -> None:
        """Remember a run."""
        sizes = list(map(len, run.payloads))
        if self._counting or max(sizes) > LARGEST_JSON_PAYLOAD:
            self.note(run, (run.time,) * len(run))
            return
        self._append(RecentEvents(run, run.time, sum(sizes)))
        self._bound()

    def note_columns(self, events: EventColumns) -> None:
        """Remember events that are columns."""
        if self._counting or int(events.sizes.max(initial=0)) > LARGEST_JSON_PAYLOAD:
            self.note(events, events.times.tolist())
            self._forget_before(float(events.times.max()) - self._recent_s)
            return
        self._append(RecentEvents(events, float(events.times[0]), int(events.sizes.sum())))
        self._bound()
        self._forget_before(float(events.times.max()) - self._recent_s)

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

    def events_made(
        self, events: Sequence[Event], times: Sequence[float], step: EngineStep
    ) -> None:
        """Remember events that were matched."""
        self.note(events, times)
        self._forget_before(max(times) - self._recent_s)

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Forget what a node published."""
        self._forget(node)

    def expire(self, step: EngineStep) -> None:
        """Forget what is too old."""
        self._forget_before(step.now - self._recent_s)

    def _forget_before(self, before: float) -> None:
        while self._events and (old := self._events[0].count_before(before)):
            self._drop(old)

    def _forget(self, node: str) -> None:
        left = [each for each in self._one_by_one() if each.events[0].publisher != node]
        if len(left) < self._count:
            self._events = deque(left)
            self._count = len(left)
            self._bytes = sum(each.nbytes for each in left)
            self._index()

    def _append(self, some: RecentEvents) -> None:
        self._events.append(some)
        if self._counting:
            for number, event in enumerate(some.events, self._first + self._count):
                self._put(number, event)
        self._count += len(some.events)
        self._bytes += some.nbytes

    def _index(self) -> None:
        """Let filters find all of them, if any filter counts."""
        self._matcher.world.recent.clear()
        if self._counting:
            for number, each in enumerate(self._one_by_one(), self._first):
                self._put(number, each.events[0])

    def _one_by_one(self) -> deque[RecentEvents]:
        """All of them, each apart from now on."""
        self._events = deque(one for each in self._events for one in each.one_by_one())
        return self._events

    def _bound(self) -> None:
        """Forget the oldest of what is too much."""
        while self._bytes > self._most_bytes or self._count > self._most:
            oldest = self._events[0]
            if len(oldest.events) == 1:
                self._drop(1)
                continue
            room = self._bytes - np.cumsum(oldest.sizes())
            enough = (room <= self._most_bytes) & (
                self._count - np.arange(1, len(oldest.events) + 1) <= self._most
            )
            self._drop(int(enough.argmax()) + 1 if enough.any() else len(oldest.events))

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
        if many < len(oldest.events):
            nbytes = sum(oldest.sizes()[:many])
            self._bytes -= nbytes
            self._events.appendleft(oldest.without_first(many, nbytes))
            return
        self._bytes -= oldest.nbytes
        if self._counting:
            self._matcher.world.recent.remove(str(number))
