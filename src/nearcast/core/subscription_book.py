"""The book of subscriptions: whose they are, and which copies of an event their matches make.

One copy per event and session, however many of its subscriptions fit: best priority, all of
them named. Of a shared group one member gets a copy of its own, in turn, those that are present
before those that are away.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from nearcast.core.live_book import Met
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.event import Delivery, Event, Subscription
from nearcast.core.routes import Routes


class SubscriptionBook:
    """Subscriptions by id, by number in the matcher and by session."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self.by_id: dict[str, Subscription] = {}
        self.routes = Routes()
        self.present: set[str] = set()
        """Sessions that have a connection."""
        self._numbers: dict[str, int] = {}
        self._by_number: dict[int, Subscription] = {}
        self._of_session: dict[str, dict[str, None]] = {}
        self._turns: dict[tuple[str, str], int] = {}

    def add(self, subscriptions: Sequence[Subscription]) -> list[int]:
        """File subscriptions in place of those with the same ids; their numbers."""
        self.drop([each.id for each in subscriptions if each.id in self.by_id])
        numbers: list[int] = self._matcher.add_many(subscriptions).tolist()
        for subscription, number in zip(subscriptions, numbers, strict=True):
            self.by_id[subscription.id] = subscription
            self._numbers[subscription.id] = number
            self._by_number[number] = subscription
            self._of_session.setdefault(subscription.owner, {})[subscription.id] = None
            self.routes.add(subscription)
        return numbers

    def drop(self, ids: Sequence[str]) -> None:
        """Take subscriptions out, those that are there."""
        gone = [name for name in ids if name in self.by_id]
        if not gone:
            return
        self._matcher.remove_many(np.array([self._numbers[name] for name in gone], np.int32))
        for name in gone:
            subscription = self.by_id.pop(name)
            del self._by_number[self._numbers.pop(name)]
            self.routes.remove(subscription)
            own = self._of_session[subscription.owner]
            del own[name]
            if not own:
                del self._of_session[subscription.owner]
            if subscription.group is not None:
                self._turns.pop((subscription.group, subscription.subject), None)

    def number(self, name: str) -> int:
        """The number of a subscription in the matcher."""
        return self._numbers[name]

    def of_session(self, session: str) -> list[str]:
        """The ids of a session's subscriptions."""
        return list(self._of_session.get(session, ()))

    def copies(self, found: Iterable[Met], replayed: bool = False) -> list[Delivery]:
        """What goes out for these matches, in the order of the events."""
        copies: dict[tuple[int, str], Delivery] = {}
        shared: dict[tuple[int, str, str], list[tuple[Event, Subscription, int]]] = {}
        for event, number, priority in found:
            subscription = self._by_number[number]
            owner = subscription.owner
            if subscription.group is not None:
                members = (id(event), subscription.group, subscription.subject)
                shared.setdefault(members, []).append((event, subscription, priority))
                continue
            if subscription.no_local and owner == event.origin:
                continue
            at = (id(event), owner)
            copy = copies.get(at)
            copies[at] = (
                _copy(event, subscription, priority, replayed)
                if copy is None
                else replace(
                    copy,
                    subscriptions=(*copy.subscriptions, subscription.id),
                    priority=min(copy.priority, priority),
                )
            )
        if not shared:
            return list(copies.values())
        chosen = [self._chosen(*group[1:], members) for group, members in shared.items()]
        return list(copies.values()) + chosen

    def _chosen(
        self, group: str, pattern: str, members: list[tuple[Event, Subscription, int]]
    ) -> Delivery:
        here = [each for each in members if each[1].owner in self.present] or members
        here.sort(key=lambda each: each[1].owner)
        turn = self._turns.get((group, pattern), 0)
        self._turns[group, pattern] = turn + 1
        return _copy(*here[turn % len(here)])


def _copy(
    event: Event, subscription: Subscription, priority: int, replayed: bool = False
) -> Delivery:
    node, session = subscription.node, subscription.session
    return Delivery(event, node, (subscription.id,), priority, session, replayed)
