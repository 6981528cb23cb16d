"""The engine: ingest, context, match, adapt, gather, propagate, for one batch of inputs.

Pure: inputs and the time go in; deliveries, changes, log records and the time of the next timer
come out. Inputs are applied strictly in their order; events that follow each other are matched
as one batch. What was refused changes nothing and says why. Adaptation and gathering pass
everything through until they are built.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.live_book import LiveBook
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
    ContextPatched,
    Input,
    Left,
    Moved,
    PlaceDefined,
    Published,
    SightSet,
    Subscribed,
    Unannounced,
    Unsubscribed,
)
from nearcast.core.model.places import Places
from nearcast.core.model.subject import check_pattern, check_subject


class Settings(Struct, frozen=True):
    """What an operator may choose."""

    position_ttl_s: float = 600.0
    """Positions older than this count as none."""
    ahead_s: float = 60.0
    """An event's time farther ahead than this is replaced by the time of ingest."""
    recent_s: float = 300.0
    """How far back `count()` looks."""
    recent_most: int = 100_000
    known_ids_most: int = 100_000
    """So many ids of events are remembered to recognise repeats."""


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


class Outcome(Struct):
    """What a step decided."""

    deliveries: list[Delivery] = []
    changes: list[Changed] = []
    records: list[Record] = []
    refusals: list[Refusal] = []
    timer: float | None = None
    """When to step again even if nothing arrives."""


