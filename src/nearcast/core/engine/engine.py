"""The engine: ingest, context, match, adapt, gather, propagate, for one batch of inputs.

Pure: inputs and the time go in; deliveries, changes, log records and the time of the next timer
come out. Inputs are applied strictly in their order; events that follow each other are matched
as one batch. What was refused changes nothing and says why. Adaptation and gathering pass
everything through until they are built.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from nearcast.core.engine.context_updates import ContextUpdates
from nearcast.core.engine.delivery.deliveries import NO_DELIVERIES, Deliveries
from nearcast.core.engine.delivery.routes import Route
from nearcast.core.engine.delivery.string_pair_table import Texts
from nearcast.core.engine.dependent import EngineDependent, overriding
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.event_ingest import EventIngest
from nearcast.core.engine.outcome import EngineStep, Handlers
from nearcast.core.engine.outcome import LiveChanged as LiveChanged
from nearcast.core.engine.outcome import NodeChanged as NodeChanged
from nearcast.core.engine.outcome import Outcome as Outcome
from nearcast.core.engine.outcome import Refusal as Refusal
from nearcast.core.engine.queries.attribute_watch import AttributeWatch
from nearcast.core.engine.queries.explanation import explain
from nearcast.core.engine.queries.node_query import NodePage, NodeQuery, NodeSearch, Sees
from nearcast.core.engine.session_presence import SessionPresence
from nearcast.core.engine.settings import EngineSettings as EngineSettings
from nearcast.core.engine.standing_inputs import StandingInputs
from nearcast.core.matching.live import LiveEvents
from nearcast.core.matching.matcher import Matches
from nearcast.core.matching.reference import Verdict
from nearcast.core.model.context import NodeState
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Announcement, Event, Subscription
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.event_columns import EventColumns
from nearcast.core.model.event_run import EventRun
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.area_resolution import check
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    AreaWatched,
    Forgot,
    Input,
    Moved,
    Presence,
    Published,
    Restarted,
)
from nearcast.core.model.record import Record as Record


class Engine:
    """The state of one broker, one task or one node, and its decisions."""

    def __init__(
        self, settings: EngineSettings | None = None, places: Places | None = None
    ) -> None:
        self.settings = EngineSettings() if settings is None else settings
        self.attribute_watch = AttributeWatch()
        """What a host wants to know of filters; it decides nothing."""
        self._begin(Places() if places is None else places)

    def _begin(self, places: Places) -> None:
        """Know nothing but places."""
        self.seq = 0
        self._state = state = EngineState(self.settings, places)
        self.matcher = state.matcher
        self.rights = state.rights
        """Who may see what of whom, by rule."""
        self._event_ingest = EventIngest(state)
        self._context = ContextUpdates(state)
        self._standing = StandingInputs(state)
        self._presence = SessionPresence(state)
        self._find_methods()
        self._handlers: Handlers = {
            **self._context.handlers,
            **self._standing.handlers,
            **self._presence.handlers,
            Forgot: self._forget,
            Restarted: self._restart,
        }

    def register(self, dependent: EngineDependent) -> None:
        """Tell somebody of changes from now on, after all who are told already."""
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
        inputs: Sequence[Input],
        times: Sequence[float],
        now: float | None = None,
        *,
        again: bool = False,
        quietly: bool = False,
    ) -> Outcome:
        """Apply inputs in their order, each at its time: as so many steps, in one batch.

        `now` is when the first step is made, the time of the first input unless said. With
        `again` they are records, which were checked and completed before. With `quietly` nobody
        asks who gets an event, unless it matters for what comes later.
        """
        self.rights.begin()
        if now is None:
            now = times[0] if times else 0.0
        step = EngineStep(now)
        outcome = step.outcome
        self._expire(step)
        done = 0
        for index, (each, at) in enumerate(zip(inputs, times, strict=True)):
            if index < done:
                continue
            step.index = index
            if at != now:
                step.now = now = at
                self._pass_to_now(step)
            if type(each) is Moved and not step.events:
                done = self._context.move_later(inputs, times, step)
                if done > index:
                    first, self.seq = self.seq + 1 - index, self.seq + done - index
                    outcome.records += [
                        Record(first + place, now, inputs[place]) for place in range(index, done)
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
                    if self._state.policy.is_elsewhere(event.subject) or (
                        quietly and self._leaves_no_trace(event)
                    ):
                        self._match(step)
                        self._state.recent.note([event], (now,))
                        if self.attribute_watch:
                            self.attribute_watch.see([event], self.matcher.world)
                    else:
                        step.events.append(event)
                        step.made.append(now)
                        if self.matcher.counting or event.stays:
                            # What follows may depend on this very event.
                            self._match(step)
                        if not self._state.policy.is_recorded(event.subject):
                            continue
                else:
                    self._match(step)
                    self._handlers[type(each)](each, step)
            except ModelError as error:
                outcome.refusals.append(Refusal(index, str(error)))
                continue
            self.seq += 1
            outcome.records.append(Record(self.seq, now, each))
        self._context.settle_moves()
        self._match(step)
        outcome.timer = self.next_timer()
        return outcome

    def play_columns(
        self, events: EventColumns, *, quietly: bool = False
    ) -> tuple[int, Outcome, Deliveries] | None:
        """Apply records of events that are columns, up to where time ends something.

        How many were applied, what time ended before, and who gets them: all as `play` would
        with each of them. None, and nothing is done, if what follows depends on each event.
        """
        if self.matcher.counting:
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
        """When to step again even if nothing arrives."""
        due: float | None = None
        for next_timer in self._timers:
            at = next_timer()
            if at is not None and (due is None or at < due):
                due = at
        return due

    def _pass_to_now(self, step: EngineStep) -> None:
        """Time went on between two inputs; what waits is decided first if something is due."""
        timer = self.next_timer()
        if timer is not None and timer <= step.now:
            self._context.settle_moves()
            self._match(step)
            self._expire(step)
        else:
            self._state.recent.expire(step)

    def _expire(self, step: EngineStep) -> None:
        """End what time ends."""
        for expire in self._expirers:
            expire(step)

    def _leaves_no_trace(self, event: Event) -> bool:
        """Whether who gets an event changes nothing for what comes later."""
        return not event.stays and not self._state.subscriptions.takes_turns

    def _match(self, step: EngineStep) -> None:
        """Decide on the events that wait for it; none are left then."""
        events, made = step.events, step.made
        if not events:
            return
        step.events, step.made = [], []
        matches = self.matcher.match(EventBatch.of(events))
        if self.attribute_watch:
            self.attribute_watch.see(events, self.matcher.world)
        for event, at in zip(events, made, strict=True):
            if self._state.live.keep(event, at):
                step.live_changed(self._state.live.key(event), event)
        for events_made in self._event_watchers:
            events_made(events, made, step)
        withdrawal = None
        if events[-1].valid_s == 0.0:
            # What stays, or ends that, is the last of those that are decided together.
            withdrawal = events.pop()
            is_last = matches.event == len(events)
            columns = matches.subscription[is_last], matches.priority[is_last]
            matches = Matches(*(column[~is_last] for column in matches))
        if len(matches.event):
            deliveries = self._state.subscriptions.deliveries(events, matches)
            self._state.live_delivery.deliver(deliveries, step.outcome)
        if withdrawal is not None:
            numbers, priorities = (column.tolist() for column in columns)
            met = [(withdrawal, *each) for each in zip(numbers, priorities, strict=True)]
            self._state.live_delivery.withdraw(withdrawal, met, step.outcome)
            if self._state.live.withdraw(withdrawal):
                step.live_changed(self._state.live.key(withdrawal), None)

    def _forget(self, each: Forgot, step: EngineStep) -> None:
        """Know nothing of a node any more, nor of what it said."""
        self._state.announcements.forget(each.node)
        self._context.forget(each.node, step)

    # Beginning where another left off

    def resume(
        self,
        seq: int,
        subscriptions: Iterable[Subscription],
        live: Iterable[tuple[Event, float | None, Iterable[str]]] = (),
        nodes: Iterable[NodeState] = (),
        standing: Sequence[Input] = (),
        known: Iterable[tuple[str, str]] = (),
        recent: Iterable[tuple[float, Event]] = (),
    ) -> None:
        """Begin where another left off, telling nobody anything.

        A live event comes with its expiry and the sessions that have seen it. What stands are
        places, rights, announcements, watched areas and who is away; known are publishers and
        ids of events before; recent are events that count, each with its time, the oldest first.
        """
        self.seq = seq
        # What is decided on comes before what is decided: nobody is to miss what they may see.
        self._context.resume_places_and_rights(standing)
        self._state.subscriptions.add(list(subscriptions))
        self._context.resume(nodes)
        # Targets that move with nodes lie where those are.
        for event, expires, seen in live:
            self._state.live.resume(event, expires, seen)
        self._event_ingest.resume(known)
        self._standing.resume(standing)
        self._presence.resume(standing)
        remembered = list(recent)
        self._state.recent.note([event for _, event in remembered], [at for at, _ in remembered])
        self._state.recent.refresh()

    def restarted(self, sessions: Iterable[str], now: float) -> Record | None:
        """What to record when a broker begins, with these sessions; None if there is nothing."""
        value = self.settings.restart(sessions)
        if not self.seq and value == EngineSettings().restart(()):
            return None
        self.seq += 1
        return Record(self.seq, now, value)

    def _restart(self, each: Restarted, step: EngineStep) -> None:
        """Be as a broker that begins anew: resume with what it keeps."""
        kept = set(each.sessions)
        wanted = [one for one in self.subscriptions.values() if one.owner in kept]
        live = [(event, expires, seen & kept) for event, expires, seen in self._state.live.kept()]
        announced = [one for one in self.announcements.values() if one.owner in kept]
        standing: list[Input] = [
            self.rights.rules,
            *map(Announced, announced),
            *self._state.areas.watched(),
            *(Presence(name, False) for name in each.sessions),
        ]
        nodes, known, seq = list(self.nodes.values()), self._event_ingest.known(), self.seq
        recent = self._state.recent
        self.settings = self.settings.after(each)
        self._begin(self.matcher.places)
        if each.keeps_recent:
            self._state.recent.take_over(recent)
        self.resume(seq, wanted, live, nodes, standing, known)
        # As the first step of a broker does, at whatever time.
        self._expire(step)

    # What hosts ask

    @property
    def nodes(self) -> Mapping[str, NodeState]:
        """What is known of nodes, by name."""
        return self._state.nodes.by_name

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """All subscriptions, by id."""
        return self._state.subscriptions.by_id

    def names_in(self, deliveries: Deliveries) -> tuple[Texts, Texts]:
        """The session of each copy and the subscription of each row, by their numbers now."""
        rows = deliveries.rows
        copies = np.flatnonzero(rows.starts).astype(np.int32)
        return self._state.subscriptions.names.taken(rows.subscription, copies)

    @property
    def live(self) -> LiveEvents:
        """All live events, by key."""
        return self.matcher.live

    def addressed(
        self, event: Event, recipients: Iterable[tuple[Sequence[str], int]], replayed: bool = False
    ) -> Deliveries:
        """Deliveries of an event that were decided elsewhere: ids of subscriptions, priorities."""
        return self._state.subscriptions.addressed(event, recipients, replayed)

    @property
    def announcements(self) -> Mapping[tuple[str, str], Announcement]:
        """All announcements, by node and subject."""
        return self._state.announcements.by_subject

    @property
    def watched_areas(self) -> Iterator[AreaWatched]:
        """All watched areas, and for whom."""
        return self._state.areas.watched()

    @property
    def has_readers(self) -> bool:
        """Whether anybody reads what is known of nodes."""
        return self._state.subscriptions.readers > 0

    def find_nodes(self, query: NodeQuery, sees: Sees, others: Iterable[str] = ()) -> NodePage:
        """Who is there, as far as an asker sees them.

        `others` are nodes of which nothing may be known but that they are.
        """
        search = NodeSearch(self.matcher, self.rights.context, sees)
        return search.find(query, lambda: self.nodes.keys() | set(others))

    def vet_area(self, area: Area) -> None:
        """Raise `ModelError` if an area names a place that there is not."""
        check(area, self.matcher.places)

    def explain(self, event: Event, node: str) -> list[Verdict]:
        """Why a node does or does not get an event now: one verdict a subscription."""
        event = self._event_ingest.complete(event)
        wanted = [each for each in self.subscriptions.values() if each.node == node]
        return [explain(event, subscription, self.matcher.world) for subscription in wanted]

    def route(self, publisher: str, subject: str) -> Route | None:
        """Who gets what a node publishes on a subject, if that alone decides.

        Holds for events that do not stay, have no target and carry no id of their own. Whoever
        sends one along its route takes `note` of it.
        """
        if self.matcher.counting or (publisher, subject) in self._state.announcements.by_subject:
            return None
        if not self.settings.routes or self._state.policy.is_elsewhere(subject):
            return None
        return self._state.subscriptions.routes.of(subject)

    def fitting(self, subject: str) -> list[Subscription]:
        """All subscriptions whose pattern a subject fits, whatever else they ask for."""
        return self._state.subscriptions.routes.fitting(subject)

    def note(self, run: EventRun) -> int | None:
        """Take note of events that went along their route.

        They count, and have their places in the log: the first `seq`, None if they leave no
        record.
        """
        self._state.recent.note_run(run)
        if not self._state.policy.is_recorded(run.subject):
            return None
        first = self.seq + 1
        self.seq += len(run)
        return first

    def next_seq(self) -> int:
        """A place in the log for something else that is recorded."""
        self.seq += 1
        return self.seq

    def position(self, node: str) -> Position | None:
        """Where a node is, as far as that is known."""
        return self._state.nodes.position(node)

    def vet(self, value: Subscription | Announcement | Event | AreaWatched) -> None:
        """Raise `ModelError` if it would be refused for its subject or its area."""
        self._standing.vet(value)

    def announced_by(self, session: str) -> list[tuple[str, str]]:
        """The node and the subjects of a session's announcements."""
        return self._state.announcements.of_session(session)

    def has_seen(self, event: Event, session: str) -> bool:
        """Whether a session has this very version of a live event."""
        return self._state.live.has(event, session)

    def comes_later(self, event: Event, subscriptions: Sequence[Subscription]) -> bool:
        """Whether a session that cannot take an event is to get it later, while it is live."""
        return self._state.live_delivery.comes_later(event, subscriptions) and self.has_seen(
            event, subscriptions[0].owner
        )

    def live_key(self, event: Event) -> str:
        """Under what an event that stays is kept."""
        return self._state.live.key(event)

    def expiry_of(self, key: str) -> float | None:
        """When a live event ends."""
        return self._state.live.expiry(key)
