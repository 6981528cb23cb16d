"""The tables of `state.sqlite`, each version of them, and the migrations.

A message is stored once; the queues refer to it, references are counted, and the commit that
removes the last reference deletes it. All queues are one table in the order of their numbers: new
rows are appended, at a third of the cost of an index by session. So a session that ends leaves its
rows behind under a number that is never used again (`ended`), to be deleted in later commits.
`tail` holds the rows of the log that are in no segment yet, one value for each tick.
"""

import sqlite3
from pathlib import Path

from nearcast.store.errors import CorruptError, newer, told

APPLICATION = 0x4E656172  # "Near"

_FIRST = (
    "CREATE TABLE schema_version (version INTEGER NOT NULL)",
    "INSERT INTO schema_version VALUES (0)",
    """CREATE TABLE position (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        broker TEXT NOT NULL, seq INTEGER NOT NULL, ticks INTEGER NOT NULL)""",
    """CREATE TABLE sessions (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, value BLOB NOT NULL)""",
    """CREATE TABLE subscriptions (
        session INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (session, key)) WITHOUT ROWID""",
    "CREATE TABLE messages (id INTEGER PRIMARY KEY, value BLOB NOT NULL)",
    "CREATE TABLE message_refs (id INTEGER PRIMARY KEY, refs INTEGER NOT NULL)",
    "CREATE INDEX unreferenced ON message_refs (id) WHERE refs = 0",
    """CREATE TABLE queue (
        number INTEGER PRIMARY KEY, session INTEGER NOT NULL, message INTEGER NOT NULL,
        qos INTEGER NOT NULL, retain INTEGER NOT NULL, priority INTEGER NOT NULL,
        packet INTEGER NOT NULL, stage INTEGER NOT NULL, detail BLOB)""",
    "CREATE TABLE ended (session INTEGER PRIMARY KEY)",
    """CREATE TRIGGER unrefer AFTER DELETE ON queue BEGIN
        UPDATE message_refs SET refs = refs - 1 WHERE id = OLD.message; END""",
    """CREATE TRIGGER release AFTER UPDATE OF message ON queue
        WHEN OLD.message <> NEW.message BEGIN
        UPDATE message_refs SET refs = refs - 1 WHERE id = OLD.message; END""",
    """CREATE TABLE received (
        session INTEGER NOT NULL, packet INTEGER NOT NULL,
        PRIMARY KEY (session, packet)) WITHOUT ROWID""",
    """CREATE TABLE live (
        number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL)""",
    """CREATE TABLE kept (
        space TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (space, key)) WITHOUT ROWID""",
    """CREATE TABLE tail (
        last_seq INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, value BLOB NOT NULL)""",
)
# The recipients of each version of a live event, so that a restart does not send it again.
_SECOND = (
    """CREATE TABLE live_seen (
        live INTEGER NOT NULL, who TEXT NOT NULL, PRIMARY KEY (live, who)) WITHOUT ROWID""",
    """CREATE TRIGGER unsee AFTER DELETE ON live BEGIN
        DELETE FROM live_seen WHERE live = OLD.number; END""",
)
# Pages have checksums in a file beside the database, which earlier releases do not keep up to date.
_THIRD = ()
MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, _THIRD)
CURRENT = len(MIGRATIONS)


def bring_up(db: sqlite3.Connection, path: Path, broker: str, version: int = CURRENT) -> None:
    """Create the tables, or migrate older ones to `version`, in one transaction."""
    with told(path, "reading its form"):
        found = _version(db, path)
    if found > CURRENT:
        raise newer(str(path), found, CURRENT)
    if found >= version:
        return
    with told(path, f"bringing it from form {found} to {version}"):
        db.execute("BEGIN IMMEDIATE")
        try:
            for statements in MIGRATIONS[found:version]:
                for statement in statements:
                    db.execute(statement)
            if found == 0:
                db.execute("INSERT INTO position VALUES (1, ?, 0, 0)", (broker,))
                db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute("UPDATE schema_version SET version = ?", (version,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables, 0 if there are none."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
    if not tables:
        return 0
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION or "schema_version" not in tables:
        raise CorruptError(
            f"{path} is a database, but not one of Nearcast's; it was left as it is. "
            "Move it away, or give the broker another data directory"
        )
    (version,) = db.execute("SELECT version FROM schema_version").fetchone()
    return int(version)
