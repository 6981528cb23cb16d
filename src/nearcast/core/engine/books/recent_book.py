"""The book of recent events: the events of the last minutes, for `count()`.

Kept even if no filter counts, because a new counting filter includes earlier events. Visibility is
decided when a filter counts, by the rights in force then. Bounded in number and in bytes; events
are parsed and indexed only while some filter counts, and events that came as columns stay columns
until then.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import accumulate, islice

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
    """Events that came together: all at one time, or columns with a time each."""

    events: Sequence[Event]
    at: float
    """Their time; for columns, that of the first."""
    nbytes: int
    """Bytes of the payloads that are left."""
    start: int = 0
    """The events before this one were dropped."""
    ends: Sequence[int] = ()
    """Bytes of the payloads up to and including each event; computed when some are dropped."""

    def __len__(self) -> int:
        return len(self.events) - self.start

    def count_before(self, before: float) -> int:
        """Return the number of leading events made before a time."""
        if isinstance(self.events, EventColumns):
            young = np.flatnonzero(self.events.times[self.start :] >= before)
            return int(young[0]) if len(young) else len(self)
        return len(self) if self.at < before else 0

    def count_of(self, nbytes: int) -> int:
        """Return how many leading events have so many bytes together; all if they have fewer."""
        if len(self) == 1:
            return 1
        found = bisect_left(self._sizes(), nbytes + self._dropped(), self.start)
        return min(found - self.start + 1, len(self))

    def drop(self, many: int) -> int:
        """Drop some leading events, but not all; return the bytes of their payloads."""
        assert many < len(self)
        before = self._dropped()
        self.start += many
        nbytes = self._sizes()[self.start - 1] - before
        self.nbytes -= nbytes
        if 2 * self.start > len(self.events):
            # The memory of the dropped half is released, so that each event is copied once.
            events, start = self.events, self.start
            if isinstance(events, EventColumns):
                self.events = events.part(start, len(events))
            else:
                self.events = events[start:]
            self.start, self.ends = 0, ()
        return nbytes

    def one_by_one(self) -> "Iterator[RecentEvents]":
        """Yield one entry per event."""
        times = [self.at] * len(self.events)
        if isinstance(self.events, EventColumns):
            times = self.events.times.tolist()
        for event, at in islice(zip(self.events, times, strict=True), self.start, None):
            yield RecentEvents((event,), at, len(event.payload))

    def without(self, node: str) -> "Iterable[RecentEvents]":
        """Return entries for the events of other nodes; itself if it has only such events."""
        events = self.events
        if isinstance(events, EventRun) or len(events) == 1:
            publisher = events.publisher if isinstance(events, EventRun) else events[0].publisher
            return () if publisher == node else (self,)
        if all(event.publisher != node for event in events):
            return (self,)
        return (one for one in self.one_by_one() if one.events[0].publisher != node)

    def _dropped(self) -> int:
        """Return the bytes of the payloads before `start`."""
        return self._sizes()[self.start - 1] if self.start else 0

    def _sizes(self) -> Sequence[int]:
        """Return `ends`, computed once."""
        if not self.ends:
            events = self.events
            if isinstance(events, EventColumns):
                self.ends = np.cumsum(events.sizes).tolist()
            elif isinstance(events, EventRun):
                self.ends = list(accumulate(map(len, events.payloads)))
            else:
                self.ends = list(accumulate(len(event.payload) for event in events))
        return self.ends


class RecentBook(EngineDependent):
    """Recent events, the oldest first."""

    def __init__(self, matcher: Matcher, settings: EngineSettings) -> None:
        self._matcher = matcher
        self._recent_s = settings.recent_s
        self._most = settings.recent_most
        self._most_bytes = settings.recent_most_bytes
        self._events: deque[RecentEvents] = deque()
        self._first = 0
        """The number of the oldest event; later ones are numbered consecutively."""
        self._count = 0
        self._bytes = 0
        self._counting = False

    def note(self, events: Sequence[Event], times: Sequence[float]) -> None:
        """Store events, each with its time."""
        for event, now in zip(events, times, strict=True):
            size = len(event.payload)
            if size > LARGEST_JSON_PAYLOAD:
                event, size = replace(event, payload=b""), 0
            if event.headers:
                # No filter reads them, and they may be much larger than the payload.
                event = replace(event, headers=b"")
            self._append(RecentEvents((event,), now, size))
        self._bound()

    def note_run(self, run: EventRun) -> None:
        """Store a run of events."""
        payloads = run.payloads
        count = len(payloads)
        nbytes = len(payloads[0]) if count == 1 else sum(map(len, payloads))
        if self._counting or (
            nbytes > LARGEST_JSON_PAYLOAD and max(map(len, payloads)) > LARGEST_JSON_PAYLOAD
        ):
            self.note(run, (run.time,) * count)
            return
        if run.headers:
            run = run.without_headers()
        # A run is an object that every garbage collection looks at; an event is not.
        events = (run[0],) if count == 1 else run
        self._events.append(RecentEvents(events, run.time, nbytes))
        self._count += count
        self._bytes += nbytes
        if self._bytes > self._most_bytes or self._count > self._most:
            self._bound()

    def note_columns(self, events: EventColumns) -> None:
        """Store events given as columns."""
        if self._counting or int(events.sizes.max(initial=0)) > LARGEST_JSON_PAYLOAD:
            self.note(events, events.times.tolist())
            self._forget_before(float(events.times.max()) - self._recent_s)
            return
        self._append(RecentEvents(events, float(events.times[0]), int(events.sizes.sum())))
        self._bound()
        self._forget_before(float(events.times.max()) - self._recent_s)

    def take_over(self, other: "RecentBook") -> None:
        """Take the events of another book, which is no longer used; no filter counts yet."""
        assert not self._count
        assert not self._counting
        self._events, self._count, self._bytes = other._events, other._count, other._bytes

    def in_force(self) -> Iterator[tuple[float, Event]]:
        """Return all events with their times as of now, oldest first."""
        held = [copy(each) for each in self._events]
        return ((one.at, one.events[0]) for each in held for one in each.one_by_one())

    def refresh(self) -> None:
        """Build or clear the index if the first filter began to count or the last one ended."""
        if self._matcher.counting != self._counting:
            self._counting = self._matcher.counting
            self._index()

    def events_made(
        self, events: Sequence[Event], times: Sequence[float], step: EngineStep
    ) -> None:
        """Store events that were matched."""
        self.note(events, times)
        self._forget_before(max(times) - self._recent_s)

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Drop the events of a node."""
        self._forget(node)

    def expire(self, step: EngineStep) -> None:
        """Drop events that are too old."""
        self._forget_before(step.now - self._recent_s)

    def _forget_before(self, before: float) -> None:
        while self._events and (old := self._events[0].count_before(before)):
            self._drop(old)

    def _forget(self, node: str) -> None:
        left = deque(some for each in self._events for some in each.without(node))
        count = sum(map(len, left))
        if count < self._count:
            self._events, self._count = left, count
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
        """Index all events if any filter counts."""
        self._matcher.world.recent.clear()
        if self._counting:
            for number, each in enumerate(self._one_by_one(), self._first):
                self._put(number, each.events[0])

    def _one_by_one(self) -> deque[RecentEvents]:
        """Split all entries into single events."""
        self._events = deque(one for each in self._events for one in each.one_by_one())
        return self._events

    def _bound(self) -> None:
        """Drop the oldest events until the limits are met."""
        while self._bytes > self._most_bytes or self._count > self._most:
            oldest, too_many = self._events[0], self._count - self._most
            if self._bytes > self._most_bytes:
                too_many = max(too_many, oldest.count_of(self._bytes - self._most_bytes))
            self._drop(min(too_many, len(oldest)))

    def _put(self, number: int, event: Event) -> None:
        if not event.attributes and event.payload:
            event = replace(event, attributes=attributes_of(event.payload))
        self._matcher.world.recent.put(str(number), event)

    def _drop(self, many: int) -> None:
        """Drop the first `many` events of the oldest entry."""
        oldest, number = self._events[0], self._first
        self._first += many
        self._count -= many
        if many < len(oldest):
            self._bytes -= oldest.drop(many)
            return
        self._events.popleft()
        self._bytes -= oldest.nbytes
        if self._counting:
            self._matcher.world.recent.remove(str(number))
