"""The interface of a peer: an alternative that finds the same (event, subscription) pairs.

Every peer gets the same columns and must return the same pairs. It loads once, then matches ranges
of the events, split into batches as suits it best; the CPU time of its server counts as its own.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from nearcast.benchmarks.city import I32, CitySubscriptions, Events, People


class MatchedPairs(NamedTuple):
    """Pairs of an event's and a subscription's index in the city's columns, in any order."""

    event: I32
    subscription: I32


class MatchingPeer(Protocol):
    """An alternative to Nearcast's matcher."""

    def load(self, subscriptions: CitySubscriptions, people: People) -> None:
        """Load all subscriptions and positions, and build any index."""

    def match(self, events: Events, first: int, last: int) -> MatchedPairs:
        """Return the pairs of the events `first` to `last`, exclusive."""

    def server_cpu_s(self) -> float:
        """CPU seconds used so far by the peer outside this process."""

    def close(self) -> None:
        """Stop the peer's processes and delete its files."""


class PeerKind(NamedTuple):
    """Description of a peer that has not been started."""

    describe: str
    start: Callable[[], MatchingPeer]
    missing: Callable[[], str | None]
    """Returns the missing program or package; None if nothing is missing."""
    version: Callable[[], str]


def joined(parts: list[tuple[int, I32]]) -> MatchedPairs:
    """Combine the subscriptions found for each event into pairs."""
    if not parts:
        return MatchedPairs(np.zeros(0, np.int32), np.zeros(0, np.int32))
    counts = [len(found) for _, found in parts]
    event = np.repeat(np.array([event for event, _ in parts], np.int32), counts)
    return MatchedPairs(event, np.concatenate([found for _, found in parts]).astype(np.int32))
