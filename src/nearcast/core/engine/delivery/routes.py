"""Routes: the recipients of all events on a subject, where the subject alone decides.

Most traffic of a plain broker is of this kind and needs no kernel: all subscriptions whose pattern
matches the subject are plain. A route is cached until one of them changes; a holder of a stale
route sees that it is no longer `valid`.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from nearcast.core.engine.delivery.deliveries import Recipient
from nearcast.core.matching.index.patterns import Patterns
from nearcast.core.model.event import Subscription
from nearcast.core.model.subject import subject_matches

MOST_KNOWN = 65_536
LONGEST_KNOWN = 512
MOST_COMPARED = 256
"""With more cached routes than this, a changed wildcard pattern drops all of them."""


class Route:
    """The recipients of all events on a subject."""

    __slots__ = ("no_local", "recipients", "valid")

    def __init__(self, recipients: tuple[Recipient, ...]) -> None:
        self.recipients = recipients
        self.no_local = any(one.no_local for each in recipients for one in each.subscriptions)
        """True if some recipient does not want its own events."""
        self.valid = True

    def without(self, session: str) -> "Route":
        """Return the route for events that a session publishes."""
        if not self.no_local:
            return self
        left = []
        for each in self.recipients:
            if each.owner == session and any(one.no_local for one in each.subscriptions):
                pairs = zip(each.subscriptions, each.numbers, strict=True)
                fitting = [pair for pair in pairs if not pair[0].no_local]
                if not fitting:
                    continue
                each = Recipient(*zip(*fitting, strict=True))
            left.append(each)
        return Route(tuple(left))


class GatheringRoute:
    """Subscriptions of one rule for which all events on a subject wait."""

    __slots__ = ("no_local", "numbers")

    def __init__(self, recipients: Iterable[Recipient]) -> None:
        found = list(recipients)
        numbers = [number for each in found for number in each.numbers]
        self.numbers = np.array(sorted(numbers), np.int32)
        """The numbers of the subscriptions, in ascending order."""
        self.no_local = {each.owner for each in found if each.subscriptions[0].no_local}
        """Sessions that do not want their own events."""


class Routes:
    """Subscriptions by pattern, separated by whether they are plain."""

    def __init__(self) -> None:
        self._patterns = Patterns()
        self._plain: dict[int, dict[str, Recipient]] = {}
        self._other = Patterns()
        self._others: dict[int, dict[str, Recipient]] = {}
        self._numbers: dict[str, int] = {}
        self._known: dict[str, Route | None] = {}
        self._gathering: dict[str, GatheringRoute | None] = {}

    def add(self, recipient: Recipient) -> None:
        """Add the recipient of one subscription, whose id is new."""
        (subscription,) = recipient.subscriptions
        if subscription.plain:
            number = self._patterns.acquire(subscription.subject)
            self._plain.setdefault(number, {})[subscription.id] = recipient
        else:
            number = self._other.acquire(subscription.subject)
            self._others.setdefault(number, {})[subscription.id] = recipient
        self._numbers[subscription.id] = number
        self._changed(subscription.subject)

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        number = self._numbers.pop(subscription.id)
        if subscription.plain:
            of_pattern = self._plain[number]
            del of_pattern[subscription.id]
            if not of_pattern:
                del self._plain[number]
            self._patterns.release(number)
        else:
            of_pattern = self._others[number]
            del of_pattern[subscription.id]
            if not of_pattern:
                del self._others[number]
            self._other.release(number)
        self._changed(subscription.subject)

    def of(self, subject: str) -> Route | None:
        """The route of a subject; None if more than the subject decides."""
        try:
            return self._known[subject]
        except KeyError:
            pass
        if len(self._known) >= MOST_KNOWN:
            self._forget(list(self._known))
        route = None if self._other.matching(subject) else Route(self._recipients(subject))
        if len(subject) <= LONGEST_KNOWN:
            self._known[subject] = route
        return route

    def gathering(self, subject: str) -> GatheringRoute | None:
        """Those for which all events on a subject wait; None if more decides than the subject."""
        try:
            return self._gathering[subject]
        except KeyError:
            pass
        if len(self._gathering) >= MOST_KNOWN:
            self._gathering.clear()
        route = None
        if not self._patterns.matching(subject):
            found = [r for n in self._other.matching(subject) for r in self._others[n].values()]
            if found and _wait_alike([each.subscriptions[0] for each in found]):
                route = GatheringRoute(found)
        if len(subject) <= LONGEST_KNOWN:
            self._gathering[subject] = route
        return route

    def clear(self) -> None:
        """Clear the cache."""
        self._forget(list(self._known))
        self._gathering.clear()

    def fitting(self, subject: str) -> list[Subscription]:
        """All subscriptions whose pattern matches a subject, whatever their other conditions."""
        found = [r for n in self._patterns.matching(subject) for r in self._plain[n].values()]
        found += [r for n in self._other.matching(subject) for r in self._others[n].values()]
        return [each.subscriptions[0] for each in found]

    def has_subscribers(self, subject: str) -> bool:
        """Whether any pattern matches a subject."""
        return bool(self._patterns.matching(subject) or self._other.matching(subject))

    def count_fitting(self, subject: str) -> int:
        """The number of subscriptions whose pattern matches a subject."""
        plain = sum(len(self._plain[n]) for n in self._patterns.matching(subject))
        return plain + sum(len(self._others[n]) for n in self._other.matching(subject))

    def _recipients(self, subject: str) -> tuple[Recipient, ...]:
        by_session: dict[str, list[Recipient]] = {}
        for number in self._patterns.matching(subject):
            for each in self._plain[number].values():
                by_session.setdefault(each.owner, []).append(each)
        return tuple(own[0] if len(own) == 1 else Recipient.of(own) for own in by_session.values())

    def _changed(self, pattern: str) -> None:
        if "+" not in pattern and "#" not in pattern:
            self._gathering.pop(pattern, None)
        elif self._gathering:
            self._gathering.clear()
        if "+" not in pattern and "#" not in pattern:
            self._forget((pattern,))
        elif len(self._known) <= MOST_COMPARED:
            self._forget([s for s in self._known if subject_matches(pattern, s)])
        else:
            self._forget(list(self._known))

    def _forget(self, subjects: Iterable[str]) -> None:
        for subject in subjects:
            route = self._known.pop(subject, None)
            if route is not None:
                route.valid = False


def _wait_alike(subscriptions: Sequence[Subscription]) -> bool:
    """True if all gather by the same rule, whatever an event without a target says."""
    rule = subscriptions[0].aggregate
    return rule is not None and all(
        each.aggregate == rule
        and each.where is None
        and each.from_ is None
        and each.relevance is None
        and each.group is None
        for each in subscriptions
    )
