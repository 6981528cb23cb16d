"""Live events that did not reach a session, and are brought to it later, oldest version first."""

import numpy as np

from nearcast.core.matching.live.live_columns import LiveStore
from nearcast.core.matching.tables import I32


class MissedEvents:
    """Rows of live events that one session missed; they are live while they are in here."""

    def __init__(self, live: LiveStore) -> None:
        self._live = live
        self._rows: set[int] = set()
        self._order: I32 | None = None
        """Oldest version first, with rows that were removed meanwhile; None: not sorted yet."""
        self._next = 0
        """Rows before this place in the order were taken."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    def add(self, row: int) -> None:
        """Add an event."""
        self._rows.add(row)
        self._order = None

    def add_in_order(self, rows: I32) -> None:
        """Add distinct events, given with the oldest version first."""
        self._order, self._next = (None, 0) if self._rows else (rows, 0)
        self._rows.update(rows.tolist())

    def put_back(self, rows: I32) -> None:
        """Add the newest of those that `take_oldest` returned last again."""
        self._rows.update(rows.tolist())
        if self._order is None:
            return
        places = np.flatnonzero(self._order[: self._next] == rows[0])
        if len(places):
            self._next = int(places[-1])
        else:
            self._order = None

    def discard(self, row: int) -> None:
        """Remove an event, if it is in here."""
        self._rows.discard(row)

    def in_order(self) -> I32:
        """All of them, oldest version first."""
        return self._live.in_order(np.fromiter(self._rows, np.int32, len(self._rows)))

    def take_oldest(self, most: int) -> I32:
        """Remove and return the oldest ones, `most` at most."""
        if self._order is None:
            self._order, self._next = self.in_order(), 0
        found: list[int] = []
        while len(found) < most and self._next < len(self._order):
            end = self._next + most - len(found)
            found += filter(self._rows.__contains__, self._order[self._next : end].tolist())
            self._next = end
        self._rows.difference_update(found)
        return np.array(found, np.int32)

    def take(self, rows: I32) -> I32:
        """Remove and return those of some events that are in here, in their order."""
        found = list(filter(self._rows.__contains__, rows.tolist()))
        self._rows.difference_update(found)
        return np.array(found, np.int32)
