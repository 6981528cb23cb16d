"""The durable state of a broker: one SQLite file, one commit per tick.

A commit holds a tick whole: the changes of sessions, queues and live events, and the rows that the
tick adds to the log. They are in one transaction because an acknowledgement promises both, and two
files that must agree would need two syncs and a rule for every moment between them. So the newest
rows are kept here (`tail`) until a segment holds them; a segment is valid once its name appears,
and the next commit deletes its rows here. After a crash between the two, the name decides.

With `synchronous=FULL` and write-ahead logging, a commit returns when it is on disk: one sync. One
call at a time, from any thread; `checkpoint` and `copy_state` may run concurrently.

All pages have checksums in a file beside the database, and are compared with them before it is
opened. Checkpoints are made here and not by SQLite on its own, since checksums come before them.
"""

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from nearcast.store.errors import CorruptError, StoreError, told
from nearcast.store.file_access import keep_private
from nearcast.store.integrity.checksum_file import ChecksumFile, checksum_path, is_write_ahead
from nearcast.store.integrity.state_damage import check_state
from nearcast.store.rows.row_buffer import RowBuffer
from nearcast.store.state.changes import Change, SessionChange
from nearcast.store.state.pending_changes import Pending
from nearcast.store.state.schema import bring_up
from nearcast.store.state.session_cleanup import Sweep
from nearcast.store.state.state_reader import load_all, load_session
from nearcast.store.state.state_writer import write_pending

CHECKPOINT_PAGES = 16_384
"""A commit checkpoints the write-ahead log at this size (64 MiB), if `checkpoint` did not."""
CHECKPOINT_BYTES = CHECKPOINT_PAGES * 4_096


_APPEND = "INSERT INTO tail VALUES (?, ?, ?)"


class StateStatistics(Struct, frozen=True):
    """The size of the state."""

    ticks: int
    seq: int
    sessions: int
    ended_sessions: int
    """Ended sessions whose queue rows are still to be deleted."""
    subscriptions: int
    messages: int
    queued: int
    live: int
    kept: int
    tail_ticks: int
    file_bytes: int
    free_bytes: int
    """The part of `file_bytes` that later commits will reuse."""
    wal_bytes: int


