"""Delivering: what is live goes once to each session that it concerns, however it comes to it.

Who is away comes back to what it missed.
"""

from collections.abc import Iterable, Iterator

from nearcast.core.live_book import LiveBook, Met
from nearcast.core.model.event import Delivery
from nearcast.core.outcome import Outcome
from nearcast.core.subscription_book import SubscriptionBook


class Delivering:
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

    def met_by_one(self, name: str) -> Iterator[Met]:
        """Live events that concern one subscription now."""
        return self._live.met_by(self._wishes.by_id[name].node, [self._wishes.number(name)])

    def deliver_to_followers(self, node: str, outcome: Outcome) -> None:
        """Let live events go out by subscriptions whose area moves with a node of another."""
        for name in self._wishes.following(node):
            self.deliver_live(self.met_by_one(name), outcome)

    def _send(self, delivery: Delivery, outcome: Outcome) -> None:
        outcome.sent.append(delivery)
        # Who is away comes back to what it missed, but to no more of MQTT than any broker has.
        if (
            delivery.event.stays
            and not self._wishes.is_shared(delivery)
            and self._wishes.reaches_nobody(delivery)
            and not (delivery.event.retain and self._wishes.is_plain(delivery))
        ):
            self._live.miss(delivery.event, delivery.owner)
