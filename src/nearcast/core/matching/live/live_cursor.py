"""A cursor over the live events that match new subscriptions: they are decided slice by slice.

The candidates are those of the moment when the cursor is made, oldest version first; each slice is
decided as things are when it is taken. An event that was replaced or removed meanwhile is passed
over: what replaced it found the subscriptions in force.
"""

from collections.abc import Sequence

from nearcast.core.matching.matcher import LiveMatches, Matcher
from nearcast.core.matching.tables import I32


class LiveCursor:
    """Live events that may match some subscriptions, taken in the order of versions."""

    def __init__(self, matcher: Matcher, numbers: Sequence[int]) -> None:
        self._matcher = matcher
        self._numbers = list(numbers)
        self._rows: I32 = matcher.live_candidates(numbers)
        self._versions = matcher.live.columns.version[self._rows]
        self._next = 0

    def __len__(self) -> int:
        """The number of candidates that are left."""
        return len(self._rows) - self._next

    @property
    def position(self) -> int:
        """The version of the last candidate that was taken, 0 at the beginning."""
        return int(self._versions[self._next - 1]) if self._next else 0

    def skip_to(self, position: int) -> None:
        """Pass over the candidates up to a version."""
        self._next = int(self._versions.searchsorted(position, "right"))

    def take(self, most: int) -> LiveMatches:
        """Return the matches among the next candidates, `most` of them at most."""
        end = min(self._next + most, len(self._rows))
        rows, versions = self._rows[self._next : end], self._versions[self._next : end]
        self._next = end
        still = self._matcher.live.holds_versions(rows, versions)
        return self._matcher.live_among(rows[still], self._numbers)
