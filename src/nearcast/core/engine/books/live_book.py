"""The book of live events: their keys, expiries, and the sessions that have seen them.

Retained, valid and object events are one concept: a key (the subject if retained, the object, else
the id), an expiry, a position and a target. Objects and ids are per publisher, except on subjects
with shared objects, where an object is the same for all publishers. A subscription that matches a
live event later gets it, once per version. A target that moves with a node moves the event with it.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence

from nearcast.core.engine.engine_inputs import LiveEvent
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.event import Event
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.geometry.area import ME, Around, PlaceArea, PlaceHere
from nearcast.core.model.subject import subject_matches

Met = tuple[Event, int, int]
"""An event, the number of a subscription that it matches, and the priority."""


class LiveBook:
    """Live events by key."""

    def __init__(self, matcher: Matcher, shared: Sequence[str] = ()) -> None:
        self._matcher = matcher
        self._shared = tuple(shared)
        """Subject patterns whose objects have one key for all publishers."""
        self._expiries: list[tuple[float, str, int]] = []
        self._versions: dict[str, int] = {}
        self._expires: dict[str, float] = {}
        self._kept = 0
        self._seen: dict[str, set[str]] = {}
        self._seen_by: dict[str, set[str]] = {}
        self._missed: dict[str, set[str]] = {}
        """By session: keys of live events that did not reach it."""
        self._named: set[str] = set()
        self._floating: set[str] = set()
        """Valid and object events without a target."""
        self._anchored: dict[str, set[str]] = {}
        self._by: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._versions)

    def key(self, event: Event) -> str:
        """Return the key under which an event is kept."""
        if event.retain:
            return f"retained\0{event.subject}"
        if event.object is not None:
            for pattern in self._shared:
                if subject_matches(pattern, event.subject):
                    # No publisher has an empty name.
                    return f"object\0\0{pattern}\0{event.object}"
            return f"object\0{event.publisher}\0{event.object}"
        return f"id\0{event.publisher}\0{event.id}"

    def keep(self, event: Event, now: float) -> bool:
        """Keep an event that stays; return whether it does."""
        if not event.stays or event.valid_s == 0.0:
            return False
        self._keep(event, None if event.valid_s is None else now + event.valid_s)
        return True

    def resume(self, event: Event, expires: float | None, seen: Iterable[str]) -> None:
        """Restore a live event, which these sessions have seen."""
        self._keep(event, expires)
        for session in seen:
            self.seen(event, session)

    def kept(self) -> Iterator[tuple[Event, float | None, set[str]]]:
        """Yield all live events, oldest first, each with its expiry and its holders."""
        for key in self._in_order(self._versions):
            event = self._matcher.live.get(key)
            assert event is not None
            have = {each for each in self._seen[key] if key not in self._missed.get(each, ())}
            yield event, self._expires.get(key), have

    def in_force(self) -> Iterator[LiveEvent]:
        """Yield all live events, oldest first, each with the sessions that have or missed it."""
        for key in self._in_order(self._versions):
            event = self._matcher.live.get(key)
            assert event is not None
            yield LiveEvent(event, self._expires.get(key), frozenset(self._seen[key]))

    def missed(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield sessions with keys and ids of the live events that they missed, oldest first."""
        for session, keys in self._missed.items():
            events = ((key, self._matcher.live.get(key)) for key in self._in_order(keys))
            yield session, [(key, event.id) for key, event in events if event is not None]

    def _keep(self, event: Event, expires: float | None) -> None:
        key = self.key(event)
        self._forget(key)
        self._matcher.live.put(key, event)
        self._seen[key] = set()
        self._kept += 1
        self._versions[key] = self._kept
        self._by.setdefault(event.publisher, set()).add(key)
        if (anchor := _anchor(event)) is not None:
            self._anchored.setdefault(anchor, set()).add(key)
        if isinstance(event.to, PlaceArea | PlaceHere):
            self._named.add(key)
        if event.to is None and not event.retain:
            self._floating.add(key)
        if expires is not None:
            self._expires[key] = expires
            heapq.heappush(self._expiries, (expires, key, self._kept))
            if len(self._expiries) > 64 + 2 * len(self._versions):
                self._expiries = [
                    each for each in self._expiries if self._versions.get(each[1]) == each[2]
                ]
                heapq.heapify(self._expiries)

    def withdraw(self, event: Event) -> bool:
        """End the live event under an event's key; return whether there was one."""
        return self._forget(self.key(event))

    def published_by(self, node: str) -> list[str]:
        """End all live events of a node; return their keys."""
        return [key for key in self._in_order(self._by.get(node, ())) if self._forget(key)]

    def expire(self, now: float) -> list[str]:
        """End events that are no longer valid; return their keys."""
        gone = []
        while self._expiries and self._expiries[0][0] <= now:
            _, key, version = heapq.heappop(self._expiries)
            if self._versions.get(key) == version and self._forget(key):
                gone.append(key)
        return gone

    def expiry(self, key: str) -> float | None:
        """The expiry time of a live event, None if it has none."""
        return self._expires.get(key)

    def next_expiry(self) -> float | None:
        """The time of the next expiry."""
        while self._expiries and self._versions.get(self._expiries[0][1]) != self._expiries[0][2]:
            heapq.heappop(self._expiries)
        return self._expiries[0][0] if self._expiries else None

    def seen(self, event: Event, session: str) -> bool:
        """Record that a session gets an event; False if it already had this version."""
        sessions = self._seen.get(self.key(event))
        if sessions is None or self._matcher.live.get(self.key(event)) is not event:
            return True
        if session in sessions:
            return False
        sessions.add(session)
        self._seen_by.setdefault(session, set()).add(self.key(event))
        return True

    def has(self, event: Event, session: str) -> bool:
        """True if a session has this version of an event."""
        key = self.key(event)
        return (
            self._matcher.live.get(key) is event
            and session in self._seen[key]
            and key not in self._missed.get(session, ())
        )

    def holders(self, event: Event) -> set[str]:
        """The sessions that have the live event under an event's key."""
        key = self.key(event)
        have = self._seen.get(key, ())
        return {each for each in have if key not in self._missed.get(each, ())}

    def miss(self, key: str, name: str, session: str) -> None:
        """Record that a session missed a live event, given its key and the id of its version."""
        event = self._matcher.live.get(key)
        if event is not None and event.id == name and session in self._seen[key]:
            self._missed.setdefault(session, set()).add(key)

    def missed_by(self, session: str) -> list[Event]:
        """Return the live events a session missed, and mark them as not seen by it."""
        found: list[Event] = []
        for key in self._in_order(self._missed.pop(session, ())):
            self._seen[key].discard(session)
            self._seen_by[session].discard(key)
            if not self._seen_by[session]:
                del self._seen_by[session]
            event = self._matcher.live.get(key)
            assert event is not None
            found.append(event)
        return found

    def forget(self, session: str) -> None:
        """Drop the state of an ended session: all live events are new to it if it returns."""
        self._missed.pop(session, None)
        for key in self._seen_by.pop(session, ()):
            self._seen[key].discard(session)

    def met_by(
        self, node: str, numbers: Sequence[int] | None = None, aimed: Collection[int] = ()
    ) -> Iterator[Met]:
        """Live events that match a node now, or some of its subscriptions, oldest version first.

        For subscriptions in `aimed` only events with a target are checked. The order must not
        depend on the index, which would reveal hidden positions.
        """
        if not len(self._matcher.live):
            return
        if numbers is not None:
            matcher = self._matcher
            found = [(number, *each) for number in numbers for each in matcher.live_for(number)]
        else:
            found = self._matcher.live_for_node(node, aimed)
        found.sort(key=lambda each: self._versions[self.key(each[1])])
        for wanted, event, priority in found:
            yield event, wanted, priority

    def met_through(self, node: str) -> Iterator[Met]:
        """Matches of live events that a node published or that are anchored to it."""
        return self._met_anew(self._by.get(node, set()) | self._anchored.get(node, set()))

    def met_again(self) -> Iterator[Met]:
        """Matches of all live events, after all rights may have changed."""
        return self._met_anew(self._versions)

    def met_plainly(self, number: int, pattern: str) -> Iterator[Met]:
        """Live events for a subscription without area and filter, without retained messages.

        Retained messages follow the rules of MQTT, unless they have a target.
        """
        found = [event for event, _ in self._matcher.live_for(number, aimed=True)]
        floating = (self._matcher.live.get(key) for key in self._floating)
        found += [e for e in floating if e is not None and subject_matches(pattern, e.subject)]
        return ((event, number, 1) for event in found)

    def in_order(self, events: Iterable[Event]) -> list[Event]:
        """Return live events without duplicates, oldest version first."""
        by_version = {self._versions[self.key(event)]: event for event in events}
        return [by_version[version] for version in sorted(by_version)]

    def overtaken_by(self, node: str) -> Iterator[Met]:
        """Matches of live events whose target moves with a node."""
        return self._met_anew(self._anchored.get(node, ()))

    def met_in_named_places(self) -> Iterator[Met]:
        """Matches of live events whose target is a named place."""
        return self._met_anew(self._named)

    def _met_anew(self, keys: Collection[str]) -> Iterator[Met]:
        for key in self._in_order(keys):
            self._matcher.live.aim_again(key)
            event = self._matcher.live.get(key)
            if event is not None:
                matches = self._matcher.match(EventBatch.of([event]))
                numbers, priorities = matches.subscription.tolist(), matches.priority.tolist()
                for number, priority in zip(numbers, priorities, strict=True):
                    yield event, number, priority

    def _in_order(self, keys: Iterable[str]) -> list[str]:
        return sorted(keys, key=self._versions.__getitem__)

    def _forget(self, key: str) -> bool:
        event = self._matcher.live.get(key)
        if event is None:
            return False
        self._matcher.live.remove(key)
        for session in self._seen.pop(key):
            self._seen_by[session].discard(key)
            if not self._seen_by[session]:
                del self._seen_by[session]
            missed = self._missed.get(session)
            if missed is not None:
                missed.discard(key)
                if not missed:
                    del self._missed[session]
        del self._versions[key]
        self._expires.pop(key, None)
        self._by[event.publisher].discard(key)
        if not self._by[event.publisher]:
            del self._by[event.publisher]
        self._named.discard(key)
        self._floating.discard(key)
        if (anchor := _anchor(event)) is not None:
            self._anchored[anchor].discard(key)
            if not self._anchored[anchor]:
                del self._anchored[anchor]
        return True


def _anchor(event: Event) -> str | None:
    """The node with which an event's target moves."""
    if isinstance(event.to, Around):
        return event.publisher if event.to.anchor == ME else event.to.anchor
    return event.publisher if isinstance(event.to, PlaceHere) else None
