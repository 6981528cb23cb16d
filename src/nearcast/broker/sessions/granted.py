"""Subscriptions as granted to a session."""

from msgspec import Struct

from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_usage import SessionUsage
from nearcast.broker.quotas.sizes import SubscriptionSize
from nearcast.core.model.event import Subscription
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.store import SubscriptionState
from nearcast.wire.mqtt import TopicFilter


class Counting(Struct, frozen=True, gc=False):
    """A subscription with a counting filter, as the engine and as the store have it.

    What it may count depends on the rules; both are updated when the rules change.
    """

    subscription: Subscription
    kept: SubscriptionState


class SessionSubscription(Struct, frozen=True, gc=False):
    """A subscription as it was granted."""

    wanted: TopicFilter
    identifier: int | None = None
    name: str | None = None
    """Its name, if it was not subscribed to by its topic filter."""
    meta: bool = False
    """Deliveries carry metadata of their events."""
    envelope: bool = False
    """The metadata is in a JSON envelope around the payload."""
    counting: Counting | None = None
    """Set if its filter counts."""
    size: SubscriptionSize = SubscriptionSize()

    @property
    def label(self) -> str:
        """Its name in deliveries: its own, or the topic filter."""
        return self.wanted.filter if self.name is None else self.name

    def id_of(self, client_id: str) -> SubscriptionId:
        """Its id as a subscription of a session."""
        return SubscriptionId(client_id, self.wanted.filter, self.name)


def count_subscription(usage: SessionUsage, granted: SessionSubscription, change: int) -> None:
    """Count a subscription that was granted (1) or that ended (-1)."""
    size = granted.size
    usage.add(Resource.SUBSCRIPTIONS, change)
    usage.add(Resource.FILTER_BYTES, change * size.filter_bytes)
    if size.atoms:
        usage.add(Resource.FILTER_ATOMS, change * size.atoms)
    if size.vertices:
        usage.add(Resource.VERTICES, change * size.vertices)
