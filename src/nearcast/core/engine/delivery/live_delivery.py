"""Delivering: each live event is sent once to each session that it matches, for whatever reason.

A session that was disconnected gets what it missed on return. A withdrawal is sent to the sessions
that have the event, wherever they are now.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

from nearcast.core.engine.books.live_book import LiveBook, Met
from nearcast.core.engine.books.subscription_book import SubscriptionBook
from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.outcome import EngineStep, Outcome
from nearcast.core.model.event import Delivery, Event, Subscription
from nearcast.core.model.geometry.area import PlaceArea, PlaceHere


class LiveDelivery(EngineDependent):
    """Turns matches into deliveries, and records which session has which live event."""

    def __init__(self, live: LiveBook, subscriptions: SubscriptionBook) -> None:
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
            self.deliver_live(self._live.met_by(node, aimed=aimed), outcome)
        elif update.reclassed:
            self.deliver_live(self._live.met_by(node), outcome)
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
            self.deliver_live(self._live.met_by(node), outcome)
            self._come_into_sight(node, outcome)
        self.deliver_live(self._live.met_in_named_places(), outcome)
        for subscription in self._subscriptions.by_id.values():
            if isinstance(subscription.from_, PlaceArea | PlaceHere):
                self.deliver_live(self.met_by_one(subscription.id), outcome)

    def sight_changed(self, viewer: str, other: str, step: EngineStep) -> None:
        """Deliver live events that became visible."""
        self.deliver_live(self._live.overtaken_by(other), step.outcome)
        self.deliver_live(self._live.met_by(viewer), step.outcome)

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
        """Deliver new events; only the last of them may stay."""
        outcome.sent.append(deliveries)
        if deliveries.events[-1].stays:
            for copy in deliveries:
                if copy.event.stays:
                    if self._subscriptions.by_id[copy.subscriptions[0]].group is None:
                        self._live.seen(copy.event, copy.owner)
                    self._note_missed(copy)

    def deliver_live(self, found: Iterable[Met], outcome: Outcome) -> None:
        """Deliver live events to the sessions that do not have them."""
        deliveries = self._subscriptions.deliveries_of(found, replayed=True)
        if not len(deliveries):
            return
        copies = list(deliveries)
        new = [self._live.seen(copy.event, copy.owner) for copy in copies]
        if not all(new):
            copies = list(compress(copies, new))
            if not copies:
                return
            deliveries = deliveries.only(new)
        deliveries.caused_at, deliveries.caused_by = outcome.now, outcome.index
        outcome.sent.append(deliveries)
        for copy in copies:
            self._note_missed(copy)

    def withdraw(self, event: Event, found: Iterable[Met], outcome: Outcome) -> None:
        """Deliver a withdrawal: to plain subscriptions as a message, else to the event's holders.

        `found` are the matches of the withdrawal as an ordinary event. Clearing a retained message
        is also an MQTT message, and is delivered to all of them.
        """
        have, subscriptions = self._live.holders(event), self._subscriptions
        clears = event.retain and not event.payload

        def concerns(wanted: Subscription) -> bool:
            is_any_message = wanted.plain or wanted.group is not None or clears
            return is_any_message or wanted.owner in have

        met = {each[1]: each for each in found if concerns(subscriptions.at(each[1]))}
        fitting = subscriptions.routes.fitting(event.subject) if have else ()
        for wanted in sorted(fitting, key=lambda each: each.id):
            if wanted.owner in have and wanted.group is None and not wanted.plain:
                number = subscriptions.number(wanted.id)
                met.setdefault(number, (event, number, 1))
        if met:
            self.deliver(subscriptions.deliveries_of(met.values()), outcome)

    def met_by_one(self, name: str) -> Iterator[Met]:
        """Live events that match one subscription now."""
        return self._live.met_by(
            self._subscriptions.by_id[name].node, [self._subscriptions.number(name)]
        )

    def _deliver_to_followers(self, node: str, outcome: Outcome) -> None:
        """Deliver live events to subscriptions whose area moves with another subscriber's node."""
        for name in self._subscriptions.following(node):
            self.deliver_live(self.met_by_one(name), outcome)

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

    def _note_missed(self, delivery: Delivery) -> None:
        """Record a live event for later delivery, if this copy does not reach its session."""
        event, wanted = (
            delivery.event,
            [self._subscriptions.by_id[n] for n in delivery.subscriptions],
        )
        reaches_nobody = delivery.owner in self._subscriptions.away and not (
            event.qos and any(each.qos for each in wanted)
        )
        if reaches_nobody and self.comes_later(event, wanted):
            self._live.miss(self._live.key(event), event.id, delivery.owner)
