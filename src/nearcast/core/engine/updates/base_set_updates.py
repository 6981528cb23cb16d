"""Base sets: events of a smallest number of people wait before any filter, and go out together.

The clock alone decides when, so that nobody can tell from a time who came last.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from nearcast.core.engine.books.gathering_book import (
    PoolAdded,
    PoolChange,
    PoolEnded,
    PoolPut,
    PoolRemoved,
)
from nearcast.core.engine.dependent import EngineDependent
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep
from nearcast.core.gathering.base_sets import (
    MOST_WAITING,
    BaseSetRule,
    base_set_event,
    base_set_rule,
    counts,
    person_of,
)
from nearcast.core.gathering.division import Division, division_of
from nearcast.core.gathering.grouping import PlaceMiddles
from nearcast.core.gathering.waiting import EVERYBODY, WaitingEvent, WaitingPool
from nearcast.core.model.event import Event

MOST_GROUPS = 10_000
MOST_BYTES = 64 * 1024 * 1024
"""Beyond these bounds events are discarded: of whoever has more than a fair share, else the group
that began first."""
GroupPlace = tuple[str, str, int, str]
"""Topic, rule, smallest number of people, and division."""


class _Group:
    def __init__(self, id_: int, place: GroupPlace, rule: BaseSetRule, division: Division) -> None:
        self.id = id_
        self.place = place
        self.rule = rule
        self.division = division
        self.waiting: dict[int, WaitingEvent] = {}
        """By number, in the order of arrival."""
        self.of_person: dict[str, dict[int, None]] = {}
        """Numbers of the events of each person or bridge, in the order of arrival."""
        self.people = 0
        """The number of persons."""
        self.tick = 0.0
        """When it is looked at next: something may be enough, or too old."""

    @property
    def is_enough(self) -> bool:
        return self.people >= self.place[2]

    def add(self, waiting: WaitingEvent) -> None:
        self.waiting[waiting.number] = waiting
        person = person_of(waiting.event)
        if person not in self.of_person:
            self.of_person[person] = {}
            self.people += counts(person)
        self.of_person[person][waiting.number] = None

    def remove(self, number: int) -> WaitingEvent:
        gone = self.waiting.pop(number)
        person = person_of(gone.event)
        numbers = self.of_person[person]
        del numbers[number]
        if not numbers:
            del self.of_person[person]
            self.people -= counts(person)
        return gone

    def next_look(self, now: float) -> float:
        """The tick at which it goes out, or its oldest event is too old."""
        if self.is_enough:
            return self.rule.next_tick(now)
        oldest = next(iter(self.waiting.values()))
        return self.rule.next_tick(max(now, oldest.ingested + self.rule.wait_s))


class BaseSetUpdates(EngineDependent):
    """Keeps the groups, and makes base sets of them."""

    def __init__(self, state: EngineState) -> None:
        self._places = PlaceMiddles(state.matcher.places)
        self._groups: dict[GroupPlace, _Group] = {}
        self._due: list[tuple[float, GroupPlace]] = []
        """Ticks of groups, the first one first; of those that changed there are more."""
        self._made = 0
        self._arrived = 0
        self._size = 0
        self._sizes: Counter[str] = Counter()
        """Bytes by person."""
        self._changes: list[PoolChange] = []
        self.discarded = 0
        """Events that stayed below the number for too long, or were too many."""

    @property
    def is_active(self) -> bool:
        """True if something waits."""
        return bool(self._groups)

    def take(self, event: Event, now: float) -> None:
        """Let an event wait for others."""
        rule = base_set_rule(event.base_set)
        division = division_of(rule.per, event, self._places)
        place = event.subject, event.base_set, event.people, division.members
        group = self._groups.get(place)
        if group is None:
            self._made += 1
            group = self._groups[place] = _Group(self._made, place, rule, division)
            self._changes.append(PoolPut(group.id, event.subject, division, (EVERYBODY,)))
        self._arrived += 1
        waiting = WaitingEvent(event, now, self._arrived)
        was_enough = group.is_enough
        self._add(group, waiting)
        self._changes.append(PoolAdded(group.id, waiting))
        if len(group.waiting) == 1 or (group.is_enough and not was_enough):
            self._look_at(group, group.next_look(now))
        if len(group.waiting) > MOST_WAITING:
            # Whoever says more than others loses its own.
            own = group.of_person[person_of(event)]
            is_much = len(own) * len(group.of_person) > MOST_WAITING
            self._discard(group, next(iter(own if is_much else group.waiting)))
        while self._groups and (len(self._groups) > MOST_GROUPS or self._size > MOST_BYTES):
            self._make_room(person_of(event))

    def next_timer(self) -> float | None:
        """The next tick at which something may leave, or is too old."""
        while self._due:
            tick, place = self._due[0]
            group = self._groups.get(place)
            if group is not None and group.tick == tick:
                return tick
            heappop(self._due)
        return None

    def base_sets(self, tick: float) -> list[Event]:
        """Return the base sets of a tick; what is too old is discarded."""
        found = []
        places: set[GroupPlace] = set()
        while (due := self.next_timer()) is not None and due <= tick:
            places.add(heappop(self._due)[1])
        for place in sorted(places):
            group = self._groups[place]
            oldest = tick - group.rule.wait_s
            for each in [*group.waiting.values()]:
                if each.ingested < oldest or _has_expired(each.event, tick):
                    self._discard(group, each.number)
            if not group.waiting:
                continue
            if group.is_enough:
                waiting = list(group.waiting.values())
                found.append(base_set_event(waiting, group.division, group.rule, tick))
                self._end(group)
            else:
                self._look_at(group, group.next_look(tick))
        return found

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Drop the events of a node."""
        self._drop(lambda event: event.publisher == node)

    def take_changes(self) -> list[PoolChange]:
        """Return what changed since the last call."""
        found, self._changes = self._changes, []
        return found

    def in_force(self) -> list[WaitingPool]:
        """All groups, as they are kept."""
        return [
            WaitingPool(
                group.id,
                group.place[0],
                group.division,
                (EVERYBODY,),
                tuple(group.waiting.values()),
            )
            for group in self._groups.values()
        ]

    def resume(self, pools: Iterable[WaitingPool]) -> None:
        """Restore groups."""
        for pool in pools:
            first, last = pool.events[0].event, pool.events[-1]
            place = first.subject, first.base_set, first.people, pool.division.members
            rule = base_set_rule(first.base_set)
            group = self._groups[place] = _Group(pool.id, place, rule, pool.division)
            for each in pool.events:
                self._add(group, each)
            # Ticks that have passed made no base set of it: its next one is not before the last.
            self._look_at(group, group.next_look(last.ingested))
            self._made = max(self._made, pool.id)
            self._arrived = max(self._arrived, last.number)

    def _add(self, group: _Group, waiting: WaitingEvent) -> None:
        group.add(waiting)
        self._size += waiting.size
        self._sizes[person_of(waiting.event)] += waiting.size

    def _look_at(self, group: _Group, tick: float) -> None:
        if group.tick != tick:
            group.tick = tick
            heappush(self._due, (tick, group.place))

    def _drop(self, is_gone: Callable[[Event], bool]) -> None:
        for group in list(self._groups.values()):
            for each in [*group.waiting.values()]:
                if is_gone(each.event):
                    self._remove(group, each.number)

    def _make_room(self, person: str) -> None:
        """Discard the first events of a person with more than a fair share, or the first group."""
        is_much = self._sizes[person] * len(self._sizes) > self._size
        for group in self._groups.values():
            own = group.of_person.get(person)
            if own is not None or not is_much:
                for number in [*(own if is_much and own is not None else group.waiting)]:
                    self._discard(group, number)
                return

    def _discard(self, group: _Group, number: int) -> None:
        self.discarded += 1
        self._remove(group, number)

    def _remove(self, group: _Group, number: int) -> None:
        self._forget(group.remove(number))
        if group.waiting:
            self._changes.append(PoolRemoved(group.id, number))
        else:
            self._end(group)

    def _end(self, group: _Group) -> None:
        del self._groups[group.place]
        for each in group.waiting.values():
            self._forget(each)
        self._changes.append(PoolEnded(group.id))

    def _forget(self, gone: WaitingEvent) -> None:
        person = person_of(gone.event)
        self._size -= gone.size
        self._sizes[person] -= gone.size
        if not self._sizes[person]:
            del self._sizes[person]


def _has_expired(event: Event, at: float) -> bool:
    return event.expires_at is not None and event.expires_at <= at
