"""A peer: something else that finds the same (event, subscription) pairs.

Every peer gets the same columns and must give the same pairs. It loads once, then matches ranges
of the events in whatever batches suit it best; the CPU of a server that it runs counts as its own.
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
    """Something that answers the same question."""

    def load(self, subscriptions: CitySubscriptions, people: People) -> None:
        """Take all subscriptions and everyone's position, and build any index."""

    def match(self, events: Events, first: int, last: int) -> MatchedPairs:
        """The pairs of some of the events."""

    def server_cpu_s(self) -> float:
        """CPU seconds used so far outside this process on behalf of the peer."""

    def close(self) -> None:
        """Stop what was started and delete what was written."""


class PeerKind(NamedTuple):
    """What is known of a peer before it is started."""

    describe: str
    start: Callable[[], MatchingPeer]
    missing: Callable[[], str | None]
    """What is not installed; None if nothing is missing."""
    version: Callable[[], str]


def joined(parts: list[tuple[int, I32]]) -> MatchedPairs:
    """Pairs from the subscriptions found for each event."""
    if not parts:
        return MatchedPairs(np.zeros(0, np.int32), np.zeros(0, np.int32))
    counts = [len(found) for _, found in parts]
    event = np.repeat(np.array([event for event, _ in parts], np.int32), counts)
    return MatchedPairs(event, np.concatenate([found for _, found in parts]).astype(np.int32))
