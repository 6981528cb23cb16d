"""The engine: ingest, context, match, adapt, gather, propagate, for one batch of inputs.

Pure: takes inputs and the time; returns deliveries, changes, log records and the time of the next
timer. Inputs are applied strictly in order; consecutive events are matched as one batch. A refused
input changes nothing and is reported with a reason. A match of a subscription that gathers
waits, and leaves together with others.
"""

from collections.abc import Iterable, Sequence
from math import inf

import numpy as np
from msgspec.structs import replace

from nearcast.core.engine.delivery.deliveries import NO_DELIVERIES, Deliveries
from nearcast.core.engine.delivery.routes import GatheringRoute
from nearcast.core.engine.dependent import EngineDependent, overriding
from nearcast.core.engine.engine_inputs import EngineInputs as EngineInputs
from nearcast.core.engine.engine_inputs import LiveEvent as LiveEvent
from nearcast.core.engine.engine_queries import EngineQueries
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers
from nearcast.core.engine.outcome import LiveChanged as LiveChanged
from nearcast.core.engine.outcome import NeedQuestion as NeedQuestion
from nearcast.core.engine.outcome import NodeChanged as NodeChanged
from nearcast.core.engine.outcome import Outcome as Outcome
from nearcast.core.engine.outcome import Refusal as Refusal
from nearcast.core.engine.queries.attribute_watch import AttributeWatch
from nearcast.core.engine.settings import EngineSettings as EngineSettings
from nearcast.core.engine.shard import WHOLE, Shard
from nearcast.core.engine.updates.base_set_updates import BaseSetUpdates
from nearcast.core.engine.updates.context_updates import ContextUpdates
from nearcast.core.engine.updates.event_ingest import EventIngest
from nearcast.core.engine.updates.gathering_updates import GatheringUpdates
from nearcast.core.engine.updates.priority_updates import PriorityUpdates
from nearcast.core.engine.updates.relationship_updates import RelationshipUpdates
from nearcast.core.engine.updates.session_presence import SessionPresence
from nearcast.core.engine.updates.silence_updates import SilenceUpdates
from nearcast.core.engine.updates.standing_inputs import StandingInputs
from nearcast.core.matching.matcher import NO_MATCHES
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.event_columns import EventColumns
from nearcast.core.model.event_run import EventRun
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.inputs import (
    Announced,
    Forgot,
    Input,
    LiveForgotten,
    Moved,
    PlaceDefined,
    PolicySet,
    Published,
    Restarted,
    SightSet,
    Suspended,
    TimePassed,
)
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.record import Record as Record


