"""Delivering: each live event is sent once to each session that it matches, for whatever reason.

A session that was disconnected gets what it missed on return. A withdrawal is sent to the sessions
that have the event, wherever they are now.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from nearcast.core.engine.books.live_book import LiveBook
from nearcast.core.engine.books.subscription_book import SubscriptionBook
from nearcast.core.engine.delivery.deliveries import Deliveries, Recipient
from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.outcome import EngineStep, Outcome
from nearcast.core.matching.matcher import NO_LIVE_MATCHES, LiveMatches, Matcher, Matches
from nearcast.core.matching.tables import I32, NONE
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.area import PlaceArea, PlaceHere

EVALUATED_AT_ONCE = 1_000
"""So many predicates are evaluated outside kernels by one input that brings live events."""


class LiveDelivery(EngineDependent):
    """Turns matches into deliveries, and records which session has which live event."""

    def __init__(
        self, matcher: Matcher, live: LiveBook, subscriptions: SubscriptionBook, at_once: int = 0
    ) -> None:
        self._matcher = matcher
        self._at_once = at_once
        """So many live events are brought to a session by one input; 0: any."""
        self._evaluated_at_once = EVALUATED_AT_ONCE if at_once else 0
        self._live = live
        self._subscriptions = subscriptions

    @property
    def ignores_moves(self) -> bool:
        """True if no event is live."""
        return not len(self._live)

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        """Deliver live events that match because a node changed."""
        node, outcome = update.after.node, step.outcome
        if not update.expired:
            if update.fixed:
                self.deliver_live(self._live.overtaken_by(node), outcome)
                self._deliver_to_followers(node, outcome)
            aimed = () if update.reclassed else self._subscriptions.aimed
            self._deliver_to_node(node, outcome, aimed)
        elif update.reclassed:
            self._deliver_to_node(node, outcome)
        if update.reclassed:
            self._come_into_sight(node, outcome)

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """End all live events of a node."""
        for key in self._live.published_by(node):
            step.live_changed(key, None)

    def places_changed(self, reclassed: Sequence[str], step: EngineStep) -> None:
        """Deliver live events whose targets are places, or to subscriptions with such areas."""
        outcome = step.outcome
        for node in reclassed:
            self._deliver_to_node(node, outcome)
            self._come_into_sight(node, outcome)
        self.deliver_live(self._live.met_in_named_places(), outcome)
        if len(self._live):
            every = self._subscriptions.by_id.values()
            placed = [each.id for each in every if isinstance(each.from_, PlaceArea | PlaceHere)]
            self._deliver_to(list(map(self._subscriptions.number, placed)), outcome)

    def sight_changed(self, viewer: str, other: str, step: EngineStep) -> None:
        """Deliver live events that became visible."""
        self.deliver_live(self._live.overtaken_by(other), step.outcome)
        self._deliver_to_node(viewer, step.outcome)

    def rules_changed(self, step: EngineStep) -> None:
        """Deliver live events that became visible."""
        self.deliver_live(self._live.met_again(), step.outcome)

    def expire(self, step: EngineStep) -> None:
        """End events that are no longer valid."""
        for key in self._live.expire(step.now):
            step.live_changed(key, None)

    def next_timer(self) -> float | None:
        """The time at which the next live event expires."""
        return self._live.next_expiry()

    def _come_into_sight(self, node: str, outcome: Outcome) -> None:
        self.deliver_live(self._live.met_through(node), outcome)
        self._deliver_to_followers(node, outcome)

    def deliver(self, deliveries: Deliveries, outcome: Outcome) -> None:
        """Deliver new events, after older ones on their subjects; only the last may stay."""
        self._bring_older(deliveries, outcome)
        outcome.sent.append(deliveries)
        last = len(deliveries.events) - 1
        event = deliveries.events[last]
        if event.stays:
            recipients = [who for who, place, _ in deliveries.copies() if place == last]
            own = [who.owner for who in recipients if who.subscriptions[0].group is None]
            self._live.mark_seen(event, own)
            for who in recipients:
                self._note_missed(event, who)

    def deliver_live(self, found: LiveMatches, outcome: Outcome) -> None:
        """Deliver live events, given in the order of versions, to sessions that have not seen them.

        Shared groups have had their copy.
        """
        if len(found.row):
            found = found.only(self._subscriptions.are_own(found.subscription))
            numbers, which = np.unique(found.subscription, return_inverse=True)
            sessions = [self._subscriptions.at(number).owner for number in numbers.tolist()]
            seen = self._matcher.live.seen
            new = seen.unseen(found.row, seen.numbers(sessions)[which])
            self._deliver_new(found if new.all() else found.only(new), outcome)

    def replay(self, found: LiveMatches, outcome: Outcome, *, send: bool) -> None:
        """Deliver live events to new subscriptions, whether their sessions have seen them or not.

        Without `send` they count as seen.
        """
        if send:
            self._send(self._replayed(self._first(found, outcome)), outcome)
        else:
            deliveries = self._replayed(found)
            events = deliveries.events
            outcome.passed_over += [(events[at], who.owner) for who, at, _ in deliveries.copies()]

    def _deliver_new(self, found: LiveMatches, outcome: Outcome) -> None:
        if not len(found.row):
            return
        deliveries = self._replayed(self._first(found, outcome))
        self._send(deliveries, outcome)
        if self._subscriptions.away:
            for who, place, _ in deliveries.copies():
                self._note_missed(deliveries.events[place], who)

    def catch_up(self, session: str, outcome: Outcome) -> None:
        """Deliver live events that a session missed, as many as one input brings."""
        self.bring(session, self._live.missed_by(session, self._at_once), outcome)

    def bring_missed(self, session: str, outcome: Outcome) -> None:
        """Deliver the live events that a session missed; those beyond one input are deferred."""
        self.bring(session, self._live.missed_by(session), outcome)

    def bring_unseen(self, session: str, outcome: Outcome) -> None:
        """Deliver the live events that a session's subscriptions match, and that it has not seen.

        Those beyond one input are deferred.
        """
        self._live.missed_by(session)
        self.deliver_to(self._numbers_of(session), outcome)

    def bring(self, session: str, rows: I32, outcome: Outcome) -> None:
        """Deliver those of some live events that a session's subscriptions match now.

        Those beyond one input are deferred.
        """
        found, decided = self._decide(rows, self._numbers_of(session))
        self._live.put_back(session, rows[decided:])
        self.deliver_live(found, outcome)
        if self._live.is_behind(session):
            outcome.behind.add(session)

    def decide_for_new(
        self, numbers: Sequence[int], outcome: Outcome, *, send: bool
    ) -> LiveMatches:
        """Return the live events that new subscriptions match, of those that one input can decide.

        The others are deferred for sessions that have not got them; without `send` retained ones
        count as seen.
        """
        if not len(self._live):
            return NO_LIVE_MATCHES
        rows, live = self._matcher.live_candidates(numbers), self._matcher.live
        found, decided = self._decide(rows, numbers)
        left, owners = rows[decided:], self._owners(numbers)
        if not send:
            retained = live.columns.retained[left]
            for session, unseen in self._unseen(left[retained], owners):
                live.seen.mark_for(unseen, session)
                outcome.passed_over += [(live.event_at(row), session) for row in unseen.tolist()]
            left = left[~retained]
        self._defer(left, owners, outcome)
        return found

    def _decide(
        self,
        rows: I32,
        numbers: Sequence[int],
        aimed: Collection[int] = (),
        sessions: Sequence[str] | None = None,
    ) -> tuple[LiveMatches, int]:
        """Return matches among the first rows, and how many of them one input can decide."""
        return self._matcher.live_among_bounded(
            rows, numbers, aimed, sessions, self._evaluated_at_once
        )

    def _defer(self, rows: I32, sessions: Sequence[str], outcome: Outcome) -> None:
        """Let live events be decided later for those of some sessions that have not seen them."""
        for session, unseen in self._unseen(rows, sessions):
            self._live.defer(session, unseen)
            outcome.behind.add(session)

    def _unseen(self, rows: I32, sessions: Sequence[str]) -> Iterator[tuple[str, I32]]:
        """Yield sessions with those live events that each has not seen, if there are any."""
        seen = self._matcher.live.seen
        for session in dict.fromkeys(sessions) if len(rows) else ():
            of_session = np.repeat(seen.numbers([session]), len(rows))
            unseen = rows[seen.unseen(rows, of_session)]
            if len(unseen):
                yield session, unseen

    def _owners(self, numbers: Sequence[int]) -> list[str]:
        return [self._subscriptions.at(number).owner for number in numbers]

    def _numbers_of(self, session: str) -> list[int]:
        return list(map(self._subscriptions.number, self._subscriptions.of_session(session)))

    def _bring_older(self, deliveries: Deliveries, outcome: Outcome) -> None:
        """Deliver older live events on the subjects of new ones, to those who miss them.

        As many as one input brings.
        """
        if not self._live.has_missed:
            return
        for recipient, places, _ in list(deliveries.by_session()):
            session = recipient.owner
            if session not in self._subscriptions.away and self._live.is_behind(session):
                subjects = {deliveries.events[place].subject for place in places}
                self.bring(session, self._live.missed_on(session, subjects), outcome)

    def _first(self, found: LiveMatches, outcome: Outcome) -> LiveMatches:
        """Return the matches that one input brings to each session; the others are deferred."""
        if not self._at_once or len(found.row) <= self._at_once:
            return found
        owners = self._subscriptions.owner_rows(found.subscription)
        order = np.lexsort((np.arange(len(owners)), owners))
        begins = np.diff(owners[order], prepend=owners[order[0]] - 1) != 0
        # The place of each event among those of its session; one event may match several times.
        counted = np.cumsum(begins | (np.diff(found.row[order], prepend=NONE) != 0))
        first = counted[begins][np.cumsum(begins) - 1]
        now = np.empty(len(owners), np.bool_)
        now[order] = counted - first < self._at_once
        later = found.only(~now)
        for owner in np.unique(owners[~now]).tolist():
            of_one = later.only(owners[~now] == owner)
            session = self._subscriptions.at(int(of_one.subscription[0])).owner
            self._live.defer(session, of_one.row[np.diff(of_one.row, prepend=NONE) != 0])
            outcome.behind.add(session)
        return found.only(now)

    def _replayed(self, found: LiveMatches) -> Deliveries:
        """Return deliveries of live events, given in the order of versions, which count as seen."""
        live = self._matcher.live
        begins = np.diff(found.row, prepend=NONE) != 0
        rows = found.row[begins]
        places = np.cumsum(begins, dtype=np.int32) - np.int32(1)
        matches = Matches(places, *found[1:])
        events = list(map(live.event_at, rows.tolist()))
        deliveries = self._subscriptions.deliveries(events, matches)
        deliveries.replayed = True
        starts = np.flatnonzero(deliveries.rows.starts)
        sessions = [deliveries.recipients[at].owner for at in starts.tolist()]
        live.seen.mark(rows[deliveries.rows.event[starts]], sessions)
        return deliveries

    def _send(self, deliveries: Deliveries, outcome: Outcome) -> None:
        if not len(deliveries):
            return
        deliveries.caused_at, deliveries.caused_by = outcome.now, outcome.index
        outcome.sent.append(deliveries)

    def withdraw(self, event: Event, found: Iterable[tuple[int, int]], outcome: Outcome) -> None:
        """Deliver a withdrawal: to plain subscriptions as a message, else to the event's holders.

        `found` are numbers and priorities of the subscriptions that the withdrawal matches as an
        ordinary event. Clearing a retained message
        is also an MQTT message, and is delivered to all of them.
        """
        have, subscriptions = self._live.holders(event), self._subscriptions
        clears = event.retain and not event.payload

        def concerns(wanted: Subscription) -> bool:
            is_any_message = wanted.plain or wanted.group is not None or clears
            return is_any_message or wanted.owner in have

        met = {number: level for number, level in found if concerns(subscriptions.at(number))}
        fitting = subscriptions.routes.fitting(event.subject) if have else ()
        for wanted in sorted(fitting, key=lambda each: each.id):
            if wanted.owner in have and wanted.group is None and not wanted.plain:
                met.setdefault(subscriptions.number(wanted.id), 1)
        if met:
            self.deliver(subscriptions.deliveries_of(event, met.items()), outcome)

    def _deliver_to_node(self, node: str, outcome: Outcome, aimed: Collection[int] = ()) -> None:
        """Deliver live events that match a node now; to those in `aimed` only with a target."""
        if len(self._live):
            self._deliver_to(self._matcher.subscriptions_of(node), outcome, aimed)

    def _deliver_to_followers(self, node: str, outcome: Outcome) -> None:
        """Deliver live events to subscriptions whose area moves with another subscriber's node."""
        names = self._subscriptions.following(node) if len(self._live) else []
        self._deliver_to(list(map(self._subscriptions.number, names)), outcome)

    def deliver_to(self, numbers: Sequence[int], outcome: Outcome) -> None:
        """Deliver live events that subscriptions match now, and that their sessions lack."""
        if len(self._live):
            self._deliver_to(numbers, outcome)

    def _deliver_to(
        self, numbers: Sequence[int], outcome: Outcome, aimed: Collection[int] = ()
    ) -> None:
        """Deliver live events that subscriptions match now, and that their sessions have not seen.

        In the order of versions: the order must not depend on the index, which would reveal hidden
        positions.
        """
        numbers = self._subscriptions.own(numbers)
        if not numbers:
            return
        sessions = self._owners(numbers)
        rows = self._matcher.live_candidates(numbers, aimed)
        found, decided = self._decide(rows, numbers, aimed, sessions)
        self._deliver_new(found, outcome)
        self._defer(rows[decided:], sessions, outcome)

    def comes_later(self, event: Event, subscriptions: Sequence[Subscription]) -> bool:
        """True if a session that misses this event gets it later, if it still matches.

        Live events are delivered again, but retained messages by plain subscriptions only as in
        MQTT.
        """
        by_id = self._subscriptions.by_id
        if not event.stays or any(each.id not in by_id for each in subscriptions):
            return False
        if subscriptions[0].group is not None:
            return False
        is_any_brokers = event.to is None and all(each.plain for each in subscriptions)
        return not (event.retain and is_any_brokers)

    def _note_missed(self, event: Event, recipient: Recipient) -> None:
        """Record a live event for later delivery, if this copy does not reach its session."""
        wanted, session = recipient.subscriptions, recipient.owner
        reaches_nobody = session in self._subscriptions.away and not (
            event.qos and any(each.qos for each in wanted)
        )
        if reaches_nobody and self.comes_later(event, wanted):
            self._live.miss(self._live.key(event), event.id, session)
