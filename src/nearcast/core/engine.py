"""The engine: ingest, context, match, adapt, gather, propagate, for one batch of inputs.

Pure: inputs and the time go in; deliveries, changes, log records and the time of the next timer
come out. Inputs are applied strictly in their order; events that follow each other are matched
as one batch. What was refused changes nothing and says why. Adaptation and gathering pass
everything through until they are built.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.area_watch import AreaWatch, Sighting
from nearcast.core.fan import Fan
from nearcast.core.live_book import LiveBook, Met
from nearcast.core.matching.matcher import Matcher
from nearcast.core.matching.reference import Verdict, decide
from nearcast.core.model import position as positions
from nearcast.core.model.area import PlaceArea, PlaceHere
from nearcast.core.model.area_resolution import check
from nearcast.core.model.context import NodeState, check_attributes, moved, patched
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Announcement, Delivery, Event, Subscription
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.inputs import (
    Announced,
    AreaUnwatched,
    AreaWatched,
    ContextPatched,
    Forgot,
    Input,
    Left,
    Moved,
    PlaceDefined,
    Presence,
    Published,
    Restarted,
    RulesSet,
    SightSet,
    Subscribed,
    Unannounced,
    Unsubscribed,
)
from nearcast.core.model.places import Places
from nearcast.core.model.position import Position
from nearcast.core.model.subject import SubjectRules, check_pattern, check_subject
from nearcast.core.recent_book import RecentBook
from nearcast.core.rights import Rights
from nearcast.core.routes import Route
from nearcast.core.subscription_book import SubscriptionBook


class Settings(Struct, frozen=True):
    """What an operator may choose."""

    position_ttl_s: float = 600.0
    """Positions older than this count as none."""
    ahead_s: float = 60.0
    """An event's time farther ahead than this is replaced by the time of ingest."""
    recent_s: float = 300.0
    """How far back `count()` looks."""
    recent_most: int = 100_000
    recent_most_bytes: int = 64 << 20
    known_ids_most: int = 100_000
    """So many ids of events are remembered to recognise repeats."""
    unrecorded: tuple[str, ...] = ()
    """Patterns of subjects whose events leave no record."""
    elsewhere: tuple[tuple[str, bool], ...] = ()
    """Patterns of subjects, and whether their events are recorded here and decided elsewhere.

    The first that fits counts.
    """
    routes: bool = True
    """Events may go along a route; if not, all are decided on one by one."""


class Record(Struct, frozen=True):
    """One line of the log: an input that was applied, and when."""

    seq: int
    ingested: float
    input: Input


class Refusal(Struct, frozen=True):
    """An input that was not applied."""

    index: int
    reason: str


class Changed(Struct, frozen=True):
    """Something to keep: a node's state, or a live event under its key (None: gone)."""

    key: str
    value: NodeState | Event | None
    before: NodeState | None = None
    """What was known of the node."""
    index: int = -1
    """The input that changed it; if time did, the one before which it was noticed."""


class Outcome(Struct):
    """What a step decided."""

    sent: list[Fan | Delivery] = []
    """What goes out, in order."""
    changes: list[Changed] = []
    records: list[Record] = []
    refusals: list[Refusal] = []
    passed_over: list[tuple[Event, str]] = []
    """Live events that a session does not want now: it is as if it had seen them."""
    sightings: list[Sighting] = []
    timer: float | None = None
    """When to step again even if nothing arrives."""

    @property
    def deliveries(self) -> list[Delivery]:
        """What goes out, one by one."""
        found: list[Delivery] = []
        for each in self.sent:
            if isinstance(each, Fan):
                found += each.deliveries()
            else:
                found.append(each)
        return found


