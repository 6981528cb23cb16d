"""A numpy scan: every event is compared with every subscription, one column at a time.

The three small columns are bytes, so that the first pass over all subscriptions is short; only the
remaining candidates are examined further. There is no index, so a move is one assignment.
"""

import numpy as np
import numpy.typing as npt

from nearcast.benchmarks import city
from nearcast.benchmarks.city import I32, CitySubscriptions, Events, People
from nearcast.benchmarks.matching.peers import columns
from nearcast.benchmarks.matching.peers.peer import MatchedPairs, PeerKind, joined

U8 = npt.NDArray[np.uint8]
FREE = 255


class NumpyScan:
    """All subscriptions as columns."""

    _subscriptions: CitySubscriptions
    _where: columns.Where
    _line: U8
    _kind: U8
    _subject: U8

    def load(self, subscriptions: CitySubscriptions, people: People) -> None:
        """Build the columns."""
        self._subscriptions = subscriptions
        self._where = columns.where(subscriptions, people)
        self._line = _bytes(subscriptions.line, city.ABSENT)
        self._kind = _bytes(subscriptions.kind, city.ABSENT)
        self._subject = _bytes(subscriptions.subject, city.ANY_SUBJECT)

    def match(self, events: Events, first: int, last: int) -> MatchedPairs:
        """Scan all subscriptions for each event."""
        x, y, z = columns.points(events.lat[first:last], events.lon[first:last])
        parts = []
        for i in range(first, last):
            hits = (self._line == events.line[i]) | (self._line == FREE)
            hits &= (self._kind == events.kind[i]) | (self._kind == FREE)
            hits &= (self._subject == events.subject[i]) | (self._subject == FREE)
            rows = np.flatnonzero(hits).astype(np.int32)
            at = i - first
            rows = columns.near(self._where, rows, x[at], y[at], z[at])
            parts.append((i, columns.numbers(self._subscriptions, rows, events, i)))
        return joined(parts)

    def server_cpu_s(self) -> float:
        """Always 0: there is no server."""
        return 0.0

    def close(self) -> None:
        """Do nothing: no process was started."""


def _bytes(column: I32, free: int) -> U8:
    return np.where(column == free, FREE, column).astype(np.uint8)


KIND = PeerKind(
    describe="numpy, a scan of all subscriptions",
    start=NumpyScan,
    missing=lambda: None,
    version=lambda: np.__version__,
)