class Engine:
    """The state of one broker, one task or one node, and its decisions."""

    def __init__(self, settings: Settings | None = None, places: Places | None = None) -> None:
        self.settings = Settings() if settings is None else settings
        self.matcher = Matcher(places)
        self.nodes: dict[str, NodeState] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.announcements: dict[tuple[str, str], Announcement] = {}
        self.seq = 0
        self._book = LiveBook(self.matcher)
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._fixes: deque[tuple[float, str]] = deque()
        self._recent: deque[tuple[float, str, Event]] = deque()
        self._known: dict[tuple[str, str], None] = {}
        self._handlers: dict[type, Callable[..., None]] = {
            Moved: self._move,
            ContextPatched: self._patch,
            Subscribed: self._subscribe,
            Unsubscribed: self._unsubscribe,
            Announced: self._announce,
            Unannounced: self._unannounce,
            PlaceDefined: self._define_place,
            SightSet: self._set_sight,
            Left: self._leave,
        }

    def step(self, inputs: Sequence[Input], now: float) -> Outcome:
        """Apply inputs in their order, at one time."""
        outcome = Outcome()
        self._expire(now, outcome)
        events: list[Event] = []
        for index, each in enumerate(inputs):
            try:
                if isinstance(each, Published):
                    event = self._ingest(each.event, now)
                    if event is None:
                        continue
                    each = Published(event)
                    events.append(event)
                    if self.matcher.counting or _stays(event):
                        # What follows may depend on this very event.
                        self._match(events, now, outcome)
                else:
                    self._match(events, now, outcome)
                    self._handlers[type(each)](each, now, outcome)
            except ModelError as error:
                outcome.refusals.append(Refusal(index, str(error)))
                continue
            self.seq += 1
            outcome.records.append(Record(self.seq, now, each))
        self._match(events, now, outcome)
        outcome.timer = self._next_timer()
        return outcome

    def explain(self, event: Event, node: str) -> list[Verdict]:
        """Why a node does or does not get an event now: one verdict a subscription."""
        event = self._complete(event)
        wanted = [each for each in self.subscriptions.values() if each.node == node]
        return [decide(event, subscription, self.matcher.world) for subscription in wanted]

    # 1. ingest

    def _ingest(self, event: Event, now: float) -> Event | None:
        """The event as it is decided on, None if it is a repeat."""
        check_subject(event.subject)
        if (event.publisher, event.id) in self._known:
            return None
        check_attributes(event.attributes)
        positions.number(event.time, "the event's time")
        if event.valid_s is not None and positions.number(event.valid_s, "valid") < 0.0:
            raise ModelError(f"valid is {event.valid_s} seconds; 0 withdraws, more keeps alive")
        if event.position is not None:
            positions.position(event.position.lat, event.position.lon)
        if event.to is not None:
            check(event.to, self.matcher.places)
        self._known[event.publisher, event.id] = None
        if len(self._known) > self.settings.known_ids_most:
            del self._known[next(iter(self._known))]
        if event.time > now + self.settings.ahead_s:
            event = replace(event, time=now)
        return self._complete(event)

    def _complete(self, event: Event) -> Event:
        """The event with what it takes from its publisher: position and standing target."""
        changes: dict[str, object] = {}
        if event.position is None and not event.at_given:
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

    def _patch(self, each: ContextPatched, now: float, outcome: Outcome) -> None:
        self._set_state(patched(self._state(each.node), each.patch, now), now, outcome)

    def _state(self, node: str) -> NodeState:
        return self.nodes.get(node) or NodeState(node)

    def _set_state(self, state: NodeState, now: float, outcome: Outcome) -> None:
        before = self._state(state.node)
        self.nodes[state.node] = state
        if state.attributes != before.attributes:
            self.matcher.update(state.node, state.attributes)
        # Two fixes at one place are two fixes: it no longer approaches anything.
        if state.position_at != before.position_at or state.position != before.position:
            self.matcher.move(state.node, state.position)
            if state.position is not None:
                self._fixes.append((now, state.node))
            self._deliver_live(self._book.overtaken_by(state.node), outcome)
        outcome.changes.append(Changed(state.node, state))
        self._deliver_live(self._book.met_by(state.node), outcome)

    # 3. match, 4. adapt, 5. gather, 6. propagate

    def _match(self, events: list[Event], now: float, outcome: Outcome) -> None:
        if not events:
            return
        batch = EventBatch.of(events)
        matches = self.matcher.match(batch)
        rows = zip(*(column.tolist() for column in matches), strict=True)
        found = [(e, number, priority) for e, number, priority in rows]
        for event in events:
            if self._book.keep(event, now):
                outcome.changes.append(Changed(self._book.key(event), event))
            self._remember(event, now)
        pairs = ((events[e], number, priority) for e, number, priority in found)
        for delivery in self._propagate(pairs):
            self._book.seen(delivery.event, delivery.node)
            outcome.deliveries.append(delivery)
        for event in events:
            if event.valid_s == 0.0 and self._book.withdraw(event):
                outcome.changes.append(Changed(self._book.key(event), None))
        events.clear()

    def _propagate(self, pairs: Iterator[tuple[Event, int, int]]) -> list[Delivery]:
        """One copy per event and node: best priority, all subscriptions that fit."""
        copies: dict[tuple[int, str], Delivery] = {}
        for event, number, priority in pairs:
            subscription = self.subscriptions[self._ids[number]]
            if subscription.no_local and subscription.node == event.publisher:
                continue
            at = (id(event), subscription.node)
            copy = copies.get(at)
            if copy is None:
                copies[at] = Delivery(event, subscription.node, (subscription.id,), priority)
            else:
                copies[at] = replace(
                    copy,
                    subscriptions=(*copy.subscriptions, subscription.id),
                    priority=min(copy.priority, priority),
                )
        return list(copies.values())

    def _deliver_live(self, pairs: Iterator[tuple[Event, int, int]], outcome: Outcome) -> None:
        for delivery in self._propagate(pairs):
            if self._book.seen(delivery.event, delivery.node):
                outcome.deliveries.append(delivery)

    # Subscriptions, announcements, places, rights

    def _subscribe(self, each: Subscribed, now: float, outcome: Outcome) -> None:
        subscription = each.subscription
        check_pattern(subscription.subject)
        if subscription.from_ is not None:
            check(subscription.from_, self.matcher.places)
        self._drop(subscription.id)
        number = self.matcher.add(subscription)
        self.subscriptions[subscription.id] = subscription
        self._numbers[subscription.id] = number
        self._ids[number] = subscription.id
        met = list(self._book.met_by(subscription.node, number))
        self._deliver_live((found for found in met if not found[0].retain), outcome)
        retained = [found for found in met if found[0].retain]
        for delivery in self._propagate(iter(retained)):
            self._book.seen(delivery.event, delivery.node)
            if each.replay:
                outcome.deliveries.append(delivery)

    def _unsubscribe(self, each: Unsubscribed, now: float, outcome: Outcome) -> None:
        self._drop(each.id)

    def _drop(self, name: str) -> None:
        if name in self.subscriptions:
            number = self._numbers.pop(name)
            self.matcher.remove(number)
            del self._ids[number], self.subscriptions[name]

    def _announce(self, each: Announced, now: float, outcome: Outcome) -> None:
        check_subject(each.announcement.subject)
        check(each.announcement.to, self.matcher.places)
        self.announcements[each.announcement.node, each.announcement.subject] = each.announcement

    def _unannounce(self, each: Unannounced, now: float, outcome: Outcome) -> None:
        self.announcements.pop((each.node, each.subject), None)

    def _define_place(self, each: PlaceDefined, now: float, outcome: Outcome) -> None:
        places = self.matcher.places
        if each.geometry is None:
            places.remove(each.place_kind, each.name, each.parent)
        else:
            places.add(each.place_kind, each.name, each.geometry, each.parent)
        self.matcher.refresh_places()
        self._deliver_live(self._book.met_in_named_places(), outcome)
        for subscription in self.subscriptions.values():
            if isinstance(subscription.from_, PlaceArea | PlaceHere):
                found = self._book.met_by(subscription.node, self._numbers[subscription.id])
                self._deliver_live(found, outcome)

    def _set_sight(self, each: SightSet, now: float, outcome: Outcome) -> None:
        self.matcher.sight.set_exception(each.viewer, each.other, each.mask)
        self._deliver_live(self._book.met_by(each.viewer), outcome)

    def _leave(self, each: Left, now: float, outcome: Outcome) -> None:
        for name in [s.id for s in self.subscriptions.values() if s.node == each.node]:
            self._drop(name)
        for at in [at for at in self.announcements if at[0] == each.node]:
            del self.announcements[at]
        self.matcher.forget(each.node)
        self._book.forget(each.node)
        if self.nodes.pop(each.node, None) is not None:
            outcome.changes.append(Changed(each.node, None))

    # Time

    def _expire(self, now: float, outcome: Outcome) -> None:
        while self._fixes and self._fixes[0][0] + self.settings.position_ttl_s < now:
            at, node = self._fixes.popleft()
            state = self.nodes.get(node)
            if state is not None and state.position_at == at:
                gone = NodeState(node, attributes=state.attributes)
                self.nodes[node] = gone
                self.matcher.move(node, None)
                outcome.changes.append(Changed(node, gone))
        for key in self._book.expire(now):
            outcome.changes.append(Changed(key, None))
        while self._recent and self._recent[0][0] + self.settings.recent_s < now:
            self.matcher.world.recent.remove(self._recent.popleft()[1])

    def _remember(self, event: Event, now: float) -> None:
        key = f"{event.publisher}\0{event.id}"
        self._recent.append((now, key, event))
        if len(self._recent) > self.settings.recent_most:
            self.matcher.world.recent.remove(self._recent.popleft()[1])
        if self.matcher.counting:
            if len(self.matcher.world.recent) + 1 < len(self._recent):
                for _, other, earlier in self._recent:
                    self.matcher.world.recent.put(other, earlier)
            else:
                self.matcher.world.recent.put(key, event)
        elif len(self.matcher.world.recent):
            self.matcher.world.recent.clear()

    def _next_timer(self) -> float | None:
        timers = [self._book.next_expiry()]
        if self._fixes:
            timers.append(self._fixes[0][0] + self.settings.position_ttl_s)
        return min((at for at in timers if at is not None), default=None)


def _stays(event: Event) -> bool:
    return event.valid_s is not None or event.object is not None or event.retain
