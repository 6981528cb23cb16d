"""Pending timers: when state of the queries waits for time to pass.

Time advances by the rows of logs. Where a timer is due and no row comes, a broker must be asked to
record the time. The times are kept on disk, since only the epoch that set a timer tells of it.
"""

import bisect
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from nearcast.store.durable_files import write_whole
from nearcast.store.file_access import make_directory

LONG_S = 30 * 86_400.0
"""A query whose timers are all older than this is one whose state was built anew."""
MOST_TIMES = 10_000
"""The limit for one query; beyond it the latest are not kept."""


class PendingTimers:
    """The times at which timers will fire, by query; safe for several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._times: dict[str, list[float]] = {}
        if path.exists():
            found = msgspec.json.decode(path.read_bytes(), type=dict[str, list[float]])
            since = time.time() - LONG_S
            self._times = {query: times for query, times in found.items() if times[-1] > since}

    def add(self, query: str, times: Iterable[float]) -> None:
        """Add times for a query; they are on disk on return."""
        with self._lock:
            known = self._times.get(query, [])
            found = sorted({*known, *times})[:MOST_TIMES]
            if found != known:
                self._keep(query, found)

    def replace(self, query: str, times: Iterable[float]) -> None:
        """Let these be the only times of a query; they are on disk on return."""
        with self._lock:
            found = sorted(set(times))[:MOST_TIMES]
            if found != self._times.get(query, []):
                self._keep(query, found)

    def passed(self, query: str, watermark: float) -> None:
        """Drop the times that a batch of the query has gone beyond."""
        with self._lock:
            known = self._times.get(query, [])
            left = known[bisect.bisect_left(known, watermark) :]
            if left != known:
                self._keep(query, left)

    def first(self, query: str) -> float | None:
        """The time of the next timer of a query."""
        with self._lock:
            return next(iter(self._times.get(query, [])), None)

    def _keep(self, query: str, times: list[float]) -> None:
        self._times.pop(query, None)
        if times:
            self._times[query] = times
        make_directory(self._path.parent)
        write_whole(self._path, msgspec.json.encode(self._times))
