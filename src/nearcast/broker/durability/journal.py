"""The journal of a tick: what must be kept before anything that the tick says may leave.

Collects changes for the store and rows for the log. A tick `must_sync` if it promises something:
then nothing of it is written to anyone before it is on disk.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from msgspec import Struct, field

from nearcast.store import Change, RowBuffer

ENTRY_BYTES = 500
"""About what a change takes in memory."""
NO_ROWS = RowBuffer()
"""What ticks leave that record nothing; nobody appends to it."""


class Entries(Struct):
    """What one or more ticks leave to keep."""

    changes: list[Change] = []
    rows: RowBuffer = field(default_factory=RowBuffer)
    must_sync: bool = False

    def __bool__(self) -> bool:
        return bool(self.changes or self.rows)

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        return self.rows.size + ENTRY_BYTES * len(self.changes)


def joined(parts: Sequence[Entries]) -> Entries:
    """Return what several ticks leave to keep, as one."""
    if len(parts) == 1:
        return parts[0]
    changes = [change for each in parts for change in each.changes]
    rows = RowBuffer()
    for each in parts:
        rows.extend(each.rows)
    return Entries(changes, rows, any(each.must_sync for each in parts))


class Journal:
    """What the running tick leaves to keep; with `keeps` False nothing is kept at all.

    Rows are appended to `rows`, those of `broker`.
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

    def note(self, change: Change, *, sync: bool = True) -> None:
        """Keep a change; with `sync` before anyone is told."""
        if self.keeps:
            self.changes.append(change)
            if sync:
                self.must_sync = True

    def take(self) -> Entries:
        """All so far; the next tick begins with nothing."""
        rows = NO_ROWS
        if self.rows:
            rows, self.rows = self.rows, RowBuffer(self.rows.broker)
        entries = Entries(self.changes, rows, self.must_sync)
        self.changes, self.must_sync = [], False
        return entries
