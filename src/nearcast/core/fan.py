"""Fans: an event on its way to many sessions at once, where nothing differs but who they are.

Most matches are of this kind: one subscription of each session fits, all at one priority, and
the event does not stay. They need no `Delivery` each; whoever wants those can have them.
"""

from collections.abc import Iterator, Sequence

from nearcast.core.model.event import Delivery, Event, Subscription


class Filed:
    """A subscription as it is filed, until it is dropped or replaced."""

    __slots__ = ("id", "owner", "receiver", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.id = subscription.id
        self.owner = subscription.owner
        self.receiver: object | None = None
        """What a host wants to remember of it."""

    def __reduce__(self) -> tuple[type["Filed"], tuple[Subscription]]:
        return Filed, (self.subscription,)


class Fan:
    """An event and the subscriptions by which it goes out, each of another session."""

    __slots__ = ("event", "filed", "priority")

    def __init__(self, event: Event, filed: Sequence[Filed], priority: int) -> None:
        self.event = event
        self.filed = filed
        self.priority = priority

    def delivery(self, filed: Filed) -> Delivery:
        """One of its copies."""
        wanted = filed.subscription
        return Delivery(self.event, wanted.node, (wanted.id,), self.priority, wanted.session)

    def deliveries(self) -> Iterator[Delivery]:
        """All of its copies."""
        return map(self.delivery, self.filed)