class Engine(EngineQueries):
    """State and decisions of one broker, one task or one node."""

    def __init__(
        self,
        settings: EngineSettings | None = None,
        places: Places | None = None,
        shard: Shard = WHOLE,
    ) -> None:
        self.settings = EngineSettings() if settings is None else settings
        self.shard = shard
        """The sessions whose subscriptions it keeps; those of others are ignored."""
        self.attribute_watch = AttributeWatch()
        """Reports filters on attributes that no event carries; affects no decision."""
        self._begin(Places() if places is None else places)

    def _begin(self, places: Places) -> None:
        """Reset all state except the places."""
        self.seq = 0
        self._state = state = EngineState(self.settings, places, self.shard)
        self.matcher = state.matcher
        self.rights = state.rights
        """Visibility rules: which node may see what of another."""
        self.forget_routes = state.subscriptions.routes.clear
        """Clear the cache of routes."""
        self.position = state.nodes.position
        """The position of a node, None if unknown."""
        self.observe = state.observe
        """Tell an observer of what is kept from now on."""
        self.policy = state.policy
        """What is recorded, and what is matched elsewhere."""
        self.policies = state.policies
        """Templates, roles, matrices, awareness: how events are adapted to subscribers."""
        self._event_ingest = EventIngest(state)
        self._context = ContextUpdates(state)
        self._gathering = GatheringUpdates(state)
        self._base_sets = BaseSetUpdates(state)
        self._standing = StandingInputs(state, self._gathering)
        self._silence = SilenceUpdates(state)
        self._presence = SessionPresence(state, self._silence)
        self._priority_updates = PriorityUpdates(state)
        self._relationship_updates = RelationshipUpdates(state)
        state.dependents += [self._relationship_updates, self._gathering, self._base_sets]
        # Live events are delivered at the priorities of now.
        state.dependents.insert(0, self._priority_updates)
        self._find_methods()
        self._handlers: Handlers = {
            **self._context.handlers,
            **self._standing.handlers,
            **self._silence.handlers,
            **self._presence.handlers,
            **self._priority_updates.handlers,
            **self._relationship_updates.handlers,
            **self._gathering.handlers,
            LiveForgotten: self._forget_live,
            Forgot: self._forget,
            Restarted: self._restart,
        }

    def register(self, dependent: EngineDependent) -> None:
        """Add a dependent that is notified of changes, after those registered before."""
        self._state.dependents.append(dependent)
        self._find_methods()

    def _find_methods(self) -> None:
        timed = (self._context, *self._state.dependents)
        self._expirers = overriding(timed, EngineDependent, "expire")
        self._timers = overriding(timed, EngineDependent, "next_timer")
        self._event_watchers = overriding(timed, EngineDependent, "events_made")

    # Making steps

    def step(self, inputs: Sequence[Input], now: float) -> Outcome:
        """Apply inputs in their order, at one time."""
        return self.play(inputs, (now,) * len(inputs), now)

    def play(
        self,
        inputs: Sequence[Input | TimePassed],
        times: Sequence[float],
        now: float | None = None,
        *,
        again: bool = False,
        quietly: bool = False,
    ) -> Outcome:
        """Apply inputs in order, each at its own time, as successive steps in one batch.

        `now` is the time of the first step, by default that of the first input. `again`: the inputs
        are log records, already checked and completed. `quietly`: events are matched only if the
        result affects later state.
        """
        self.rights.begin()
        if now is None:
            now = times[0] if times else 0.0
        step = EngineStep(now)
        outcome = step.outcome
        self._expire(step, gathered=not inputs or type(inputs[0]) is not Restarted)
        done = 0
        for index, (each, at) in enumerate(zip(inputs, times, strict=True)):
            if index < done:
                continue
            step.index = outcome.index = index
            if at != now:
                step.now = outcome.now = now = at
                self._pass_to_now(step, gathered=type(each) is not Restarted)
            if isinstance(each, TimePassed):
                continue
            if type(each) is Moved and not step.events:
                done = self._context.move_later(inputs, times, step)
                if done > index:
                    first, self.seq = self.seq + 1 - index, self.seq + done - index
                    outcome.records += [
                        Record(first + n, now, moved)
                        for n in range(index, done)
                        if isinstance(moved := inputs[n], Moved)
                    ]
                    continue
            try:
                self._context.settle_moves()
                if isinstance(each, Published):
                    event = self._event_ingest.ingest(each.event, now, again)
                    if event is None:
                        continue
                    if event is not each.event:
                        each = Published(event)
                    if event.people:
                        if not self._state.policy.is_elsewhere(event.subject):
                            self._base_sets.take(event, now)
                            if not self._state.policy.records(event):
                                continue
                    elif self._state.policy.is_elsewhere(event.subject) or (
                        quietly and self._leaves_no_trace(event)
                    ):
                        self._match(step)
                        self._state.recent.note([event], (now,))
                        if self.attribute_watch:
                            self.attribute_watch.see([event], self.matcher.world)
                    else:
                        if quietly and not event.attributes:
                            # Payloads of events that are only applied have not been parsed.
                            event = replace(event, attributes=attributes_of(event.payload))
                        step.events.append(event)
                        step.made.append(now)
                        step.event_index = index
                        if self.matcher.counting or event.stays:
                            # Later inputs may depend on this event.
                            self._match(step)
                        if not self._state.policy.records(event):
                            continue
                else:
                    self._match(step)
                    self._handlers[type(each)](each, step)
                    if self._gathering.is_active:
                        self._gathering.settle(step, now, index)
            except ModelError as error:
                outcome.refusals.append(Refusal(index, str(error)))
                continue
            self.seq += 1
            outcome.records.append(Record(self.seq, now, each))
        self._context.settle_moves()
        self._match(step)
        outcome.hidden_changes += self._base_sets.take_changes()
        outcome.need_questions += self._gathering.take_questions()
        outcome.timer = self.next_timer()
        return outcome

    def play_columns(
        self, events: EventColumns, *, quietly: bool = False
    ) -> tuple[int, Outcome, Deliveries] | None:
        """Apply recorded events given as columns, up to the next timer.

        Returns the number of events applied, the outcome of expiries before them, and the
        deliveries, all equal to what `play` yields. Returns None and does nothing if later matches
        depend on each event (filters that count, live events that are still to be brought).
        """
        if self.matcher.counting or self._state.live.has_missed or self._gathering.is_active:
            return None
        times = events.times
        ended = self.play((), (), float(times[0]))
        if ended.timer is not None and (due := np.flatnonzero(times >= ended.timer)).size:
            events = events.part(0, max(1, int(due[0])))
        deliveries = NO_DELIVERIES
        if not quietly or self._state.subscriptions.takes_turns:
            batch = events.batch(attributes=self.matcher.reads_attributes)
            deliveries = self._state.subscriptions.deliveries_of_columns(events, batch)
        self._state.recent.note_columns(events)
        self.seq += len(events)
        return len(events), ended, deliveries

    def next_timer(self) -> float | None:
        """The time at which to step again even without input."""
        due: float | None = None
        for next_timer in self._timers:
            at = next_timer()
            if at is not None and (due is None or at < due):
                due = at
        return due

    def next_release(self) -> float | None:
        """The time at which something that is gathered leaves, or is too old, by time alone."""
        due = (self._gathering.next_timer(), self._base_sets.next_timer())
        return min((at for at in due if at is not None), default=None)

    def _pass_to_now(self, step: EngineStep, *, gathered: bool) -> None:
        """Handle a change of time between two inputs; pending moves and events come first."""
        timer = self.next_timer()
        if self._gathering.is_active or (timer is not None and timer <= step.now):
            self._context.settle_moves()
            self._match(step)
            self._expire(step, gathered=gathered)
        else:
            self._state.recent.expire(step)

    def _expire(self, step: EngineStep, *, gathered: bool = True) -> None:
        """Expire everything that is due; what was gathered only if it is `gathered` by now.

        Before a restart it is not: what was due while a broker was down leaves after that.
        """
        if gathered and (self._gathering.is_active or self._base_sets.is_active):
            # What leaves depends on what holds when it is due, and not on when that is noticed.
            now, done = step.now, -inf
            while (due := self.next_timer()) is not None and done < due < now:
                step.now = done = due
                self._expire_at(step)
            step.now = now
            self._expire_at(step)
        else:
            for expire in self._expirers:
                expire(step)

    def _expire_at(self, step: EngineStep) -> None:
        """Expire what is due at the time of a step, and release what was gathered."""
        for expire in self._expirers:
            expire(step)
        self._gathering.release_due(step)
        while (tick := self._base_sets.next_timer()) is not None and tick <= step.now:
            step.events = self._base_sets.base_sets(tick)
            step.made, step.event_index = [tick] * len(step.events), step.index
            self._match(step)

    def _leaves_no_trace(self, event: Event) -> bool:
        """True if matching the event changes no state that later inputs depend on."""
        state = self._state
        if event.stays or state.subscriptions.takes_turns or state.live.has_missed:
            return False
        return not self._gathering.is_active

    def _match(self, step: EngineStep) -> None:
        """Match and deliver the pending events of a step."""
        events, made = step.events, step.made
        if not events:
            return
        step.events, step.made = [], []
        routes = self._gathering_routes(events) if self._gathering.is_active else None
        if routes is None:
            matches = self.matcher.match(EventBatch.of(events))
        else:
            matches = NO_MATCHES
            for event, route in zip(events, routes, strict=True):
                self._state.subscriptions.gather(event, route.numbers)
        if self.attribute_watch:
            self.attribute_watch.see(events, self.matcher.world)
        for event, at in zip(events, made, strict=True):
            if self._state.live.keep(event, at):
                step.live_changed(self._state.live.key(event), event)
        if not events[0].persons:
            # Base sets count for nobody: they are not in the log, from which a restart reads on.
            for events_made in self._event_watchers:
                events_made(events, made, step)
        withdrawal = None
        if events[-1].valid_s == 0.0:
            # An event that stays, or a withdrawal, is always the last of its batch.
            withdrawal = events.pop()
            is_last = matches.event == len(events)
            columns = matches.subscription[is_last], matches.priority[is_last]
            matches = matches.only(~is_last)
        if len(matches.event):
            deliveries = self._state.subscriptions.deliveries(events, matches)
            if deliveries and events[0].persons:
                # No input made it: the clock did.
                deliveries.caused_at, deliveries.caused_by = made[0], step.index
            if deliveries:
                self._state.live_delivery.deliver(deliveries, step.outcome)
        if withdrawal is not None:
            numbers, priorities = (column.tolist() for column in columns)
            met = zip(numbers, priorities, strict=True)
            self._state.live_delivery.withdraw(withdrawal, met, step.outcome)
            if self._gathering.is_active:
                self._gathering.withdraw(withdrawal)
            if self._state.live.withdraw(withdrawal):
                step.live_changed(self._state.live.key(withdrawal), None)

        if self._gathering.is_active:
            # While something gathers, all events of a batch are of one time.
            self._gathering.settle(step, made[-1], step.event_index)

    def _gathering_routes(self, events: Sequence[Event]) -> list[GatheringRoute] | None:
        """Return for whom each event waits, if subjects alone decide for all of them; else None.

        So what an event costs does not depend on how many wait for it.
        """
        if not self.settings.routes:
            return None
        found = []
        for event in events:
            if event.to is not None or event.stays or event.valid_s is not None:
                return None
            route = self._state.subscriptions.routes.gathering(event.subject)
            if route is None or event.origin in route.no_local:
                return None
            found.append(route)
        return found

    def _forget_live(self, each: LiveForgotten, step: EngineStep) -> None:
        """End some live events of a node."""
        for key in self._state.live.published_by(each.node, each.most):
            step.live_changed(key, None)

    def _forget(self, each: Forgot, step: EngineStep) -> None:
        """Erase a node: its state, announcements, live and recent events."""
        self._state.announcements.forget(each.node)
        self._context.forget(each.node, step)

    # Resuming from saved state

    def in_force(self) -> EngineInputs:
        """The inputs in force between two steps, to restore this engine from."""
        state, rights = self._state, self.rights
        standing: list[Input] = [
            *(
                PlaceDefined(p.kind, p.name, p.geometry, p.parent, p.order)
                for p in self.matcher.places
            ),
            rights.rules,
            *(SightSet(*each) for each in self.matcher.sight.exceptions_by_name()),
            *state.policies,
            *map(Announced, self.announcements.values()),
            *state.areas,
            *self._relationship_updates.in_force(),
            *self._silence.in_force(),
            *map(Suspended, sorted(state.subscriptions.suspended)),
            *self._standing.unfinished(),
            *self._presence.in_force(),
            *self._priority_updates.in_force(),
            *self._gathering.told(),
        ]
        return EngineInputs(
            self.settings.restart(self._presence.uncertain()),
            standing,
            rights.removed_places(),
            state.subscriptions.everyone(),
            list(self.nodes.values()),
            list(state.live.in_force()),
            state.recent.in_force(),
            self._event_ingest.known(),
            dict(state.subscriptions.turns),
            self._gathering.in_force(),
            self._base_sets.in_force(),
        )

    def resume(self, seq: int, inputs: EngineInputs) -> None:
        """Restore the inputs in force of an engine, without deliveries, under the own settings."""
        self.seq = seq
        standing = inputs.standing
        self._state.policies.resume(each for each in standing if isinstance(each, PolicySet))
        # Places and rights come first: subscriptions and live events are indexed by them.
        self._context.resume_places_and_rights(standing, inputs.removed_places)
        shard = self.shard
        self._state.subscriptions.add(shard.subscriptions_of(inputs.subscriptions))
        turns = ((group, turn) for group, turn in inputs.turns.items() if shard.has(group[0]))
        self._state.subscriptions.turns.update(turns)
        self._context.resume(inputs.nodes)
        # Targets anchored to a node need the node's position.
        for each in inputs.live:
            self._state.live.resume(each.event, each.expires, shard.sessions_of(each.seen))
        self._event_ingest.resume(inputs.known)
        self._standing.resume(standing)
        self._relationship_updates.resume(standing)
        self._silence.resume(standing)
        self._presence.resume(standing, inputs.restarted)
        self._priority_updates.resume(standing)
        self._gathering.resume(inputs.waiting, standing)
        self._base_sets.resume(inputs.hidden)
        remembered = list(inputs.recent)
        self._state.recent.note([event for _, event in remembered], [at for at, _ in remembered])
        self._state.recent.refresh()

    def restore(self, seq: int, inputs: EngineInputs) -> None:
        """Become the engine that had these inputs in force, with its settings."""
        self.settings = self.settings.after(inputs.restarted)
        self._begin(Places())
        self.resume(seq, inputs)

    def restarted(self, sessions: Iterable[str], now: float) -> Record | None:
        """The record to log at broker start with these sessions; None if none is needed.

        Who kept silent does so no more.
        """
        self._silence.end_all(now)
        value = self.settings.restart(sessions)
        if not self.seq and value == EngineSettings().restart(()):
            return None
        self.seq += 1
        return Record(self.seq, now, value)

    def _restart(self, each: Restarted, step: EngineStep) -> None:
        """Reset as a broker restart does, keeping the state of the given sessions."""
        self._silence.end_all(step.now)
        inputs = self._state.after_restart(
            each, self._event_ingest.known(), self._gathering.in_force(), self._base_sets.in_force()
        )
        seq, recent = self.seq, self._state.recent
        self.settings = self.settings.after(each)
        self._begin(self.matcher.places)
        if each.keeps_recent:
            self._state.recent.take_over(recent)
        self.resume(seq, inputs)
        # As the first step of a broker does, at whatever time.
        self._expire(step)

    # Queries of the host

    def take_evaluations(self) -> list[tuple[Subscription, int]]:
        """Return which subscriptions had predicates evaluated outside kernels, and how many."""
        return self._state.subscriptions.take_evaluations()

    def take_candidates(self) -> list[tuple[Subscription, int]]:
        """Return how often kernels compared which subscription with an event, estimated."""
        return self._state.subscriptions.take_candidates()

    def take_withheld(self) -> int:
        """Return how many matches were withheld, by relevance and context, since the last call."""
        withheld, self.matcher.withheld = self.matcher.withheld, 0
        return withheld

    def unanswered_needs(self) -> list[NeedQuestion]:
        """Of which events functions have not said what they need."""
        return self._gathering.unanswered()

    def note(self, run: EventRun) -> int | None:
        """Account for events that were sent along a route.

        They count as recent events and take sequence numbers: returns the first `seq`, None if they
        are not recorded.
        """
        state = self._state
        state.recent.note_run(run)
        if not (state.policy.records_all or state.policy.records_run(run)):
            return None
        first = self.seq + 1
        self.seq += len(run.ids)
        return first

    def next_seq(self) -> int:
        """Allocate a sequence number for another recorded item."""
        self.seq += 1
        return self.seq
