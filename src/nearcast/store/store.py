"""The store of one broker: its state and its log under one lock, kept consistent.

`DIR/brokers/BROKER/` holds `state.sqlite`, `log/` and `lock`. A tick of the broker is: decide,
`commit` the changes and the rows, and only then send acknowledgements. After a commit has returned,
its data is never missing, neither from the state nor from the log.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from nearcast.store.backup import back_up
from nearcast.store.durable_files import ProcessLock, sync_directory
from nearcast.store.errors import StoreError, told
from nearcast.store.file_access import make_directory
from nearcast.store.integrity.state_rebuild import finish_rebuild
from nearcast.store.layout import broker_directory
from nearcast.store.log.erasure import Erasure
from nearcast.store.log.log import Log, LogSettings, LogStatistics
from nearcast.store.log.segments import Segment, numbers_of
from nearcast.store.rows.row_buffer import RowBuffer
from nearcast.store.state.changes import Change, SessionChange, SessionPut
from nearcast.store.state.sessions import session_changes, session_value
from nearcast.store.state.state import State, StateStatistics

RETRY_S = 1.0
"""The delay before a segment that could not be written is retried."""


class StoreStatistics(Struct, frozen=True):
    """The sizes of state and log."""

    state: StateStatistics
    log: LogStatistics


class Store:
    """The data of a broker, opened by one process at a time.

    Opening raises `InUseError`, `CorruptError` or `StoreError`, each with the file and a remedy.
    `problems` lists defects of the log that were found and handled. One call at a time, from any
    thread.
    """

    def __init__(self, data: Path, broker: str, settings: LogSettings | None = None) -> None:
        self.directory = broker_directory(data, broker)
        self.broker = broker
        with told(self.directory, "making it"):
            make_directory(self.directory)
        self._lock = ProcessLock(self.directory / "lock")
        try:
            self._open(LogSettings() if settings is None else settings)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, settings: LogSettings) -> None:
        path, logs = self.directory / "state.sqlite", self.directory / "log"
        finish_rebuild(path)
        if not path.exists() and logs.is_dir() and any(numbers_of(p.name) for p in logs.iterdir()):
            raise StoreError(
                f"{path} is missing, but {logs} is not empty; restore the state from a backup, "
                "or move the log away to begin anew"
            )
        self._state = State(path, self.broker)
        try:
            tail = RowBuffer(self.broker)
            for rows in self._state.tail(0):
                tail.extend(rows)
            self.log = Log(logs, self.broker, self._state.seq, tail, self._state.journal, settings)
            if self.log.settled_seq > self._state.seq:
                raise StoreError(
                    f"{path} ends at seq {self._state.seq}, but {logs} goes on to "
                    f"{self.log.settled_seq}: the state is older than the log. Restore both "
                    "from one backup"
                )
            with told(self.directory, "syncing it"):
                sync_directory(self.directory)
        except BaseException:
            self._state.close()
            raise

    @property
    def seq(self) -> int:
        """The seq of the last row; the next tick's rows follow it."""
        return self._state.seq

    @property
    def ticks(self) -> int:
        """The number of ticks ever committed."""
        return self._state.ticks

    @property
    def problems(self) -> list[str]:
        """Problems of the log since it was opened."""
        return self.log.problems

    @property
    def state_problems(self) -> list[str]:
        """Problems of the state that were found when it was opened."""
        return self._state.problems

    @property
    def message_ids(self) -> Iterator[int]:
        """Ids for new messages."""
        return self._state.message_ids

    @property
    def queue_numbers(self) -> Iterator[int]:
        """Numbers for new queue entries, increasing over all sessions."""
        return self._state.queue_numbers

    def load(self) -> Iterator[Change]:
        """Yield the state as the changes that would build it."""
        return self._state.load()

    def commit(
        self, changes: Sequence[Change], rows: RowBuffer | None = None, *, now: float
    ) -> None:
        """Commit a tick; acknowledgements may be sent when this returns.

        If it raises, no part of the tick is kept, and the commit may be retried.
        """
        rows = self._checked(rows)
        size = self._state.commit(changes, rows, self.log.settled_seq)
        self.log.append(rows, size, now)

    def commit_unsynced(
        self, changes: Sequence[Change], rows: RowBuffer | None = None, *, now: float
    ) -> None:
        """Commit a tick that acknowledges nothing (QoS 0), without waiting for the disk.

        It may be lost in a power cut, but not by the end of this process.
        """
        rows = self._checked(rows)
        size = self._state.commit_unsynced(changes, rows, self.log.settled_seq)
        self.log.append(rows, size, now)

    def _checked(self, rows: RowBuffer | None) -> RowBuffer:
        if rows is None:
            return RowBuffer(self.broker)
        if rows and (rows.first_seq, rows.last_seq) != (self.seq + 1, self.seq + len(rows)):
            raise StoreError(
                f"rows {rows.first_seq} to {rows.last_seq} ({len(rows)}) do not follow seq "
                f"{self.seq}"
            )
        return rows

    def roll(self, now: float) -> Segment | None:
        """Write a segment if one is due; on failure the rows are kept and it is retried later.

        To write in another thread, call `log.seal`, `Sealed.write` there, then `log.settle`, or
        `log.unseal` if it failed; and `checkpoint` there too.
        """
        due = self.log.next_due()
        return self._roll(now) if due is not None and due <= now else None

    def _roll(self, now: float) -> Segment | None:
        sealed = self.log.seal()
        if sealed is None:
            return None
        try:
            segment = sealed.write()
        except BaseException:
            self.log.unseal(now + RETRY_S)
            raise
        self.log.settle(segment)
        return segment

    def erase(self, node: str, *, now: float) -> int:
        """Erase a node from the log; return the number of changed segments.

        Earlier commits must have removed it from the state.
        """
        self._roll(now)
        self.commit((), now=now)
        erasure = Erasure(node)
        erased = self.log.erase(erasure.concerns, erasure.left)
        self._state.compact()
        return erased

    def checkpoint(self) -> None:
        """Checkpoint SQLite's write-ahead log; best from time to time, in another thread."""
        self._state.checkpoint()

    def finish_checkpoint(self) -> None:
        """Checkpoint what was committed meanwhile; like most calls, one at a time."""
        self._state.finish_checkpoint()

    def export_session(self, session: str) -> bytes:
        """Return a session with its queue, as one value."""
        return session_value(self._state.load_session(session))

    def read_session(self, value: bytes) -> list[SessionChange]:
        """Return the changes that build an exported session here, to be committed with a tick."""
        changes = session_changes(value, self.message_ids, self.queue_numbers)
        for change in changes:
            if isinstance(change, SessionPut) and self._state.has_session(change.session.id):
                raise StoreError(f"there is a session {change.session.id!r} already; drop it first")
        return changes

    def import_session(self, value: bytes, *, now: float) -> list[SessionChange]:
        """Commit an exported session in a tick of its own, and return its changes."""
        changes = self.read_session(value)
        self.commit(changes, now=now)
        return changes

    def backup(self, target: Path) -> int:
        """Copy state and log as of one commit into a new data directory; return its seq.

        The broker may keep running.
        """
        return back_up(self.directory, target, self.broker)

    def statistics(self) -> StoreStatistics:
        """Return the sizes of state and log; it counts rows, so it is not for every tick."""
        return StoreStatistics(self._state.statistics(), self.log.statistics())

    def close(self) -> None:
        """Write the last segment, and release the store."""
        try:
            self._roll(now=0.0)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the store without writing; committed data is not lost."""
        self._state.close()
        self._lock.release()
