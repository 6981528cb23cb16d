"""The book of live events: their keys, expiries, and the sessions that have seen them.

Retained, valid and object events are one concept: a key (the subject if retained, the object, else
the id), an expiry, a position and a target. Objects and ids are per publisher, except on subjects
with shared objects, where an object is the same for all publishers. A subscription that matches a
live event later gets it, once per version. A target that moves with a node moves the event with it.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from nearcast.core.engine.books.missed_events import MissedEvents
from nearcast.core.engine.engine_inputs import LiveEvent
from nearcast.core.matching.matcher import LiveMatches, Matcher, joined_matches
from nearcast.core.matching.tables import I32
from nearcast.core.model.event import Event
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.geometry.area import ME, Around, PlaceArea, PlaceHere
from nearcast.core.model.subject import subject_matches, subject_test

Met = tuple[Event, int, int]
"""An event, the number of a subscription that it matches, and the priority."""
MATCHED_AT_ONCE = 4_096


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
        self._seen = matcher.live.seen
        self._missed: dict[str, MissedEvents] = {}
        """By session: live events that did not reach it."""
        self._named: set[str] = set()
        self._floating: set[str] = set()
        """Valid and object events without a target."""
        self._anchored: dict[str, set[str]] = {}
        self._by: dict[str, dict[str, None]] = {}
        """Keys by publisher, oldest version first."""

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
        self.mark_seen(event, list(seen))

    def kept(self) -> Iterator[tuple[Event, float | None, set[str]]]:
        """Yield all live events, oldest first, each with its expiry and its holders."""
        for key in self._in_order(self._versions):
            event = self._matcher.live.get(key)
            assert event is not None
            yield event, self._expires.get(key), self._holders(key)

    def in_force(self) -> Iterator[LiveEvent]:
        """Yield all live events, oldest first, each with the sessions that have or missed it."""
        for key in self._in_order(self._versions):
            event = self._matcher.live.get(key)
            assert event is not None
            yield LiveEvent(event, self._expires.get(key), frozenset(self._sessions(key)))

    def missed(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield sessions with keys and ids of the live events that they missed, oldest first."""
        live = self._matcher.live
        for session, missed in self._missed.items():
            rows = missed.in_order().tolist()
            yield session, [(live.key_at(row), live.event_at(row).id) for row in rows]

    def _keep(self, event: Event, expires: float | None) -> None:
        key = self.key(event)
        self._forget(key)
        self._matcher.live.put(key, event)
        self._kept += 1
        self._versions[key] = self._kept
        self._by.setdefault(event.publisher, {})[key] = None
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

    def count_of(self, node: str) -> int:
        """The number of live events of a node."""
        return len(self._by.get(node, ()))

    def published_by(self, node: str, most: int = 0) -> list[str]:
        """End the live events of a node, with `most` so many of the oldest; return their keys."""
        keys = list(islice(self._by.get(node, ()), most or None))
        if not self._missed:
            # What sessions missed is found by who has seen it.
            rows = map(self._matcher.live.row, keys)
            self._seen.forget_events([row for row in rows if row is not None])
        return [key for key in keys if self._forget(key)]

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

    def mark_seen(self, event: Event, sessions: Sequence[str]) -> None:
        """Record that sessions get an event, if it is live."""
        key = self.key(event)
        row = self._matcher.live.row(key)
        if row is not None and self._matcher.live.event_at(row) is event:
            self._seen.mark(np.full(len(sessions), row, np.int32), sessions)

    def has(self, event: Event, session: str) -> bool:
        """True if a session has this version of an event."""
        key = self.key(event)
        row = self._matcher.live.row(key)
        return (
            row is not None
            and self._matcher.live.event_at(row) is event
            and self._seen.has(row, session)
            and row not in self._missed.get(session, ())
        )

    def holders(self, event: Event) -> set[str]:
        """The sessions that have the live event under an event's key."""
        return self._holders(self.key(event))

    def _holders(self, key: str) -> set[str]:
        row, missed = self._matcher.live.row(key), self._missed
        if row is None:
            return set()
        return {each for each in self._seen.sessions(row) if row not in missed.get(each, ())}

    def _sessions(self, key: str) -> set[str]:
        """The sessions that have got or missed a live event."""
        row = self._matcher.live.row(key)
        return set() if row is None else self._seen.sessions(row)

    def miss(self, key: str, name: str, session: str) -> None:
        """Record that a session missed a live event, given its key and the id of its version."""
        live = self._matcher.live
        row = live.row(key)
        if row is not None and live.event_at(row).id == name and self._seen.has(row, session):
            self._missed_of(session).add(row)

    def defer(self, session: str, rows: I32) -> None:
        """Record live events that are to be brought to a session later.

        Distinct ones, given with the oldest version first.
        """
        self._missed_of(session).add_in_order(rows)
        self._seen.mark_for(rows, session)

    def put_back(self, session: str, rows: I32) -> None:
        """Record live events again that were just taken out of what a session missed."""
        if len(rows):
            self._missed_of(session).put_back(rows)
            self._seen.mark_for(rows, session)

    def _missed_of(self, session: str) -> MissedEvents:
        missed = self._missed.get(session)
        if missed is None:
            missed = self._missed[session] = MissedEvents(self._matcher.live)
        return missed

    @property
    def has_missed(self) -> bool:
        """True if there are live events that did not reach some session."""
        return bool(self._missed)

    def is_behind(self, session: str) -> bool:
        """True if there are live events that did not reach a session."""
        return session in self._missed

    def is_deferred(self, subject: str) -> bool:
        """True if a live event on a subject has still to be brought to some session."""
        if not self._missed:
            return False
        rows = self._rows_on((subject,)).tolist()
        return any(row in missed for missed in self._missed.values() for row in rows)

    def missed_on(self, session: str, subjects: Collection[str]) -> I32:
        """Take out the live events on some subjects that a session missed, as `missed_by` does."""
        missed = self._missed.get(session)
        if missed is None:
            return np.zeros(0, np.int32)
        return self._taken(session, missed.take(self._rows_on(subjects)))

    def missed_by(self, session: str, most: int = 0) -> I32:
        """Return the rows of live events a session missed, and mark them as not seen by it.

        The oldest ones; with `most` no more than that.
        """
        missed = self._missed.get(session)
        if missed is None:
            return np.zeros(0, np.int32)
        return self._taken(session, missed.take_oldest(most or len(missed)))

    def _taken(self, session: str, rows: I32) -> I32:
        self._seen.unmark_for(rows, session)
        if not len(self._missed[session]):
            del self._missed[session]
        return rows

    def _rows_on(self, subjects: Iterable[str]) -> I32:
        """The rows of live events on some subjects, oldest version first."""
        live = self._matcher.live
        rows = [live.rows_about(each, to) for each in subjects for to in (False, True)]
        return live.in_order(np.concatenate([np.zeros(0, np.int32), *rows]))

    def forget(self, session: str) -> None:
        """Drop the state of an ended session: all live events are new to it if it returns."""
        self._missed.pop(session, None)
        self._seen.forget_session(session)

    def met_through(self, node: str) -> LiveMatches:
        """Matches of live events that a node published or that are anchored to it."""
        return self._met_anew({*self._by.get(node, ()), *self._anchored.get(node, ())})

    def met_again(self) -> LiveMatches:
        """Matches of all live events, after all rights may have changed."""
        return self._met_anew(self._versions)

    def met_plainly(self, number: int, pattern: str) -> I32:
        """Rows of live events for a subscription without area and filter, but retained messages.

        Retained messages follow the rules of MQTT, unless they have a target.
        """
        live, fits = self._matcher.live, subject_test(pattern)
        rows = [row for row in map(live.row, self._floating) if row is not None]
        rows = [row for row in rows if fits(live.event_at(row).subject)]
        aimed = self._matcher.live_matches([number], (number,)).row
        return np.concatenate((np.array(rows, np.int32), aimed))

    def count_anchored(self, node: str) -> int:
        """The number of live events whose target moves with a node."""
        return len(self._anchored.get(node, ()))

    def overtaken_by(self, node: str) -> LiveMatches:
        """Matches of live events whose target moves with a node."""
        return self._met_anew(self._anchored.get(node, ()))

    def met_in_named_places(self) -> LiveMatches:
        """Matches of live events whose target is a named place."""
        return self._met_anew(self._named)

    def _met_anew(self, keys: Collection[str]) -> LiveMatches:
        """Matches of live events whose targets are looked up again, oldest version first."""
        live, found = self._matcher.live, []
        rows = [row for row in map(live.row, self._in_order(keys)) if row is not None]
        live.aim_again(keys)
        for start in range(0, len(rows), MATCHED_AT_ONCE):
            some = rows[start : start + MATCHED_AT_ONCE]
            matches = self._matcher.match(EventBatch.of(list(map(live.event_at, some))))
            order = matches.event.argsort(kind="stable")
            row = np.array(some, np.int32)[matches.event]
            found.append(LiveMatches(row, *matches[1:]).only(order))
        return joined_matches(found)

    def _in_order(self, keys: Iterable[str]) -> list[str]:
        return sorted(keys, key=self._versions.__getitem__)

    def _forget(self, key: str) -> bool:
        row = self._matcher.live.row(key)
        if row is None:
            return False
        event = self._matcher.live.event_at(row)
        for session in self._sessions(key) if self._missed else ():
            missed = self._missed.get(session)
            if missed is not None:
                missed.discard(row)
                if not missed:
                    del self._missed[session]
        self._matcher.live.remove(key)
        del self._versions[key]
        self._expires.pop(key, None)
        del self._by[event.publisher][key]
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
