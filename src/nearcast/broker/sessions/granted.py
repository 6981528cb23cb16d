"""Subscriptions as they were granted to a session."""

from msgspec import Struct

from nearcast.core.model.event import Subscription
from nearcast.store import SubscriptionState
from nearcast.wire.mqtt import TopicFilter


class Counting(Struct, frozen=True, gc=False):
    """A subscription whose filter counts, as the engine and as the store have it.

    What it may count follows the rules: both are told anew when these change.
    """

    subscription: Subscription
    kept: SubscriptionState


class SessionSubscription(Struct, frozen=True, gc=False):
    """A subscription as it was granted."""

    wanted: TopicFilter
    identifier: int | None = None
    name: str | None = None
    """What it was called, if it was not subscribed to by its topic filter."""
    meta: bool = False
    """Deliveries tell of their events."""
    envelope: bool = False
    """They do so in JSON round the payload."""
    counting: Counting | None = None
    """If its filter counts."""

    @property
    def label(self) -> str:
        """What deliveries call it."""
        return self.wanted.filter if self.name is None else self.name
