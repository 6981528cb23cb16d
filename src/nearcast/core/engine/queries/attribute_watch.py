"""Filters on attributes that no event has had: a misspelt name, a payload that is not JSON.

Counts only events that a subscription's owner could have received: its pattern matches, and their
target and visibility permit it. After `ENOUGH` of them without the attributes the filter is
reported; a subscription is watched until then, or until its filter can match.
"""

from collections.abc import Sequence

from msgspec import Struct

from nearcast.core.language.evaluation.possible_truth import (
    attribute_name,
    attribute_names,
    can_hold,
)
from nearcast.core.language.evaluation.scope import followed
from nearcast.core.matching.index.patterns import Patterns
from nearcast.core.matching.reference import WorldView, could_have
from nearcast.core.model.event import Event, Subscription

ENOUGH = 20
"""Events without an attribute after which its filter is reported."""
MOST_WATCHED = 10_000
"""Limit of watched subscriptions; further ones are not watched."""
MOST_LOOKS = 2_000
"""Limit of pairs of event and subscription checked in one step; the subscriptions beyond it are no
longer watched, because they would miss events.
"""


class _Watched(Struct):
    subscription: Subscription
    pattern: int
    unseen: set[str]
    left: int = ENOUGH


class AttributeWatch:
    """Subscriptions whose filters need attributes that were not seen yet."""

    def __init__(self) -> None:
        self._patterns = Patterns()
        self._watched: dict[str, _Watched] = {}
        self._by_pattern: dict[int, dict[str, _Watched]] = {}
        self._found: list[tuple[str, tuple[str, ...]]] = []

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, subscription: Subscription) -> None:
        """Watch a subscription, replacing its previous version, if its filter needs it."""
        self.remove(subscription.id)
        if subscription.where is None or len(self._watched) >= MOST_WATCHED:
            return
        unseen = set(attribute_names(subscription.where.root))
        if not unseen or _can_match(subscription, unseen):
            return
        number = self._patterns.acquire(subscription.subject)
        watched = _Watched(subscription, number, unseen)
        self._watched[subscription.id] = watched
        self._by_pattern.setdefault(number, {})[subscription.id] = watched

    def remove(self, name: str) -> None:
        """Stop watching a subscription."""
        watched = self._watched.pop(name, None)
        if watched is None:
            return
        same = self._by_pattern[watched.pattern]
        del same[name]
        if not same:
            del self._by_pattern[watched.pattern]
        self._patterns.release(watched.pattern)

    def see(self, events: Sequence[Event], world: WorldView) -> None:
        """Check matched events against the watched subscriptions."""
        looks = 0
        for event in events:
            for number in self._patterns.matching(event.subject):
                for watched in list(self._by_pattern.get(number, {}).values()):
                    looks += 1
                    if looks > MOST_LOOKS:
                        self.remove(watched.subscription.id)
                    else:
                        self._look(event, watched, world)

    def take(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return new findings: ids of subscriptions with the attributes no event had, each once."""
        found, self._found = self._found, []
        return found

    def _look(self, event: Event, watched: _Watched, world: WorldView) -> None:
        wanted, unseen = watched.subscription, watched.unseen
        if wanted.no_local and wanted.owner == event.origin:
            return
        if not could_have(event, wanted.node, world):
            return
        attributes = event.attributes
        seen = [
            name
            for name in unseen
            if attributes.get(name) is not None or followed(attributes, name) is not None
        ]
        watched.left -= 1
        unseen.difference_update(seen)
        if seen and _can_match(wanted, unseen):
            self.remove(wanted.id)
        elif not watched.left:
            self.remove(wanted.id)
            self._found.append((wanted.id, tuple(sorted(unseen))))


def _can_match(subscription: Subscription, unseen: set[str]) -> bool:
    where = subscription.where
    assert where is not None
    return can_hold(where.root, lambda name: attribute_name(name) in unseen, where.two_valued)
