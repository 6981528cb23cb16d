"""Holds back writes: in order, and not before the entries they promise are on disk.

Used by the real server and by the virtual one. A batch that must be synced waits until it is on
disk, and so does every batch after it; a batch that promises nothing, with none held before it, is
written at once. While the disk fails, only what is promised is held, and what comes after it on the
same connections: everybody else is served.
"""

from collections import deque
from collections.abc import Callable

from nearcast.broker.delivery.batch import Batch, Write
from nearcast.broker.durability.journal import Entries
from nearcast.broker.net.connection import Connection
from nearcast.store import Change, SessionPut

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
        self._behind: set[Connection] | None = None
        """The connections of held writes while the disk fails; None while it works."""

    def __len__(self) -> int:
        return len(self._held)

    def take(self, batch: Batch) -> None:
        """Write a batch now, or after its entries are on disk."""
        entries = batch.entries
        if self._keep is None or not (entries or self._held):
            self._write(batch)
        elif entries.must_sync or self._held:
            held = batch if self._behind is None else self._let_others_pass(batch)
            self._hold(held)
            self._keep(entries, self._release)
        else:
            self._write(batch)
            self._keep(entries, None)

    def serve_others(self, failing: bool) -> None:
        """While the disk is `failing`, hold back only what is promised."""
        if not failing:
            self._behind = None
        elif self._behind is None:
            self._behind = set()
            held, self._held, self.bytes = self._held, deque(), 0
            for batch, _ in held:
                self._hold(self._let_others_pass(batch))

    def release_all(self) -> None:
        """Write all held batches; everything is on disk."""
        while self._held:
            self._release()

    def _hold(self, batch: Batch) -> None:
        size = sum(len(write.data) for write in batch.writes)
        self._held.append((batch, size))
        self.bytes += size

    def _let_others_pass(self, batch: Batch) -> Batch:
        """Write what is not promised and overtakes nothing; return the rest."""
        assert self._behind is not None
        sessions = {_session_of(change) for change in batch.entries.changes}
        held: list[Write] = []
        passing: list[Write] = []
        for write in batch.writes:
            connection = write.connection
            session = connection.session
            if (
                connection in self._behind
                or write.acknowledgements
                or (session is not None and session.client_id in sessions)
            ):
                self._behind.add(connection)
                held.append(write)
            else:
                passing.append(write)
        self._write(Batch(Entries(), passing))
        return Batch(batch.entries, held, batch.slow)

    def _release(self) -> None:
        batch, size = self._held.popleft()
        self.bytes -= size
        self._write(batch)


def _session_of(change: Change) -> str | None:
    """Return the session that a change is about; None if it is about none."""
    if isinstance(change, SessionPut):
        return change.session.id
    return getattr(change, "session", None)
