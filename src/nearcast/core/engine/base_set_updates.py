"""Base sets: events of a smallest number of people wait before any filter, and go out together.

The clock alone decides when, so that nobody can tell from a time who came last.
"""

from collections.abc import Iterable

from nearcast.core.engine.books.gathering_book import PoolAdded, PoolChange, PoolEnded, PoolPut
from nearcast.core.engine.dependent import EngineDependent
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep
from nearcast.core.gathering.base_sets import (
    MOST_WAITING,
    BaseSetRule,
    base_set_event,
    base_set_rule,
    people_in,
)
from nearcast.core.gathering.division import Division, division_of
from nearcast.core.gathering.grouping import PlaceMiddles
from nearcast.core.gathering.waiting import EVERYBODY, WaitingEvent, WaitingPool
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event

MOST_GROUPS = 10_000
MOST_BYTES = 64 * 1024 * 1024
"""Beyond these bounds the group that began first is discarded."""
GroupPlace = tuple[str, str, int, str]
"""Topic, rule, smallest number of people, and division."""


class _Group:
    def __init__(self, id_: int, place: GroupPlace, rule: BaseSetRule, division: Division) -> None:
        self.id = id_
        self.place = place
        self.rule = rule
        self.division = division
        self.waiting: list[WaitingEvent] = []
        self.tick = 0.0
        """When it is looked at next."""


class BaseSetUpdates(EngineDependent):
    """Keeps the groups, and makes base sets of them."""

    def __init__(self, state: EngineState) -> None:
        self._places = PlaceMiddles(state.matcher.places)
        self._groups: dict[GroupPlace, _Group] = {}
        self._made = 0
        self._arrived = 0
        self._size = 0
        self._changes: list[PoolChange] = []
        self.discarded = 0
        """Events that stayed below the number for too long, or were too many."""

    def check(self, event: Event) -> None:
        """Refuse what would tell of a single event, or let it stay."""
        if event.to is not None:
            raise ModelError("an event with a smallest people has no target: it would single out")
        if event.stays:
            raise ModelError("an event with a smallest people is not retained, valid or an object")

    def take(self, event: Event, now: float) -> None:
        """Let an event wait for others."""
        rule = base_set_rule(event.base_set)
        division = division_of(rule.per, event, self._places)
        place = event.subject, event.base_set, event.people, division.members
        group = self._groups.get(place)
        if group is None:
            self._made += 1
            group = self._groups[place] = _Group(self._made, place, rule, division)
            group.tick = rule.next_tick(now)
            self._changes.append(PoolPut(group.id, event.subject, division, (EVERYBODY,)))
        self._arrived += 1
        waiting = WaitingEvent(event, now, self._arrived)
        group.waiting.append(waiting)
        self._changes.append(PoolAdded(group.id, waiting))
        self._size += waiting.size
        if len(group.waiting) > MOST_WAITING:
            self._keep(group, group.waiting[1:])
        while len(self._groups) > MOST_GROUPS or self._size > MOST_BYTES:
            first = next(iter(self._groups.values()))
            self._keep(first, [])
            self._end(first)

    def next_timer(self) -> float | None:
        """The next tick of a group's clock."""
        return min((group.tick for group in self._groups.values()), default=None)

    def base_sets(self, tick: float) -> list[Event]:
        """Return the base sets of a tick; what is too old is discarded."""
        found = []
        for place in sorted(place for place, each in self._groups.items() if each.tick <= tick):
            group = self._groups[place]
            oldest = tick - group.rule.wait_s
            young = [each for each in group.waiting if each.ingested >= oldest]
            if len(young) < len(group.waiting):
                self._keep(group, young)
            if not young:
                self._end(group)
            elif len(people_in(young)) >= place[2]:
                found.append(base_set_event(young, group.division, group.rule, tick))
                self._end(group)
            else:
                group.tick = group.rule.next_tick(tick)
        return found

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Drop the events of a node."""
        for group in list(self._groups.values()):
            left = [each for each in group.waiting if each.event.publisher != node]
            if len(left) < len(group.waiting):
                self._keep(group, left)
                if not left:
                    self._end(group)

    def take_changes(self) -> list[PoolChange]:
        """Return what changed since the last call."""
        found, self._changes = self._changes, []
        return found

    def in_force(self) -> list[WaitingPool]:
        """All groups, as they are kept."""
        return [
            WaitingPool(
                group.id, group.place[0], group.division, (EVERYBODY,), tuple(group.waiting)
            )
            for group in self._groups.values()
        ]

    def resume(self, pools: Iterable[WaitingPool]) -> None:
        """Restore groups."""
        for pool in pools:
            first = pool.events[0].event
            place = first.subject, first.base_set, first.people, pool.division.members
            rule = base_set_rule(first.base_set)
            group = self._groups[place] = _Group(pool.id, place, rule, pool.division)
            group.waiting = list(pool.events)
            self._size += sum(each.size for each in group.waiting)
            # Ticks that have passed made no base set of it: its next one is not before the last.
            group.tick = rule.next_tick(pool.events[-1].ingested)
            self._made = max(self._made, pool.id)
            self._arrived = max(self._arrived, pool.events[-1].number)

    def _keep(self, group: _Group, waiting: list[WaitingEvent]) -> None:
        self.discarded += len(group.waiting) - len(waiting)
        self._size -= sum(each.size for each in group.waiting) - sum(each.size for each in waiting)
        group.waiting = waiting
        self._changes.append(PoolPut(group.id, group.place[0], group.division, ()))
        if waiting:
            self._changes.append(PoolPut(group.id, group.place[0], group.division, (EVERYBODY,)))
            self._changes += [PoolAdded(group.id, each) for each in waiting]

    def _end(self, group: _Group) -> None:
        del self._groups[group.place]
        self._size -= sum(each.size for each in group.waiting)
        self._changes.append(PoolEnded(group.id))
