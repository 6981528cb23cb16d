"""A SUBSCRIBE or UNSUBSCRIBE in progress: its filters are decided in turns with other input."""

from collections.abc import Sequence
from typing import TypeVar

from nearcast.wire.mqtt import ReasonCode

FILTERS_AT_ONCE = 100
"""The filters of one packet that are decided in one go, at most."""
PAIRS_AT_ONCE = 200_000
"""Pairs of a filter and a live event that one go may have to look at."""
T = TypeVar("T")


class FiltersRequest:
    """What is decided of a packet so far."""

    def __init__(self, live: int = 0) -> None:
        self._at_once = min(FILTERS_AT_ONCE, max(1, PAIRS_AT_ONCE // max(1, live)))
        """Fewer filters if there are many live events, which each of them may match."""
        self.reasons: list[ReasonCode] = []
        """The answer to each filter that is decided, in order."""

    def next_filters(self, filters: Sequence[T]) -> Sequence[T]:
        """Return the filters of the packet that are decided next."""
        at = len(self.reasons)
        return filters[at : at + self._at_once]
