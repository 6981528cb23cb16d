"""Holds back writes: in order, and not before the entries they promise are on disk.

Used by the real server and by the virtual one. A batch that must be synced waits until it is on
disk, and so does every batch after it; a batch that promises nothing, with none held before it, is
written at once. If only answers of a batch promise something, they alone are held, and what comes
after them on the same connections. So is what is promised while the disk fails: everybody else is
served.
"""

from collections import Counter, deque
from collections.abc import Callable

from nearcast.broker.delivery.batch import Batch, Write
from nearcast.broker.durability.journal import Entries
from nearcast.broker.net.connection import Connection
from nearcast.store import Change, SessionPut

OnCommit = Callable[[], None]
Keep = Callable[[Entries, OnCommit | None], None]
_Held = tuple[Batch, int, bool]
"""A batch, the size of its writes, and whether every later batch waits for it."""


class CommitGate:
    """A queue of batches to write; `keep` submits their entries to a disk, if there is one."""

    def __init__(self, write: Callable[[Batch], None], keep: Keep | None = None) -> None:
        self._write = write
        self._keep = keep
        self._held: deque[_Held] = deque()
        self._whole = 0
        """Held batches that every later batch waits for."""
        self._waiting: Counter[Connection] = Counter()
        """How many writes of the other held batches each connection waits for."""
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
        elif self._behind is not None and (entries.must_sync or self._held):
            self._hold(self._let_others_pass(batch), True)
            self._keep(entries, self._release)
        elif self._whole or (entries.must_sync and entries.others_wait):
            self._hold(batch, True)
            self._keep(entries, self._release)
        elif entries.must_sync or self._held:
            held = self._hold_answers(batch)
            if held.writes or entries.must_sync:
                self._hold(held, False)
                self._keep(entries, self._release)
            elif entries:
                self._keep(entries, None)
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
            self._whole = 0
            self._waiting.clear()
            for batch, _, _ in held:
                self._hold(self._let_others_pass(batch), True)

    def release_all(self) -> None:
        """Write all held batches; everything is on disk."""
        while self._held:
            self._release()

    def _hold(self, batch: Batch, is_whole: bool) -> None:
        size = sum(len(write.data) for write in batch.writes)
        self._held.append((batch, size, is_whole))
        self.bytes += size
        if is_whole:
            self._whole += 1
        else:
            self._waiting.update(write.connection for write in batch.writes)

    def _hold_answers(self, batch: Batch) -> Batch:
        """Write what is no answer and overtakes none; return the rest."""
        held: list[Write] = []
        passing: list[Write] = []
        must_sync, waiting = batch.entries.must_sync, self._waiting
        for write in batch.writes:
            waits = write.connection in waiting or (must_sync and write.acknowledgements)
            (held if waits else passing).append(write)
        self._write(Batch(Entries(), passing))
        return Batch(batch.entries, held, batch.slow)

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
        batch, size, is_whole = self._held.popleft()
        self.bytes -= size
        if is_whole:
            self._whole -= 1
        else:
            for write in batch.writes:
                self._waiting[write.connection] -= 1
                if not self._waiting[write.connection]:
                    del self._waiting[write.connection]
        self._write(batch)


def _session_of(change: Change) -> str | None:
    """Return the session that a change is about; None if it is about none."""
    if isinstance(change, SessionPut):
        return change.session.id
    return getattr(change, "session", None)