class Engine:
    """The state of one broker, one task or one node, and its decisions."""

    def __init__(self, settings: Settings | None = None, places: Places | None = None) -> None:
        self.settings = Settings() if settings is None else settings
        self._begin(Places() if places is None else places)

    def _begin(self, places: Places) -> None:
        """Know nothing but places."""
        self.matcher = Matcher(places)
        self.nodes: dict[str, NodeState] = {}
        self.announcements: dict[tuple[str, str], Announcement] = {}
        self._announced_by: dict[str, set[tuple[str, str]]] = {}
        self.seq = 0
        self._index = 0
        """The input that is being applied."""
        self.rights = Rights(self.matcher, self._state)
        """Who may see what of whom, by rule."""
        self._book = LiveBook(self.matcher)
        self._wishes = SubscriptionBook(self.matcher)
        self._recent = RecentBook(
            self.matcher, self.settings.recent_most, self.settings.recent_most_bytes
        )
        self._fixes: deque[tuple[float, str]] = deque()
        self._moving: dict[str, Position] = {}
        """Moves that are still to be made, of nodes that have a position."""
        self._uncertain: set[str] = set()
        """Sessions from before: nobody knows what they missed."""
        self._areas = AreaWatch(self.matcher, self.rights.context)
        self._known: dict[tuple[str, str], None] = {}
        self._unrecorded = SubjectRules([(each, True) for each in self.settings.unrecorded])
        self._elsewhere = SubjectRules(self.settings.elsewhere)
        self._handlers: dict[type, Callable[..., None]] = {
            Moved: self._move,
            ContextPatched: self._patch,
            Subscribed: self._subscribe,
            Unsubscribed: self._unsubscribe,
            Announced: self._announce,
            Unannounced: self._unannounce,
            PlaceDefined: self._define_place,
            SightSet: self._set_sight,
            RulesSet: self._set_rules,
            Presence: self._be_present,
            Left: self._leave,
            Forgot: self._forget,
            AreaWatched: self._watch,
            AreaUnwatched: self._unwatch,
            Restarted: self._restart,
        }

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """All subscriptions, by id."""
        return self._wishes.by_id

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
        outcome = Outcome()
        self.rights.begin()
        if now is None:
            now = times[0] if times else 0.0
        self._index = 0
        self._expire(now, outcome)
        events: list[Event] = []
        made: list[float] = []
        for index, (each, at) in enumerate(zip(inputs, times, strict=True)):
            self._index = index
            if at != now:
                self._pass_to(at, events, made, outcome)
                now = at
            try:
                if isinstance(each, Moved) and not events and self._move_later(each, now, outcome):
                    self.seq += 1
                    outcome.records.append(Record(self.seq, now, each))
                    continue
                self._settle_moves()
                if isinstance(each, Published):
                    event = self._ingest(each.event, now, again)
                    if event is None:
                        continue
                    each = Published(event)
                    if self.is_elsewhere(event.subject) or (
                        quietly and self._leaves_no_trace(event)
                    ):
                        self._match(events, made, outcome)
                        self._note([event], (now,))
                    else:
                        events.append(event)
                        made.append(now)
                        if self.matcher.counting or event.stays:
                            # What follows may depend on this very event.
                            self._match(events, made, outcome)
                        if not self.is_recorded(event.subject):
                            continue
                else:
                    self._match(events, made, outcome)
                    self._handlers[type(each)](each, now, outcome)
            except ModelError as error:
                outcome.refusals.append(Refusal(index, str(error)))
                continue
            self.seq += 1
            outcome.records.append(Record(self.seq, now, each))
        self._settle_moves()
        self._match(events, made, outcome)
        outcome.timer = self.next_timer()
        return outcome

    def _leaves_no_trace(self, event: Event) -> bool:
        """Whether who gets an event changes nothing for what comes later."""
        return not event.stays and not self._wishes.takes_turns

    def _pass_to(
        self, now: float, events: list[Event], made: list[float], outcome: Outcome
    ) -> None:
        """Time goes on between two inputs; what waits is decided first if something is due."""
        timer = self.next_timer()
        if timer is not None and timer <= now:
            self._settle_moves()
            self._match(events, made, outcome)
            self._expire(now, outcome)
        else:
            self._recent.expire(now - self.settings.recent_s)

    def explain(self, event: Event, node: str) -> list[Verdict]:
        """Why a node does or does not get an event now: one verdict a subscription."""
        event = self._complete(event)
        wanted = [each for each in self.subscriptions.values() if each.node == node]
        return [decide(event, subscription, self.matcher.world) for subscription in wanted]

    def route(self, publisher: str, subject: str) -> Route | None:
        """Who gets what a node publishes on a subject, if that alone decides.

        Holds for events that do not stay, have no target and carry no id of their own. Whoever
        sends one along its route takes `note` of it.
        """
        if self.matcher.counting or (publisher, subject) in self.announcements:
            return None
        if not self.settings.routes or self._elsewhere.fits(subject):
            return None
        return self._wishes.routes.of(subject)

    def fitting(self, subject: str) -> list[Subscription]:
        """All subscriptions whose pattern a subject fits, whatever else they ask for."""
        return self._wishes.routes.fitting(subject)

    def note(self, events: Sequence[Event], now: float) -> int | None:
        """Take note of events on one subject that went along their route.

        They count, and have their places in the log: the first `seq`, None if they leave no
        record.
        """
        self._note(events, (now,) * len(events))
        if not self.is_recorded(events[0].subject):
            return None
        first = self.seq + 1
        self.seq += len(events)
        return first

    def next_seq(self) -> int:
        """A place in the log for something else that is recorded."""
        self.seq += 1
        return self.seq

    def position(self, node: str) -> Position | None:
        """Where a node is, as far as that is known."""
        state = self.nodes.get(node)
        return None if state is None else state.position

    def vet(self, value: Subscription | Announcement | Event | AreaWatched) -> None:
        """Raise `ModelError` if it would be refused for its subject or its area."""
        if isinstance(value, Subscription):
            check_pattern(value.subject)
            area = value.from_
        elif isinstance(value, AreaWatched):
            area = value.area
        else:
            check_subject(value.subject)
            area = value.to
        if area is not None:
            check(area, self.matcher.places)

    @property
    def has_readers(self) -> bool:
        """Whether anybody reads what is known of nodes."""
        return self._wishes.readers > 0

    def announced_by(self, session: str) -> list[tuple[str, str]]:
        """The node and the subjects of a session's announcements."""
        return sorted(self._announced_by.get(session, ()))

    def has_seen(self, event: Event, session: str) -> bool:
        """Whether a session has this very version of a live event."""
        return self._book.has(event, session)

    def live_key(self, event: Event) -> str:
        """Under what an event that stays is kept."""
        return self._book.key(event)

    def expiry_of(self, key: str) -> float | None:
        """When a live event ends."""
        return self._book.expiry(key)

    def is_recorded(self, subject: str) -> bool:
        """Whether events on a subject leave a record; what is decided elsewhere always does."""
        return not self._unrecorded.fits(subject) or self._elsewhere.fits(subject)

    def is_elsewhere(self, subject: str) -> bool:
        """Whether events on a subject are decided on elsewhere."""
        return self._elsewhere.fits(subject)

    def resume(
        self,
        seq: int,
        subscriptions: Iterable[Subscription],
        live: Iterable[tuple[Event, float | None, Iterable[str]]] = (),
        nodes: Iterable[NodeState] = (),
        standing: Sequence[Input] = (),
        known: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Begin where another left off, telling nobody anything.

        A live event comes with its expiry and the sessions that have seen it. What stands are
        places, rights, announcements, watched areas and who is away; known are publishers and
        ids of events before.
        """
        self.seq = seq
        told = Outcome()
        # What is decided on comes before what is decided: nobody is to miss what they may see.
        for first in (PlaceDefined, RulesSet, SightSet):
            for value in standing:
                if isinstance(value, first):
                    self._handlers[first](value, 0.0, told)
        self._wishes.add(list(subscriptions))
        for state in nodes:
            self.nodes[state.node] = state
            self.matcher.update(state.node, self.rights.own(state.attributes))
            if state.previous is not None:
                self.matcher.move(state.node, state.previous)
            if state.position is not None and state.position_at is not None:
                self.matcher.move(state.node, state.position)
                self._fixes.append((state.position_at, state.node))
        self._fixes = deque(sorted(self._fixes))
        self.rights.refresh()
        # Targets that move with nodes lie where those are.
        for event, expires, seen in live:
            self._book.resume(event, expires, seen)
        for at in known:
            self._know(*at)
        for value in standing:
            # Not checked again: a place that is gone since then holds nobody, and lets nobody in.
            if isinstance(value, Announced):
                self._put_announcement(value, 0.0, told)
            elif isinstance(value, AreaWatched):
                self._put_area(value, 0.0, told)
            elif isinstance(value, Presence):
                self._be_present(value, 0.0, told)
                self._uncertain.add(value.session or value.node)
        self._recent.refresh()

    def restarted(self, sessions: Iterable[str], now: float) -> Record | None:
        """What to record when a broker begins, with these sessions; None if there is nothing."""
        chosen = self.settings
        value = Restarted(
            tuple(sessions), chosen.position_ttl_s, chosen.recent_s, chosen.elsewhere,
            not chosen.routes,
        )  # fmt: skip
        if not self.seq and value == Restarted():
            return None
        self.seq += 1
        return Record(self.seq, now, value)

    def _restart(self, each: Restarted, now: float, outcome: Outcome) -> None:
        """Be as a broker that begins anew: resume with what it keeps."""
        kept = set(each.sessions)
        wanted = [one for one in self.subscriptions.values() if one.owner in kept]
        live = [(event, expires, seen & kept) for event, expires, seen in self._book.kept()]
        announced = [one for one in self.announcements.values() if one.owner in kept]
        standing: list[Input] = [
            self.rights.rules,
            *map(Announced, announced),
            *self._areas.watched(),
            *(Presence(name, False) for name in each.sessions),
        ]
        nodes, known, seq = list(self.nodes.values()), list(self._known), self.seq
        self.settings = replace(
            self.settings, position_ttl_s=each.position_ttl_s, recent_s=each.recent_s
        )
        self._begin(self.matcher.places)
        self.resume(seq, wanted, live, nodes, standing, known)

    # 1. ingest

    def _ingest(self, event: Event, now: float, again: bool) -> Event | None:
        """The event as it is decided on, None if it is a repeat."""
        check_subject(event.subject)
        if (event.publisher, event.id) in self._known and not self._withdraws(event):
            return None
        check_attributes(event.attributes)
        positions.number(event.time, "the event's time")
        if event.valid_s is not None and positions.number(event.valid_s, "valid") < 0.0:
            raise ModelError(f"valid is {event.valid_s} seconds; 0 withdraws, more keeps alive")
        if event.position is not None:
            positions.position(event.position.lat, event.position.lon)
        if event.to is not None and not again:
            check(event.to, self.matcher.places)
        self._know(event.publisher, event.id)
        if event.time > now + self.settings.ahead_s:
            event = replace(event, time=now, clock_off=True)
        return self._complete(event)

    def _withdraws(self, event: Event) -> bool:
        """Whether it ends what is live under its own id."""
        if event.valid_s != 0.0:
            return False
        live = self.matcher.live.get(self._book.key(event))
        return self.is_elsewhere(event.subject) or (live is not None and live.id == event.id)

    def _know(self, publisher: str, name: str) -> None:
        """Recognise an event from now on."""
        self._known[publisher, name] = None
        if len(self._known) > self.settings.known_ids_most:
            del self._known[next(iter(self._known))]

    def _complete(self, event: Event) -> Event:
        """The event with what it takes from its publisher: position and standing target."""
        changes: dict[str, object] = {}
        if not event.at_given:
            # Where it is hidden now must not show in what stays when it has gone elsewhere.
            if event.stays and self.rights.conceals(event.publisher):
                changes["position"] = None
            elif event.position is None:
                changes["position"] = self.matcher.world.position(event.publisher)
        if event.to is None:
            standing = self.announcements.get((event.publisher, event.subject))
            if standing is not None:
                changes["to"] = standing.to
        return replace(event, **changes) if changes else event

    # 2. context

    def _move(self, each: Moved, now: float, outcome: Outcome) -> None:
        if each.position is None:
            state = NodeState(each.node, attributes=self._state(each.node).attributes)
        else:
            state = moved(
                self._state(each.node),
                positions.position(each.position.lat, each.position.lon),
                now,
            )
        self._set_state(state, now, outcome)

    def _move_later(self, each: Moved, now: float, outcome: Outcome) -> bool:
        """Note a move that brings nobody anything, to be made with others; False if it might."""
        before = self.nodes.get(each.node)
        if before is None or before.position is None or before.position_at == now:
            return False
        if each.position is None or each.node in self._moving:
            return False
        if not self._moving and not self._is_still():
            return False
        state = moved(before, positions.position(each.position.lat, each.position.lon), now)
        self.nodes[each.node] = state
        self._moving[each.node] = each.position
        self._fixes.append((now, each.node))
        outcome.changes.append(Changed(each.node, state, before, self._index))
        return True

    def _is_still(self) -> bool:
        """Whether there is nothing that a move could bring to anyone, or change for anyone."""
        rights = self.rights
        return not (
            len(self.matcher.live) or len(self._areas) or rights.restricts or rights.rules.grants
        )

    def _settle_moves(self) -> None:
        """Make the moves that were noted."""
        if not self._moving:
            return
        moving, self._moving = self._moving, {}
        rows = np.array([self.matcher.row(node) for node in moving], np.int32)
        at = np.array([(each.lat, each.lon) for each in moving.values()], np.float64)
        self.matcher.move_many(rows, at[:, 0].copy(), at[:, 1].copy())

    def _patch(self, each: ContextPatched, now: float, outcome: Outcome) -> None:
        self.rights.check_patch(each.patch)
        self._set_state(patched(self._state(each.node), each.patch, now), now, outcome)

    def _state(self, node: str) -> NodeState:
        return self.nodes.get(node) or NodeState(node)

    def _set_state(self, state: NodeState, now: float, outcome: Outcome) -> None:
        before = self._state(state.node)
        self.nodes[state.node] = state
        if state.attributes != before.attributes:
            self.matcher.update(state.node, self.rights.own(state.attributes))
        # Two fixes at one place are two fixes: it no longer approaches anything.
        fixed = state.position_at != before.position_at or state.position != before.position
        if fixed:
            self.matcher.move(state.node, state.position)
        # Before anyone is told of it.
        reclassed = self.rights.changed(before, state)
        if fixed:
            if reclassed:
                self.matcher.forget_previous(state.node)
                self.nodes[state.node] = state = replace(state, previous=None, previous_at=None)
            if state.position is not None:
                self._fixes.append((now, state.node))
                first = before.position is None
                seen = self._areas.moved(state.node, first, now, self.nodes)
                outcome.sightings.extend(seen)
            else:
                self._areas.lost(state.node)
            self._deliver_live(self._book.overtaken_by(state.node), outcome)
            for name in self._wishes.following(state.node):
                self._deliver_live(self._met_by_one(name), outcome)
        outcome.changes.append(Changed(state.node, state, before, self._index))
        aimed = () if reclassed else self._wishes.aimed
        self._deliver_live(self._book.met_by(state.node, aimed=aimed), outcome)
        if reclassed:
            self._come_into_sight(state.node, outcome)

    def _come_into_sight(self, node: str, outcome: Outcome) -> None:
        self._areas.refresh()
        self._deliver_live(self._book.met_through(node), outcome)
        for name in self._wishes.following(node):
            self._deliver_live(self._met_by_one(name), outcome)

    # 3. match, 4. adapt, 5. gather, 6. propagate

    def _match(self, events: list[Event], made: list[float], outcome: Outcome) -> None:
        """Decide on events that were made at these times; none are left then."""
        if not events:
            return
        matches = self.matcher.match(EventBatch.of(events))
        for event, at in zip(events, made, strict=True):
            if self._book.keep(event, at):
                outcome.changes.append(Changed(self._book.key(event), event))
        self._note(events, made)
        for each in self._wishes.sent(events, matches):
            if isinstance(each, Fan):
                outcome.sent.append(each)
                continue
            if each.event.stays and not self._wishes.is_shared(each):
                self._book.seen(each.event, each.owner)
            self._deliver(each, outcome)
        for event in events:
            if event.valid_s == 0.0 and self._book.withdraw(event):
                outcome.changes.append(Changed(self._book.key(event), None))
        events.clear()
        made.clear()

    def _note(self, events: Sequence[Event], times: Sequence[float]) -> None:
        """Remember events, but not where a publisher was hidden."""
        if self.rights.restricts:
            events = [
                replace(event, position=None)
                if event.position is not None
                and not event.at_given
                and self.rights.conceals(event.publisher)
                else event
                for event in events
            ]
        self._recent.note(events, times)

    def _deliver_live(self, found: Iterable[Met], outcome: Outcome) -> None:
        for delivery in self._wishes.copies(found, replayed=True):
            if self._book.seen(delivery.event, delivery.owner):
                self._deliver(delivery, outcome)

    def _deliver(self, delivery: Delivery, outcome: Outcome) -> None:
        outcome.sent.append(delivery)
        # Who is away comes back to what it missed, but to no more of MQTT than any broker has.
        if (
            delivery.event.stays
            and not self._wishes.is_shared(delivery)
            and self._wishes.reaches_nobody(delivery)
            and not (delivery.event.retain and self._wishes.is_plain(delivery))
        ):
            self._book.miss(delivery.event, delivery.owner)

    def _met_by_one(self, name: str) -> Iterator[Met]:
        """Live events that concern one subscription now."""
        return self._book.met_by(self.subscriptions[name].node, self._wishes.number(name))

    # Subscriptions, announcements, places, rights

    def _subscribe(self, each: Subscribed, now: float, outcome: Outcome) -> None:
        subscription = each.subscription
        self.vet(subscription)
        (number,) = self._wishes.add([subscription])
        self._recent.refresh()
        if subscription.group is not None:
            return
        met = list(self._book.met_by(subscription.node, number))
        self._deliver_live((found for found in met if not found[0].retain), outcome)
        retained = [found for found in met if found[0].retain]
        for delivery in self._wishes.copies(retained, replayed=True):
            self._book.seen(delivery.event, delivery.owner)
            if each.replay:
                outcome.sent.append(delivery)
            else:
                outcome.passed_over.append((delivery.event, delivery.owner))

    def _unsubscribe(self, each: Unsubscribed, now: float, outcome: Outcome) -> None:
        self._wishes.drop([each.id])
        self._recent.refresh()

    def _announce(self, each: Announced, now: float, outcome: Outcome) -> None:
        self.vet(each.announcement)
        self._put_announcement(each, now, outcome)

    def _put_announcement(self, each: Announced, now: float, outcome: Outcome) -> None:
        at = (each.announcement.node, each.announcement.subject)
        self._end_announcement(at)
        self.announcements[at] = each.announcement
        self._announced_by.setdefault(each.announcement.owner, set()).add(at)

    def _unannounce(self, each: Unannounced, now: float, outcome: Outcome) -> None:
        self._end_announcement((each.node, each.subject))

    def _end_announcement(self, at: tuple[str, str]) -> None:
        announcement = self.announcements.pop(at, None)
        if announcement is not None:
            own = self._announced_by[announcement.owner]
            own.discard(at)
            if not own:
                del self._announced_by[announcement.owner]

    def _watch(self, each: AreaWatched, now: float, outcome: Outcome) -> None:
        self.vet(each)
        self._put_area(each, now, outcome)

    def _put_area(self, each: AreaWatched, now: float, outcome: Outcome) -> None:
        self._areas.put(each.name, each.node, each.area, each.where, self.nodes)

    def _unwatch(self, each: AreaUnwatched, now: float, outcome: Outcome) -> None:
        self._areas.remove(each.name)

    def _define_place(self, each: PlaceDefined, now: float, outcome: Outcome) -> None:
        places = self.matcher.places
        if each.geometry is None:
            places.remove(each.place_kind, each.name, each.parent)
        else:
            places.add(each.place_kind, each.name, each.geometry, each.parent)
        self.matcher.refresh_places()
        self._areas.refresh()
        for node in self.rights.places_changed(self.nodes.values()):
            self._deliver_live(self._book.met_by(node), outcome)
            self._come_into_sight(node, outcome)
        self._deliver_live(self._book.met_in_named_places(), outcome)
        for subscription in self.subscriptions.values():
            if isinstance(subscription.from_, PlaceArea | PlaceHere):
                self._deliver_live(self._met_by_one(subscription.id), outcome)

    def _set_sight(self, each: SightSet, now: float, outcome: Outcome) -> None:
        self.matcher.sight.set_exception(each.viewer, each.other, each.mask)
        self._areas.refresh()
        self._deliver_live(self._book.overtaken_by(each.other), outcome)
        self._deliver_live(self._book.met_by(each.viewer), outcome)

    def _set_rules(self, each: RulesSet, now: float, outcome: Outcome) -> None:
        self.rights.put(each, self.nodes.values())
        self._areas.refresh()
        self._deliver_live(self._book.met_again(), outcome)

    def _be_present(self, each: Presence, now: float, outcome: Outcome) -> None:
        session = each.session or each.node
        if each.here:
            self._wishes.present.add(session)
            self._wishes.away.discard(session)
            self._deliver_live(self._missed_by(session), outcome)
        else:
            self._wishes.present.discard(session)
            self._wishes.away.add(session)

    def _missed_by(self, session: str) -> list[Met]:
        """What a session that comes back did not get while it was away, as it matches now."""
        wanted = [self.subscriptions[name] for name in self._wishes.of_session(session)]
        missed = self._book.missed_by(session)
        if session in self._uncertain:
            self._uncertain.discard(session)
            missed = self._all_met_by(wanted)
        found: list[Met] = []
        for event in missed:
            for each in wanted:
                priority = decide(event, each, self.matcher.world).priority
                if priority is not None:
                    found.append((event, self._wishes.number(each.id), priority))
        return found

    def _all_met_by(self, wanted: Iterable[Subscription]) -> list[Event]:
        """Live events that concern any of these subscriptions now."""
        found: list[Event] = []
        for each in wanted:
            if each.group is None:
                number = self._wishes.number(each.id)
                plainly = self._book.met_plainly(number, each.subject)
                met = plainly if each.plain else self._met_by_one(each.id)
                found += (event for event, _, _ in met)
        return self._book.in_order(found)

    def _leave(self, each: Left, now: float, outcome: Outcome) -> None:
        session = each.session or each.node
        self._wishes.drop(self._wishes.of_session(session))
        self._wishes.present.discard(session)
        self._wishes.away.discard(session)
        self._uncertain.discard(session)
        self._recent.refresh()
        self._book.forget(session)
        for at in list(self._announced_by.get(session, ())):
            self._end_announcement(at)

    def _forget(self, each: Forgot, now: float, outcome: Outcome) -> None:
        for at in [at for at in self.announcements if at[0] == each.node]:
            self._end_announcement(at)
        for key in self._book.published_by(each.node):
            outcome.changes.append(Changed(key, None))
        self._recent.forget(each.node)
        self._areas.lost(each.node)
        self.matcher.forget(each.node)
        gone = self.nodes.pop(each.node, None)
        if gone is not None:
            self.rights.changed(gone, NodeState(each.node))
            outcome.changes.append(Changed(each.node, None, gone, self._index))

    # Time

    def _expire(self, now: float, outcome: Outcome) -> None:
        while self._fixes and self._fixes[0][0] + self.settings.position_ttl_s <= now:
            at, node = self._fixes.popleft()
            state = self.nodes.get(node)
            if state is not None and state.position_at == at:
                gone = NodeState(node, attributes=state.attributes)
                self.nodes[node] = gone
                self.matcher.move(node, None)
                self._areas.lost(node)
                outcome.changes.append(Changed(node, gone, state, self._index))
                if self.rights.changed(state, gone):
                    self._deliver_live(self._book.met_by(node), outcome)
                    self._come_into_sight(node, outcome)
        for key in self._book.expire(now):
            outcome.changes.append(Changed(key, None))
        self._recent.expire(now - self.settings.recent_s)

    def next_timer(self) -> float | None:
        """When to step again even if nothing arrives."""
        timers = [self._book.next_expiry()]
        if self._fixes:
            timers.append(self._fixes[0][0] + self.settings.position_ttl_s)
        return min((at for at in timers if at is not None), default=None)
