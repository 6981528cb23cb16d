"""Holds back writes: in order, and not before the entries they promise are on disk.

Used by the real server and by the virtual one. A batch that must be synced waits until it is on
disk, and so does every batch after it; a batch that promises nothing, with none held before it, is
written at once.
"""

from collections import deque
from collections.abc import Callable

from nearcast.broker.delivery.batch import Batch
from nearcast.broker.durability.journal import Entries

OnCommit = Callable[[], None]
Keep = Callable[[Entries, OnCommit | None], None]


class CommitGate:
    """A queue of batches to write; `keep` submits their entries to a disk, if there is one."""

    def __init__(self, write: Callable[[Batch], None], keep: Keep | None = None) -> None:
        self._write = write
        self._keep = keep
        self._held: deque[tuple[Batch, int]] = deque()
        self.bytes = 0
        """The size of the held writes."""

    def __len__(self) -> int:
        return len(self._held)

    def take(self, batch: Batch) -> None:
        """Write a batch now, or after its entries are on disk."""
        entries = batch.entries
        if self._keep is None or not (entries or self._held):
            self._write(batch)
        elif entries.must_sync or self._held:
            size = sum(len(write.data) for write in batch.writes)
            self._held.append((batch, size))
            self.bytes += size
            self._keep(entries, self._release)
        else:
            self._write(batch)
            self._keep(entries, None)

    def release_all(self) -> None:
        """Write all held batches; everything is on disk."""
        while self._held:
            self._release()

    def _release(self) -> None:
        batch, size = self._held.popleft()
        self.bytes -= size
        self._write(batch)