class State:
    """The open database of one broker."""

    def __init__(self, path: Path, broker: str) -> None:
        self.path = path
        self._broker = broker
        self.journal = path.with_name(f"{path.name}-wal")
        self.problems: list[str] = []
        """What was found when it was opened, and does not keep it from being used."""
        has_checksums = self._check()
        with told(path, "opening it"):
            # SQLite's other files get the same mode.
            keep_private(path)
            was_write_ahead = is_write_ahead(path)
            self._db = _connect(path)
        try:
            self._checksums = ChecksumFile(path)
            try:
                # Turning on the write-ahead log changes the first page without it.
                if not has_checksums or not was_write_ahead:
                    self._checksums.make()
                bring_up(self._db, path, broker)
                with told(path, "reading it"):
                    self._begin(broker)
            except BaseException:
                self._db.close()
                self._checksums.close()
                raise
        except BaseException:
            self._db.close()
            raise

    def _check(self) -> bool:
        """Compare the pages with their checksums; return whether there are any."""
        path = self.path
        is_empty = not path.exists() or not path.stat().st_size
        if is_empty:
            if checksum_path(path).exists():
                raise CorruptError(
                    f"{path} is empty, but has checksums of what was in it; restore a backup, or "
                    f"move {checksum_path(path).name} and the log beside it away to begin anew"
                )
            return False
        damage = check_state(path)
        if damage.has_checksums and not damage.unverified:
            return True
        self._check_structure()
        what = f"{damage.unverified} pages" if damage.unverified else "its pages"
        self.problems.append(
            f"{path}: checksums of {what} were missing; the structure of the database was "
            "checked, and they were made anew"
        )
        return False

    def _check_structure(self) -> None:
        """Let SQLite check what it can; raises `CorruptError`."""
        with told(self.path, "checking it"):
            db = _connect(self.path)
            try:
                found = [text for (text,) in db.execute("PRAGMA integrity_check(5)")]
                if found != ["ok"]:
                    raise CorruptError(
                        f"{self.path}: the database is damaged ({'; '.join(found)}); it was left "
                        "as it is. Restore a backup, or move it and the log beside it away to "
                        "begin anew"
                    )
                # The pages in the write-ahead log are about to get checksums too.
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                db.close()

    def _begin(self, broker: str) -> None:
        name, self.seq, self.ticks = _position(self._db)
        if name != broker:
            raise StoreError(
                f"{self.path} belongs to broker {name!r}, not {broker!r}, and its log says so "
                "too; put it back under its own name"
            )
        self._numbers: dict[str, int] = dict(self._db.execute("SELECT id, number FROM sessions"))
        self._sweep = Sweep(self._db)
        self._synchronous = "FULL"
        self._written, self._commits_left = 0, CHECKPOINT_PAGES // 4
        """The size of rows committed since a checkpoint, and the commits until the next one."""
        self._deleted_seq = 0
        """Rows up to this seq are known to be deleted from the tail."""
        self.message_ids = itertools.count(self._most("messages", "id") + 1)
        self.queue_numbers = itertools.count(self._most("queue", "number") + 1)

    def _most(self, table: str, column: str) -> int:
        (most,) = self._db.execute(f"SELECT max({column}) FROM {table}").fetchone()
        return int(most or 0)

    def commit(self, changes: Sequence[Change], rows: RowBuffer, settled_seq: int) -> int:
        """Commit a tick, synced to disk on return; return the size of its rows in bytes.

        Rows up to `settled_seq` are in segments and are deleted here. On failure no part of the
        tick is kept, and the commit may be retried.
        """
        return self._commit(changes, rows, settled_seq, "FULL")

    def commit_unsynced(self, changes: Sequence[Change], rows: RowBuffer, settled_seq: int) -> int:
        """Commit a tick that acknowledges nothing, without waiting for the disk.

        It survives the end of this process at once, and a power cut from the next `commit` on.
        """
        return self._commit(changes, rows, settled_seq, "NORMAL")

    def _commit(
        self, changes: Sequence[Change], rows: RowBuffer, settled_seq: int, synchronous: str
    ) -> int:
        value = rows.packed() if rows else b""
        with told(self.path, f"committing tick {self.ticks + 1}"):
            self._synchronize(synchronous)
            if changes or not rows or self._sweep.waiting or settled_seq > self._deleted_seq:
                self._commit_changes(Pending(changes), rows, value, settled_seq)
            else:
                # Rows alone are one statement, and one page of the write-ahead log.
                self._db.execute(_APPEND, (rows.last_seq, rows.first_seq, value))
        self.seq, self.ticks = rows.last_seq if rows else self.seq, self.ticks + 1
        if synchronous == "FULL":
            self._checksums.mark(self.ticks, self.seq)
        self._limit_log(len(value))
        return len(value)

    def _limit_log(self, size: int) -> None:
        """Checkpoint if the write-ahead log has grown large, and `checkpoint` was not called."""
        self._written += size
        if self._written < CHECKPOINT_BYTES and self._commits_left:
            self._commits_left -= 1
            return
        self._written, self._commits_left = 0, CHECKPOINT_PAGES // 4
        # It is tried again later; the commit stands.
        with suppress(StoreError):
            self.finish_checkpoint()

    def _commit_changes(
        self, pending: Pending, rows: RowBuffer, value: bytes, settled_seq: int
    ) -> None:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            numbered = write_pending(db, pending, self._numbers, self._sweep)
            if rows:
                db.execute(_APPEND, (rows.last_seq, rows.first_seq, value))
            db.execute("DELETE FROM tail WHERE last_seq <= ?", (settled_seq,))
            seq = rows.last_seq if rows else self.seq
            db.execute("UPDATE position SET seq = ?, ticks = ?", (seq, self.ticks + 1))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        for name in numbered.removed:
            del self._numbers[name]
        self._sweep.settle(set(numbered.removed.values()))
        self._numbers |= numbered.added
        self._deleted_seq = settled_seq

    def _synchronize(self, mode: str) -> None:
        """Set whether later commits wait for the disk (FULL) or not (NORMAL)."""
        if mode != self._synchronous:
            self._db.execute(f"PRAGMA synchronous = {mode}")
            self._synchronous = mode

    def load(self) -> Iterator[Change]:
        """Yield the state as the changes that would build it, one at a time."""
        with told(self.path, "loading it"):
            yield from load_all(self._db, self._numbers)

    def load_session(self, session: str) -> Iterator[SessionChange]:
        """Yield one session and its queued messages."""
        if session not in self._numbers:
            raise StoreError(f"there is no session {session!r}")
        with told(self.path, "loading a session"):
            yield from load_session(self._db, session, self._numbers[session])

    def has_session(self, session: str) -> bool:
        """Return True if a session is stored."""
        return session in self._numbers

    def tail(self, after_seq: int) -> Iterator[RowBuffer]:
        """Yield the rows that no segment holds, one tick at a time."""
        query = "SELECT value FROM tail WHERE last_seq > ? ORDER BY last_seq"
        with told(self.path, "reading the end of the log"):
            for (value,) in self._db.execute(query, (after_seq,)):
                yield RowBuffer.unpacked(value, self._broker)

    def checkpoint(self) -> None:
        """Checkpoint the write-ahead log, concurrently with other calls."""
        with told(self.path, "folding back its write-ahead log"):
            db, reader = _connect(self.path), _connect(self.path)
            try:
                # Commits after this are not checkpointed: their pages have no checksums yet.
                reader.execute("BEGIN")
                reader.execute("SELECT seq FROM position").fetchone()
                self._checksums.absorb()
                db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            finally:
                reader.close()
                db.close()

    def finish_checkpoint(self) -> None:
        """Checkpoint what was committed during `checkpoint`: little, so this is quick.

        Then the write-ahead log is overwritten from its beginning. If it grows instead, the file
        system has to sync its new size with every commit, which takes twice as long.
        """
        with told(self.path, "folding back its write-ahead log"):
            self._checksums.absorb()
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._written, self._commits_left = 0, CHECKPOINT_PAGES // 4

    def compact(self) -> None:
        """Remove all traces of deleted data from the files."""
        with told(self.path, "compacting it"):
            self._synchronize("FULL")
            self._db.execute("VACUUM")
            self._checksums.absorb()
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def statistics(self) -> StateStatistics:
        """Return the size of the state; this counts rows, so it is not for every tick."""
        with told(self.path, "counting"):
            (page,) = self._db.execute("PRAGMA page_size").fetchone()
            (pages,) = self._db.execute("PRAGMA page_count").fetchone()
            (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
            return StateStatistics(
                ticks=self.ticks,
                seq=self.seq,
                sessions=len(self._numbers),
                ended_sessions=self._sweep.waiting,
                subscriptions=self._count("subscriptions"),
                messages=self._count("messages"),
                queued=self._count("queue"),
                live=self._count("live"),
                kept=self._count("kept"),
                tail_ticks=self._count("tail"),
                file_bytes=page * pages,
                free_bytes=page * free,
                wal_bytes=self.journal.stat().st_size if self.journal.exists() else 0,
            )

    def _count(self, table: str) -> int:
        (rows,) = self._db.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(rows)

    def close(self) -> None:
        """Close the database; all commits are in it."""
        try:
            # SQLite checkpoints when it closes a database.
            self._checksums.absorb()
        except StoreError:
            # They would not fit what it is about to write.
            self._checksums.discard()
        self._db.close()
        self._checksums.close()


def copy_state(source: Path, target: Path) -> int:
    """Copy a state as of one commit, while another process may use it; return its seq."""
    with told(target, f"copying {source} to it"):
        keep_private(target)
        # Only for reading: closing it must not checkpoint, if nobody else uses it.
        db = sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, isolation_level=None)
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            seq = _position(copy)[1]
        finally:
            db.close()
            copy.close()
    checksums = ChecksumFile(target)
    try:
        checksums.make()
    finally:
        checksums.close()
    return seq


def _position(db: sqlite3.Connection) -> tuple[str, int, int]:
    """Return the broker, the last seq and the number of ticks.

    Commits of rows alone do not change `position`: each of them is a row of `tail` after it.
    """
    broker, seq, ticks = db.execute("SELECT broker, seq, ticks FROM position").fetchone()
    query = "SELECT max(last_seq), count(*) FROM tail WHERE last_seq > ?"
    last_seq, count = db.execute(query, (seq,)).fetchone()
    return str(broker), int(last_seq or seq), int(ticks + count)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(
        path, timeout=5.0, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        # Some builds overwrite all deleted data with zeros; erasing a person compacts the file.
        db.execute("PRAGMA secure_delete = FAST")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_BYTES}")
    except BaseException:
        db.close()
        raise
    return db
