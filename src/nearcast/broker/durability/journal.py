"""The journal of a tick: what must be stored before the writes of the tick are released.

Collects changes for the store and rows for the log. A tick `must_sync` if it promises something:
then none of its data is written to a client before it is on disk.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from msgspec import Struct, field

from nearcast.store import Change, RowBuffer

ENTRY_BYTES = 500
"""Estimated memory of a change."""
NO_ROWS = RowBuffer()
"""Shared by all ticks that record nothing; must not be appended to."""


class Entries(Struct):
    """The entries of one or more ticks to store."""

    changes: list[Change] = []
    rows: RowBuffer = field(default_factory=RowBuffer)
    must_sync: bool = False
    others_wait: bool = True
    """Whether all writes of these ticks, and of later ones, wait for it; else answers alone."""

    def __bool__(self) -> bool:
        return bool(self.changes or self.rows)

    @property
    def size(self) -> int:
        """Estimated memory in bytes."""
        return self.rows.size + ENTRY_BYTES * len(self.changes)


def joined(parts: Sequence[Entries]) -> Entries:
    """Return the entries of several ticks as one."""
    if len(parts) == 1:
        return parts[0]
    changes = [change for each in parts for change in each.changes]
    rows = RowBuffer()
    for each in parts:
        rows.extend(each.rows)
    return Entries(changes, rows, any(each.must_sync for each in parts))


class Journal:
    """The entries of the current tick; with `keeps` False nothing is stored.

    Rows are appended to `rows`, which belongs to `broker`.
    """

    def __init__(
        self,
        keeps: bool = False,
        message_ids: Iterator[int] | None = None,
        queue_numbers: Iterator[int] | None = None,
        broker: str = "",
    ) -> None:
        self.keeps = keeps
        self.message_ids = count(1) if message_ids is None else message_ids
        self.queue_numbers = count(1) if queue_numbers is None else queue_numbers
        self.changes: list[Change] = []
        self.rows = RowBuffer(broker)
        self.must_sync = False
        self._is_aside = False
        """Something was noted that answers alone wait for."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Note changes that only those wait for who are answered in this tick.

        Nothing that others are written may depend on whether these changes are on disk.
        """
        before, self.must_sync = self.must_sync, False
        try:
            yield
        finally:
            self._is_aside = self._is_aside or self.must_sync
            self.must_sync = before

    def note(self, change: Change, *, sync: bool = True) -> None:
        """Add a change; with `sync` it must be on disk before the tick's writes are released."""
        if self.keeps:
            self.changes.append(change)
            if sync:
                self.must_sync = True

    def take(self) -> Entries:
        """Return all entries so far, and start empty."""
        rows = NO_ROWS
        if self.rows.payloads:
            rows, self.rows = self.rows, RowBuffer(self.rows.broker)
        all_wait = self.must_sync or not self._is_aside
        entries = Entries(self.changes, rows, self.must_sync or self._is_aside, all_wait)
        self.changes, self.must_sync, self._is_aside = [], False, False
        return entries
