"""The book of live events: what is live under which key, until when, and who has seen it.

Retained, valid and object events are one idea: a key (the subject if retained, the object, else
the id), an expiry, a position and a target. Whoever comes to match one later gets it, once per
version. A target that moves with a node takes the event along.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator

from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.area import ME, Around, PlaceArea, PlaceHere
from nearcast.core.model.event import Event
from nearcast.core.model.event_batch import EventBatch

Met = tuple[Event, int, int]
"""An event, the number of a subscription that it concerns, and the priority."""


class LiveBook:
    """Live events by key."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._expiries: list[tuple[float, str, int]] = []
        self._versions: dict[str, int] = {}
        self._expires: dict[str, float] = {}
        self._kept = 0
        self._seen: dict[str, set[str]] = {}
        self._seen_by: dict[str, set[str]] = {}
        self._named: set[str] = set()
        self._anchored: dict[str, set[str]] = {}

    def key(self, event: Event) -> str:
        """Under what an event is kept."""
        if event.retain:
            return f"retained\0{event.subject}"
        if event.object is not None:
            return f"object\0{event.publisher}\0{event.object}"
        return f"id\0{event.publisher}\0{event.id}"

    def keep(self, event: Event, now: float) -> bool:
        """Keep an event that stays; whether it does."""
        if not event.stays or event.valid_s == 0.0:
            return False
        self._keep(event, None if event.valid_s is None else now + event.valid_s)
        return True

    def resume(self, event: Event, expires: float | None, seen: Iterable[str]) -> None:
        """Go on keeping an event, which these sessions have seen."""
        self._keep(event, expires)
        for session in seen:
            self.seen(event, session)

    def _keep(self, event: Event, expires: float | None) -> None:
        key = self.key(event)
        self._forget(key)
        self._matcher.live.put(key, event)
        self._seen[key] = set()
        self._kept += 1
        self._versions[key] = self._kept
        if (anchor := _anchor(event)) is not None:
            self._anchored.setdefault(anchor, set()).add(key)
        if isinstance(event.to, PlaceArea | PlaceHere):
            self._named.add(key)
        if expires is not None:
            self._expires[key] = expires
            heapq.heappush(self._expiries, (expires, key, self._kept))
            if len(self._expiries) > 64 + 2 * len(self._versions):
                self._expiries = [
                    each for each in self._expiries if self._versions.get(each[1]) == each[2]
                ]
                heapq.heapify(self._expiries)

    def withdraw(self, event: Event) -> bool:
        """End what is live under an event's key; whether there was anything."""
        return self._forget(self.key(event))

    def published_by(self, node: str) -> list[str]:
        """End all that a node keeps alive; the keys."""
        keys = [key for key in self._versions if self._is_by(key, node)]
        return [key for key in keys if self._forget(key)]

    def _is_by(self, key: str, node: str) -> bool:
        event = self._matcher.live.get(key)
        return event is not None and event.publisher == node

    def expire(self, now: float) -> list[str]:
        """End what is no longer valid; the keys."""
        gone = []
        while self._expiries and self._expiries[0][0] <= now:
            _, key, version = heapq.heappop(self._expiries)
            if self._versions.get(key) == version and self._forget(key):
                gone.append(key)
        return gone

    def expiry(self, key: str) -> float | None:
        """When a live event ends."""
        return self._expires.get(key)

    def next_expiry(self) -> float | None:
        """When the next event ends."""
        while self._expiries and self._versions.get(self._expiries[0][1]) != self._expiries[0][2]:
            heapq.heappop(self._expiries)
        return self._expiries[0][0] if self._expiries else None

    def seen(self, event: Event, session: str) -> bool:
        """A session gets an event; False if it already had this version of it."""
        sessions = self._seen.get(self.key(event))
        if sessions is None or self._matcher.live.get(self.key(event)) is not event:
            return True
        if session in sessions:
            return False
        sessions.add(session)
        self._seen_by.setdefault(session, set()).add(self.key(event))
        return True

    def forget(self, session: str) -> None:
        """A session ended: what it had seen is new to it when it comes back."""
        for key in self._seen_by.pop(session, ()):
            self._seen[key].discard(session)

    def met_by(self, node: str, number: int | None = None) -> Iterator[Met]:
        """Live events that concern a node now, or just one of its subscriptions."""
        if not len(self._matcher.live):
            return
        if number is not None:
            for event, priority in self._matcher.live_for(number):
                yield event, number, priority
            return
        for found, event, priority in self._matcher.live_for_node(node):
            yield event, found, priority

    def overtaken_by(self, node: str) -> Iterator[Met]:
        """What a node's move brings to others: live events whose target moves with it."""
        return self._met_anew(self._anchored.get(node, ()))

    def met_in_named_places(self) -> Iterator[Met]:
        """What a change of places brings: live events whose target is a named place."""
        return self._met_anew(self._named)

    def _met_anew(self, keys: Collection[str]) -> Iterator[Met]:
        for key in keys:
            self._matcher.live.aim_again(key)
            event = self._matcher.live.get(key)
            if event is not None:
                matches = self._matcher.match(EventBatch.of([event]))
                numbers, priorities = matches.subscription.tolist(), matches.priority.tolist()
                for number, priority in zip(numbers, priorities, strict=True):
                    yield event, number, priority

    def _forget(self, key: str) -> bool:
        event = self._matcher.live.get(key)
        if event is None:
            return False
        self._matcher.live.remove(key)
        for session in self._seen.pop(key):
            self._seen_by[session].discard(key)
            if not self._seen_by[session]:
                del self._seen_by[session]
        del self._versions[key]
        self._expires.pop(key, None)
        self._named.discard(key)
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
