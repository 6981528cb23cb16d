"""Gathering: what matches a subscription with aggregability waits, and leaves together (seed E).

Whether what waits leaves is decided at each arrival; a longest waiting time and bounds release it
in any case. Decisions follow from the inputs and their times, so that all hosts agree.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.engine.books.gathering_book import NO_RULE, Pool, PoolPlace
from nearcast.core.engine.delivery.aggregate_event import Sight, aggregate_event
from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers, NeedQuestion
from nearcast.core.gathering.base_sets import union_event
from nearcast.core.gathering.division import Division, division_of
from nearcast.core.gathering.grouping import PlaceMiddles
from nearcast.core.gathering.needs.aggregability import Aggregability
from nearcast.core.gathering.needs.needs import Needs
from nearcast.core.gathering.needs.needs_by_function import NOT_TOLD
from nearcast.core.gathering.waiting import (
    LARGEST_POOL_BYTES,
    WaitingEvent,
    WaitingFigures,
    WaitingPool,
)
from nearcast.core.matching.reference import EventScope
from nearcast.core.matching.tables import I32
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Input, NeedTold
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.visibility import SEE_ALL

Detached = dict[str, list[WaitingEvent]]
"""What waited for subscriptions, by their ids, in the order in which it came."""


class GatheringUpdates(EngineDependent):
    """Lets events wait, and releases them."""

    def __init__(self, state: EngineState) -> None:
        self._book = state.gathering
        self._subscriptions = state.subscriptions
        self._live = state.live
        self._matcher = state.matcher
        self._places = PlaceMiddles(state.matcher.places)
        self._questions: list[NeedQuestion] = []
        self.handlers: Handlers = {NeedTold: self.tell}

    @property
    def is_active(self) -> bool:
        """True if some subscription gathers, or something waits."""
        return self._book.is_active

    def settle(self, step: EngineStep, at: float, index: int) -> None:
        """Take the matches of subscriptions that gather, and release what may leave.

        They are of the input at an index, at its time.
        """
        cause = _Cause(step, at, index)
        arrived = self._subscriptions.take_gathered()
        for event, numbers, priorities in arrived:
            self._take(event, numbers, priorities, cause)
        while (pool := self._book.beyond_bounds()) is not None:
            self._release(pool, cause)
        self._book.settle()
        if self._book.changes:
            step.outcome.waiting_changes += self._book.take_changes()

    # What changes needs that depend on contexts

    @property
    def ignores_moves(self) -> bool:
        """True if no need depends on contexts."""
        return not self._book.followed

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        """Judge what waits for a node, or came from it."""
        ids = self._book.followed.get(update.after.node)
        if ids:
            self._judge_anew(sorted(ids), step)

    def node_expired(self, node: str, step: EngineStep) -> None:
        """Judge what waits for a node, or came from it."""
        self._judge_anew(sorted(self._book.followed.get(node, ())), step)

    def places_changed(self, reclassed: Sequence[str], step: EngineStep) -> None:
        """Judge everything: more or less may be seen."""
        self._judge_everything(step)

    def sight_changed(self, viewer: str, other: str, step: EngineStep) -> None:
        """Judge everything: more or less may be seen."""
        self._judge_everything(step)

    def rules_changed(self, step: EngineStep) -> None:
        """Judge everything: more or less may be seen."""
        self._judge_everything(step)

    def _judge_everything(self, step: EngineStep) -> None:
        self._judge_anew(sorted(set().union(*self._book.followed.values())), step)

    def _judge_anew(self, ids: Iterable[int], step: EngineStep) -> None:
        cause = _Cause(step, step.now, step.index)
        for id_ in ids:
            pool = self._book.pool(id_)
            if pool is not None:
                pool.needs.clear()
                self._judge(pool, cause)

    def release_due(self, step: EngineStep) -> None:
        """Release what has waited for the longest time allowed."""
        while (pool := self._book.due(step.now)) is not None:
            self._release(pool, _Cause(step, pool.due, step.index))
        if self._book.changes:
            step.outcome.waiting_changes += self._book.take_changes()

    def next_timer(self) -> float | None:
        """The time when the next pool has waited for the longest time allowed."""
        return self._book.next_due()

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Drop the events of a node, and its name from members and the people of base sets."""
        self._book.note_members()
        self._drop(lambda event: event.publisher == node)
        names = {node, f"user {node}"}
        for pool in self._book.pools:
            if any(names.intersection(each.event.persons) for each in pool.waiting):
                self._book.rewrite(pool, [_without(each, names) for each in pool.waiting])

    def withdraw(self, event: Event) -> None:
        """Drop the versions of a live event that wait: its withdrawal takes their place."""
        key = self._live.key(event)
        self._drop(lambda each: each.stays and self._live.key(each) == key)

    def detach(self, ids: Iterable[str]) -> Detached:
        """Take what waits for subscriptions out of their pools, and return it by their ids."""
        found: Detached = {}
        for id_ in ids if self._book.is_active else ():
            if id_ in self._subscriptions.by_id:
                pools = self._book.take_out(self._subscriptions.number(id_))
                waiting = (each for _, some in pools for each in some)
                if in_order := sorted(waiting, key=lambda each: each.number):
                    found[id_] = in_order
        return found

    def attach(self, detached: Detached, step: EngineStep) -> None:
        """Judge anew what waited for subscriptions that were replaced.

        Where nothing is gathered any more, it goes out at once.
        """
        cause = _Cause(step, step.now, step.index)
        for id_, waiting in detached.items():
            members = np.array([self._subscriptions.number(id_)], np.int32)
            if not self._book.gathers(members).any():
                for each in waiting:
                    self._send(each.event, members, each.priority, cause)
                continue
            rule_number = int(self._book.rules_of(members)[0])
            touched: dict[int, Pool] = {}
            for each in waiting:
                for pool in self._let_wait(each, rule_number, members):
                    touched[pool.id] = pool
            for pool in touched.values():
                self._judge(pool, cause)

    def release_for(self, id_: str, step: EngineStep) -> None:
        """Release at once what waits for a subscription."""
        if self._book.is_active and id_ in self._subscriptions.by_id:
            number = self._subscriptions.number(id_)
            members = np.array([number], np.int32)
            for pool, waiting in self._book.take_out(number):
                cause = _Cause(step, step.now, step.index)
                self._send_together(members, pool.division, waiting, cause)

    # Deciding

    def _take(self, event: Event, numbers: I32, priorities: I32 | None, cause: "_Cause") -> None:
        """Let an event wait for subscriptions that it matches, each with a priority."""
        if priorities is None:
            self._put(event, int(self._book.rules_of(numbers[:1])[0]), numbers, 1, cause)
            return
        if event.stays:
            owners = [self._subscriptions.at(number).owner for number in numbers.tolist()]
            self._live.mark_seen(event, owners)
        rules = self._book.rules_of(numbers)
        if _are_equal(rules) and _are_equal(priorities):
            # The usual case, in which nothing is sorted twice: many with one rule.
            rule, priority = int(rules[0]), int(priorities[0])
            self._put(event, rule, _ascending(numbers), priority, cause)
            return
        order = np.lexsort((numbers, priorities, rules))
        numbers, rules, priorities = numbers[order], rules[order], priorities[order]
        changes = (np.diff(rules, prepend=NO_RULE) != 0) | (np.diff(priorities, prepend=0) != 0)
        begins = np.flatnonzero(changes).tolist()
        for start, end in zip(begins, [*begins[1:], len(numbers)], strict=True):
            rule, priority = int(rules[start]), int(priorities[start])
            self._put(event, rule, numbers[start:end], priority, cause)

    def _put(
        self, event: Event, rule_number: int, members: I32, priority: int, cause: "_Cause"
    ) -> None:
        rule = self._book.rule(rule_number)
        if rule.is_immediate and (event.people or not event.gathered):
            self._send(event, members, priority, cause)
            return
        waiting = WaitingEvent(event, cause.at, self._book.next_number(), priority)
        place, _ = self._place(event, rule_number)
        for pool in self._book.too_large_with(place, members, waiting.size, LARGEST_POOL_BYTES):
            self._release(pool, cause)
        for pool in self._let_wait(waiting, rule_number, members):
            self._judge(pool, cause)

    def _judge(self, pool: Pool, cause: "_Cause") -> None:
        """Release what may leave of a pool."""
        if pool.is_met:
            self._release(pool, cause)
        elif pool.rule.depends_on_contexts:
            self._judge_by_case(pool, cause)

    def _judge_by_case(self, pool: Pool, cause: "_Cause") -> None:
        """Release to each member the events whose own needs are met by all that waits."""
        leaving = dict[frozenset[int], list[int]]()
        for number in pool.members.tolist():
            needs = [(each, self._needs(pool, number, each)) for each in pool.waiting]
            # What a function has not spoken of has not arrived yet.
            known = [each for each, need in needs if need is not NOT_TOLD]
            whole = len(known) == len(needs)
            figures = (pool.figures if whole else WaitingFigures(known)).figures
            met = frozenset(each.number for each, need in needs if need.are_met(figures))
            if met:
                leaving.setdefault(met, []).append(number)
        waiting, division = list(pool.waiting), pool.division
        for met, numbers in leaving.items():
            members = np.array(numbers, np.int32)
            rest = [each for each in waiting if each.number not in met]
            moved = self._book.move(pool, members, rest)
            if moved is not None:
                self._follow(moved)
            together = [each for each in waiting if each.number in met]
            self._send_together(members, division, together, cause)

    def _needs(self, pool: Pool, number: int, waiting: WaitingEvent) -> Needs:
        found = pool.needs.get((number, waiting.number))
        if found is None:
            if pool.rule.by_function is not None:
                found = NOT_TOLD
                id_ = self._subscriptions.at(number).id
                self._questions.append(NeedQuestion(id_, waiting.event))
            else:
                node = self._subscriptions.at(number).node
                found = self._needs_now(pool.rule, node, waiting.event)
            pool.needs[number, waiting.number] = found
        return found

    def _needs_now(self, rule: Aggregability, node: str, event: Event) -> Needs:
        if rule.by_case is None:
            return rule.needs
        if not event.attributes and event.payload:
            event = replace(event, attributes=attributes_of(event.payload))
        return rule.by_case.needs(EventScope(event, node, self._matcher.world))

    def _follow(self, pool: Pool) -> None:
        """Follow the contexts of publishers and subscribers, if needs depend on them."""
        if pool.rule.depends_on_contexts:
            nodes = {each.event.publisher for each in pool.waiting}
            nodes.update(self._subscriptions.at(number).node for number in pool.members.tolist())
            self._book.follow(pool, nodes)

    def _let_wait(self, waiting: WaitingEvent, rule_number: int, members: I32) -> list[Pool]:
        found = self._book.put(*self._place(waiting.event, rule_number), members, waiting)
        for pool in found:
            self._follow(pool)
        return found

    def _place(self, event: Event, rule_number: int) -> tuple[PoolPlace, Division]:
        division = division_of(self._book.rule(rule_number).per, event, self._places)
        return (rule_number, event.subject, division.members), division

    def _drop(self, is_gone: Callable[[Event], bool]) -> None:
        for pool in self._book.pools:
            left = [each for each in pool.waiting if not is_gone(each.event)]
            if len(left) < len(pool.waiting):
                self._book.keep(pool, left)

    # Releasing

    def _release(self, pool: Pool, cause: "_Cause") -> None:
        """Send what waits in a pool, without what has expired."""
        self._book.end(pool)
        self._send_together(pool.members, pool.division, pool.waiting, cause)

    def _send_together(
        self,
        everyone: I32,
        division: Division,
        waited: Sequence[WaitingEvent],
        cause: "_Cause",
    ) -> None:
        waiting = [each for each in waited if not _has_expired(each.event, cause.at)]
        if not waiting:
            return
        hidden = [each for each in waiting if each.event.people]
        if hidden:
            self._send_base_sets(everyone, hidden, cause)
            waiting = [each for each in waiting if not each.event.people]
            if not waiting:
                return
        priority = min(each.priority for each in waiting)
        for members, sight in self._by_sight(everyone, waiting):
            event = aggregate_event(waiting, division, sight)
            self._send(event, members, priority, cause)

    def _send_base_sets(self, members: I32, sets: Sequence[WaitingEvent], cause: "_Cause") -> None:
        """Send the union of whole base sets."""
        rule = self._book.rule(int(self._book.rules_of(members[:1])[0]))
        needs = [] if rule.depends_on_contexts else rule.needs.any_of
        asked = [need.value for all_of in needs for need in all_of if need.kind == "people"]
        event = union_event([each.event for each in sets], int(max(asked, default=0)))
        self._send(event, members, min(each.priority for each in sets), cause)

    def _by_sight(
        self, members: I32, waiting: Sequence[WaitingEvent]
    ) -> Iterator[tuple[I32, Sight]]:
        """Yield members by what they may see now of the publishers."""
        if not self._matcher.sight.restricted:
            yield members, ()
            return
        world, publishers = self._matcher.world, sorted({each.event.publisher for each in waiting})
        found: dict[Sight, list[int]] = {}
        for number in members.tolist():
            viewer = self._subscriptions.at(number).node
            masks = ((each, world.may_see(viewer, each)) for each in publishers)
            sight = tuple((each, mask) for each, mask in masks if mask != SEE_ALL)
            found.setdefault(sight, []).append(number)
        for sight, numbers in found.items():
            yield np.array(numbers, np.int32), sight

    def _send(self, event: Event, members: I32, priority: int, cause: "_Cause") -> None:
        deliveries = self._subscriptions.separate(event, members, priority)
        deliveries.caused_at, deliveries.caused_by = cause.at, cause.index
        cause.step.outcome.sent.append(deliveries)

    # What is kept

    def needs(self, id_: str, event: Event) -> Needs:
        """What an event that waits for a subscription needs now."""
        for _, number, waiting, found in self._by_function():
            same = (waiting.event.publisher, waiting.event.id) == (event.publisher, event.id)
            if same and self._subscriptions.at(number).id == id_:
                return found or NOT_TOLD
        number = self._subscriptions.number(id_)
        rule = self._book.rule(int(self._book.rules_of(np.array([number], np.int32))[0]))
        return self._needs_now(rule, self._subscriptions.at(number).node, event)

    def tell(self, each: NeedTold, step: EngineStep) -> None:
        """Take what a function said of an event, and judge what waits with it."""
        if each.subscription not in self._subscriptions.by_id:
            return
        for pool in self._note_told(each):
            self._judge(pool, _Cause(step, step.now, step.index))

    def take_questions(self) -> list[NeedQuestion]:
        """Return of which events functions are to say what they need."""
        found, self._questions = self._questions, []
        return found

    def unanswered(self) -> list[NeedQuestion]:
        """Return all questions that have no answer: after a restart nobody asks them."""
        return [
            NeedQuestion(self._subscriptions.at(number).id, waiting.event)
            for _, number, waiting, found in self._by_function()
            if found is None or found is NOT_TOLD
        ]

    def told(self) -> list[NeedTold]:
        """What functions said of the events that wait."""
        return [
            NeedTold(
                self._subscriptions.at(number).node, self._subscriptions.at(number).id,
                waiting.event.publisher, waiting.event.id, found.text,
            )
            for _, number, waiting, found in self._by_function()
            if found is not None and found is not NOT_TOLD
        ]  # fmt: skip

    def _by_function(self) -> Iterator[tuple[Pool, int, WaitingEvent, Needs | None]]:
        for pool in self._book.pools:
            if pool.rule.by_function is not None:
                for number in pool.members.tolist():
                    for waiting in pool.waiting:
                        yield pool, number, waiting, pool.needs.get((number, waiting.number))

    def _note_told(self, each: NeedTold) -> list[Pool]:
        """Note what a function said; return the pools in which the event waits."""
        number = self._subscriptions.number(each.subscription)
        node, found = self._subscriptions.at(number).node, []
        for id_ in sorted(self._book.followed.get(node, ())):
            pool = self._book.pool(id_)
            if pool is None or pool.rule.by_function is None or number not in pool.members:
                continue
            needs = pool.rule.by_function.needs(each.need)
            for waiting in pool.waiting:
                if (waiting.event.publisher, waiting.event.id) == (each.publisher, each.event):
                    pool.needs[number, waiting.number] = needs
                    found.append(pool)
        return found

    def in_force(self) -> list[WaitingPool]:
        """All pools, as they are kept."""
        return [
            WaitingPool(
                pool.id,
                pool.place[1],
                pool.division,
                tuple(self._subscriptions.at(number).id for number in pool.members.tolist()),
                tuple(pool.waiting),
            )
            for pool in self._book.pools
        ]

    def resume(self, pools: Iterable[WaitingPool], standing: Iterable[Input] = ()) -> None:
        """Restore pools; subscriptions that there are not any more get nothing."""
        for kept in pools:
            known = [each for each in kept.subscriptions if each in self._subscriptions.by_id]
            numbers = np.array(sorted(map(self._subscriptions.number, known)), np.int32)
            gathering = numbers[self._book.gathers(numbers)]
            if not len(gathering) or not kept.events:
                continue
            rule = int(self._book.rules_of(gathering)[0])
            place = rule, kept.subject, kept.division.members
            pool = self._book.restore(kept.id, place, kept.division, gathering)
            self._book.refill(pool, kept.events)
            self._follow(pool)
        for each in standing:
            if isinstance(each, NeedTold) and each.subscription in self._subscriptions.by_id:
                self._note_told(each)


class _Cause(Struct, frozen=True):
    """Why something leaves: the input at an index, and the time that counts."""

    step: EngineStep
    at: float
    index: int


def _are_equal(values: I32) -> bool:
    return bool((values == values[0]).all())


def _ascending(numbers: I32) -> I32:
    return numbers if bool((numbers[1:] > numbers[:-1]).all()) else np.sort(numbers)


def _without(waiting: WaitingEvent, names: set[str]) -> WaitingEvent:
    # All who were forgotten count as one person from now on.
    left = tuple("" if each in names else each for each in waiting.event.persons)
    return replace(waiting, event=replace(waiting.event, persons=left))


def _has_expired(event: Event, at: float) -> bool:
    return event.expires_at is not None and event.expires_at <= at
