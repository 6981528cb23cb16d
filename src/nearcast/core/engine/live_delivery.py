"""Delivering: what is live goes once to each session that it concerns, however it comes to it.

Who is away comes back to what it missed. What withdraws a live event goes to those who have it,
wherever they are by now.
"""

from collections.abc import Iterable, Iterator

from nearcast.core.engine.live_book import LiveBook, Met
from nearcast.core.engine.outcome import Outcome
from nearcast.core.engine.subscription_book import SubscriptionBook
from nearcast.core.model.event import Delivery, Event, Subscription


class LiveDelivery:
    """Makes deliveries of matches, and notes who has what."""

    def __init__(self, live: LiveBook, wishes: SubscriptionBook) -> None:
        self._live = live
        self._wishes = wishes

    def deliver(self, delivery: Delivery, outcome: Outcome) -> None:
        """Let a copy of an event go out that was made now."""
        if delivery.event.stays and not self._wishes.is_shared(delivery):
            self._live.seen(delivery.event, delivery.owner)
        self._send(delivery, outcome)

    def deliver_live(self, found: Iterable[Met], outcome: Outcome) -> None:
        """Let live events go out to those who do not have them."""
        for delivery in self._wishes.copies(found, replayed=True):
            if self._live.seen(delivery.event, delivery.owner):
                self._send(delivery, outcome)

    def withdraw(self, event: Event, found: Iterable[Met], outcome: Outcome) -> None:
        """Let a withdrawal go out: as any message by plain subscriptions, else to who has it.

        `found` is whom it would concern as any other event. Clearing a retained message is also
        a message of MQTT's own, and goes to all of them.
        """
        have, wishes = self._live.holders(event), self._wishes
        clears = event.retain and not event.payload

        def concerns(wanted: Subscription) -> bool:
            is_any_message = wanted.plain or wanted.group is not None or clears
            return is_any_message or wanted.owner in have

        met = {each[1]: each for each in found if concerns(wishes.at(each[1]))}
        fitting = wishes.routes.fitting(event.subject) if have else ()
        for wanted in sorted(fitting, key=lambda each: each.id):
            if wanted.owner in have and wanted.group is None and not wanted.plain:
                number = wishes.number(wanted.id)
                met.setdefault(number, (event, number, 1))
        for delivery in wishes.copies(met.values()):
            self.deliver(delivery, outcome)

    def met_by_one(self, name: str) -> Iterator[Met]:
        """Live events that concern one subscription now."""
        return self._live.met_by(self._wishes.by_id[name].node, [self._wishes.number(name)])

    def deliver_to_followers(self, node: str, outcome: Outcome) -> None:
        """Let live events go out by subscriptions whose area moves with a node of another."""
        for name in self._wishes.following(node):
            self.deliver_live(self.met_by_one(name), outcome)

    def comes_later(self, delivery: Delivery) -> bool:
        """Whether a session that does not get this is to get it later, if it still matches.

        What is live comes again, but no more of MQTT than any broker has.
        """
        event, wishes = delivery.event, self._wishes
        if not event.stays or any(name not in wishes.by_id for name in delivery.subscriptions):
            return False
        return not wishes.is_shared(delivery) and not (event.retain and wishes.is_plain(delivery))

    def _send(self, delivery: Delivery, outcome: Outcome) -> None:
        outcome.sent.append(delivery)
        if self._wishes.reaches_nobody(delivery) and self.comes_later(delivery):
            event = delivery.event
            self._live.miss(self._live.key(event), event.id, delivery.owner)
