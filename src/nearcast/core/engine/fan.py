"""Fans: an event on its way to many sessions at once, where nothing differs but who they are.

Most matches are of this kind: one subscription of each session fits, all at one priority, and
the event does not stay. They need no `Delivery` each; whoever wants those can have them. The fans
of several events are a spread, which can also be gone through session by session.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from nearcast.core.engine.copies import Draft, order_by_owner
from nearcast.core.matching.tables import I32, I64
from nearcast.core.model.event import Delivery, Event, Subscription


class SubscriptionEntry:
    """A subscription as it is filed, until it is dropped or replaced."""

    __slots__ = ("id", "owner", "receiver", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.id = subscription.id
        self.owner = subscription.owner
        self.receiver: object | None = None
        """What a host wants to remember of it."""

    def delivery(self, event: Event, priority: int) -> Delivery:
        """The copy of an event that goes out by it alone."""
        wanted = self.subscription
        return Delivery(event, wanted.node, (wanted.id,), priority, wanted.session)

    def __reduce__(self) -> tuple[type["SubscriptionEntry"], tuple[Subscription]]:
        return SubscriptionEntry, (self.subscription,)


class Fan:
    """An event and the subscriptions by which it goes out, each of another session."""

    __slots__ = ("event", "filed", "priority")

    def __init__(self, event: Event, filed: Sequence[SubscriptionEntry], priority: int) -> None:
        self.event = event
        self.filed = filed
        self.priority = priority

    def delivery(self, filed: SubscriptionEntry) -> Delivery:
        """One of its copies."""
        return filed.delivery(self.event, self.priority)

    def deliveries(self) -> Iterator[Delivery]:
        """All of its copies."""
        return map(self.delivery, self.filed)


def fans_of(
    events: Sequence[Event], draft: Draft, filed: Sequence[SubscriptionEntry | None]
) -> Iterator[Fan]:
    """Fans of matches; `filed` are all subscriptions by number."""
    return _fans(events, draft, [filed[number] for number in draft.number.tolist()])


def _fans(
    events: Sequence[Event], draft: Draft, filed: Sequence[SubscriptionEntry | None]
) -> Iterator[Fan]:
    """Fans of matches, with the subscription of each."""
    starts = [*np.flatnonzero(draft.begins).tolist(), len(draft.event)]
    places = draft.event[starts[:-1]].tolist()
    levels = draft.priority[starts[:-1]].tolist()
    for i, (place, level) in enumerate(zip(places, levels, strict=True)):
        yield Fan(events[place], filed[starts[i] : starts[i + 1]], level)  # type: ignore[arg-type]  # all that match are filed


class Spread:
    """Events, and the subscriptions by which they go out: of each event all of other sessions.

    Copies lie session by session, those of each in the order of the events. Where a session has
    several subscriptions, those by one of them that follow each other are a share.
    """

    __slots__ = ("_draft", "_order", "events", "filed", "places", "priorities", "starts")

    def __init__(
        self,
        events: Sequence[Event],
        draft: Draft,
        filed: Sequence[SubscriptionEntry | None],
        owners: I32,
    ) -> None:
        """Take matches and the session of each; `filed` are all subscriptions by number."""
        order: I64 = np.empty(len(draft.event), np.int64)
        order_by_owner(owners, order)
        numbers = draft.number[order]
        begins = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()]
        self._draft = draft
        self._order = order
        self.events = events
        self.places: list[int] = draft.event[order].tolist()
        """Which event each copy is of."""
        self.priorities: list[int] = draft.priority[order].tolist()
        """The priority of each copy."""
        self.starts: list[int] = [*begins, len(numbers)]
        """Where each share begins, and the end."""
        # Now: a subscription may be dropped in the same step.
        self.filed: list[SubscriptionEntry] = [filed[number] for number in numbers[begins].tolist()]
        """By which subscription each share goes out."""

    def fans(self) -> Iterator[Fan]:
        """The same event by event."""
        by_match: list[SubscriptionEntry | None] = [None] * len(self._order)
        order = self._order.tolist()
        for i, one in enumerate(self.filed):
            for match in order[self.starts[i] : self.starts[i + 1]]:
                by_match[match] = one
        return _fans(self.events, self._draft, by_match)
