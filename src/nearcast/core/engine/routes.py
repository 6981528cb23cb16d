"""Routes: who gets every event on a subject, where its subject alone decides.

Most traffic of a plain broker is of this kind, and needs no kernel: all subscriptions whose
pattern the subject fits are plain. A route is remembered until one of them changes; whoever
holds on to one sees that it is no longer `valid`.
"""

from collections.abc import Iterable

from nearcast.core.matching.index.patterns import Patterns
from nearcast.core.model.event import Subscription
from nearcast.core.model.subject import subject_matches

MOST_KNOWN = 65_536
LONGEST_KNOWN = 512
MOST_COMPARED = 256
"""With more routes than this, a changed wildcard makes all of them be looked up anew."""


class Route:
    """The sessions that get a subject's events, each with its subscriptions that fit."""

    __slots__ = ("copies", "valid")

    def __init__(self, copies: tuple[tuple[Subscription, ...], ...]) -> None:
        self.copies = copies
        self.valid = True


class Routes:
    """Subscriptions by pattern, apart by whether they are plain."""

    def __init__(self) -> None:
        self._patterns = Patterns()
        self._plain: dict[int, dict[str, Subscription]] = {}
        self._other = Patterns()
        self._others: dict[int, dict[str, Subscription]] = {}
        self._numbers: dict[str, int] = {}
        self._known: dict[str, Route | None] = {}

    def add(self, subscription: Subscription) -> None:
        """Take a subscription in; its id is new."""
        if subscription.plain:
            number = self._patterns.acquire(subscription.subject)
            self._plain.setdefault(number, {})[subscription.id] = subscription
        else:
            number = self._other.acquire(subscription.subject)
            self._others.setdefault(number, {})[subscription.id] = subscription
        self._numbers[subscription.id] = number
        self._changed(subscription.subject)

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out."""
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
        route = None if self._other.matching(subject) else Route(self._copies(subject))
        if len(subject) <= LONGEST_KNOWN:
            self._known[subject] = route
        return route

    def fitting(self, subject: str) -> list[Subscription]:
        """All subscriptions whose pattern a subject fits, whatever else they ask for."""
        found = [
            subscription
            for number in self._patterns.matching(subject)
            for subscription in self._plain[number].values()
        ]
        for number in self._other.matching(subject):
            found += self._others[number].values()
        return found

    def _copies(self, subject: str) -> tuple[tuple[Subscription, ...], ...]:
        copies: dict[str, list[Subscription]] = {}
        for number in self._patterns.matching(subject):
            for subscription in self._plain[number].values():
                copies.setdefault(subscription.owner, []).append(subscription)
        return tuple(map(tuple, copies.values()))

    def _changed(self, pattern: str) -> None:
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
