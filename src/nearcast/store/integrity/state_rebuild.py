"""A state without what is damaged: all rows that are what was written, in a new database.

The damaged files are set aside, not deleted. Rows that refer to something damaged go too, such as
queue entries without their message. Rows of the log that were lost are replaced by rows of kind
`gap`, so that its numbers stay whole and every reader learns of them.
"""

import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from nearcast.store.durable_files import PARTIAL, put_in_place, sync_file
from nearcast.store.errors import CorruptError, told
from nearcast.store.file_access import PRIVATE, keep_private
from nearcast.store.integrity.btree import Tree, TreeRow, Value
from nearcast.store.integrity.state_damage import StateDamage, damage_of, position_of
from nearcast.store.integrity.state_image import StateImage
from nearcast.store.rows.row_buffer import RowBuffer
from nearcast.store.rows.rows import gap_row
from nearcast.store.state.schema import bring_up

_TABLES = (
    "sessions", "subscriptions", "messages", "queue", "ended", "received", "live", "live_seen",
    "kept", "tail",
)  # fmt: skip
_DANGLING = (
    "DELETE FROM subscriptions WHERE session NOT IN (SELECT number FROM sessions)",
    "DELETE FROM received WHERE session NOT IN (SELECT number FROM sessions)",
    """DELETE FROM queue WHERE session NOT IN (SELECT number FROM sessions)
        AND session NOT IN (SELECT session FROM ended)""",
    "DELETE FROM queue WHERE message <> 0 AND message NOT IN (SELECT id FROM messages)",
    "DELETE FROM live_seen WHERE live NOT IN (SELECT number FROM live)",
    "DELETE FROM message_refs",
    """INSERT INTO message_refs
        SELECT message, count(*) FROM queue WHERE message <> 0 GROUP BY message""",
    "DELETE FROM messages WHERE id NOT IN (SELECT id FROM message_refs)",
)
_FILES = ("", "-wal", "-shm", "-sums")
LOST = "lost: the state that had it was damaged"


def discard_damage(database: Path, broker: str, log_seq: int) -> StateDamage | None:
    """Rebuild a state without what is damaged; return that, or None if nothing is.

    `log_seq` is the last row that a segment of the log has. Raises `CorruptError` if nothing can be
    saved.
    """
    finish_rebuild(database)
    with StateImage(database) as image:
        damage = damage_of(image)
        if not damage:
            return None
        if 1 in image.damaged:
            raise CorruptError(
                f"{database}: the first page is damaged, and without it nothing can be read. "
                "Restore a backup, or move the state and the log beside it away to begin anew"
            )
        rebuilt = _rebuilt(database)
        rebuilt.unlink(missing_ok=True)
        with told(rebuilt, "writing it"):
            keep_private(rebuilt)
            _write(rebuilt, image, broker, log_seq)
            sync_file(rebuilt)
    finish_rebuild(database, replace=True)
    return damage


def finish_rebuild(database: Path, *, replace: bool = False) -> None:
    """Put a rebuilt state in place of the damaged one, also if that was begun earlier."""
    rebuilt = _rebuilt(database)
    if not rebuilt.exists():
        return
    if database.exists() and not replace:
        # It was not complete, or the damaged one was put back.
        rebuilt.unlink()
        return
    with told(database, "setting it aside"):
        aside = _aside(database)
        for suffix in _FILES:
            file = database.with_name(database.name + suffix)
            if file.exists():
                file.rename(aside / file.name)
        put_in_place(rebuilt, database)


def _rebuilt(database: Path) -> Path:
    return database.with_name(f"{database.name}.rebuilt{PARTIAL}")


def _aside(database: Path) -> Path:
    """Return a directory for damaged files: the one that is being filled, or a new one."""
    number = 1
    while True:
        aside = database.with_name(f"damaged-{number}")
        if not aside.exists():
            aside.mkdir(PRIVATE)
            aside.chmod(PRIVATE)
        if not (aside / database.name).exists() or not database.exists():
            return aside
        number += 1


def _write(path: Path, image: StateImage, broker: str, log_seq: int) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        bring_up(db, path, broker)
        db.execute("BEGIN")
        tables = image.tables()
        for name in _TABLES:
            if name in tables:
                _copy(db, name, tables[name])
        for statement in _DANGLING:
            db.execute(statement)
        _number_sessions(db, tables.get("sqlite_sequence"))
        _set_position(db, image, broker, log_seq)
        db.execute("COMMIT")
    finally:
        db.close()


def _copy(db: sqlite3.Connection, name: str, tree: Tree) -> None:
    columns = db.execute(f"PRAGMA table_info({name})").fetchall()
    places = ", ".join("?" * len(columns))
    rows = (row for row in _intact(tree) if len(row) == len(columns))
    db.executemany(f"INSERT OR IGNORE INTO {name} VALUES ({places})", rows)


def _intact(tree: Tree) -> Iterator[tuple[Value, ...]]:
    for row in tree.rows():
        if isinstance(row, TreeRow) and not row.is_damaged:
            values = row.values
            if row.rowid is not None and values[0] is None:
                # The column that is the row's number is not stored twice.
                values = row.rowid, *values[1:]
            yield values


def _number_sessions(db: sqlite3.Connection, tree: Tree | None) -> None:
    """Let no new session have the number of one that was there."""
    told = [row[1] for row in _intact(tree) if row[0] == "sessions"] if tree else []
    used = [
        db.execute(f"SELECT max({column}) FROM {table}").fetchone()[0]
        for table, column in (("sessions", "number"), ("ended", "session"), ("queue", "session"))
    ]
    most = max(each for each in (0, *told, *used) if isinstance(each, int))
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'sessions'")
    db.execute("INSERT INTO sqlite_sequence VALUES ('sessions', ?)", (most,))


def _set_position(db: sqlite3.Connection, image: StateImage, broker: str, log_seq: int) -> None:
    """Go on after all rows that there were, with rows of kind `gap` for those that were lost.

    What is lost before the first row that is left, the log finds out when it is opened.
    """
    parts = db.execute("SELECT first_seq, last_seq FROM tail ORDER BY last_seq").fetchall()
    ticks, seq = position_of(image) or (0, 0)
    mark = image.mark
    if mark is not None:
        ticks, seq = max(ticks, mark.ticks), max(seq, mark.seq)
    seq = max(seq, log_seq, parts[-1][1] if parts else 0)
    for (_, last), (first, _) in pairwise([*parts, (seq + 1, seq)]):
        if last + 1 < first:
            rows = RowBuffer.of([gap_row(broker, at, 0.0, LOST) for at in range(last + 1, first)])
            db.execute("INSERT INTO tail VALUES (?, ?, ?)", (first - 1, last + 1, rows.packed()))
    db.execute("UPDATE position SET seq = ?, ticks = ?", (seq, ticks))
