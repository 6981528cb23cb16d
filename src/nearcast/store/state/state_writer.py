"""A tick's net changes as SQL: one statement per table and kind, each run over all its rows."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from nearcast.store.errors import StoreError
from nearcast.store.state.changes import Dequeued, Enqueued, Released, Sent, Stage
from nearcast.store.state.pending_changes import Pending, SessionPart
from nearcast.store.state.session_cleanup import Sweep
from nearcast.store.state.values import encoded, encoded_live

_DROPS = (
    "DELETE FROM subscriptions WHERE session = ?",
    "INSERT INTO ended VALUES (?)",
    "DELETE FROM received WHERE session = ?",
    "DELETE FROM sessions WHERE number = ?",
)
_RELEASED = int(Stage.RELEASED)
_SENT = int(Stage.SENT)


class Numbered(Struct):
    """Sessions that got a number, and those whose number was removed."""

    added: dict[str, int] = {}
    removed: dict[str, int] = {}


def write_pending(
    db: sqlite3.Connection, pending: Pending, known: Mapping[str, int], sweep: Sweep
) -> Numbered:
    """Write all pending changes inside the caller's transaction."""
    numbered = _write_sessions(db, pending, known)
    parts: list[tuple[int, SessionPart]] = []
    for name, part in pending.sessions.items():
        number = numbered.added.get(name)
        if number is None:
            number = None if part.dropped else known.get(name)
        if number is not None:
            parts.append((number, part))
        elif part.subscriptions or part.queue or part.received:
            raise StoreError(f"there is no session {name!r} to keep something for")
    _write_subscriptions(db, parts)
    _write_queue(db, parts, pending)
    _write_received(db, parts)
    _write_live(db, pending)
    _write_kept(db, pending)
    sweep.step(db)
    db.execute("DELETE FROM messages WHERE id IN (SELECT id FROM message_refs WHERE refs = 0)")
    db.execute("DELETE FROM message_refs WHERE refs = 0")
    return numbered


def _write_sessions(db: sqlite3.Connection, pending: Pending, known: Mapping[str, int]) -> Numbered:
    numbered = Numbered()
    gone = [(n, known[n]) for n, part in pending.sessions.items() if part.dropped and n in known]
    if gone:
        numbered.removed = dict(gone)
        for statement in _DROPS:
            _many(db, statement, [(number,) for _, number in gone])
    changed: list[tuple[bytes, int]] = []
    for name, part in pending.sessions.items():
        if part.session is None:
            continue
        value = encoded(part.session)
        if name in known and not part.dropped:
            changed.append((value, known[name]))
        else:
            cursor = db.execute("INSERT INTO sessions (id, value) VALUES (?, ?)", (name, value))
            assert cursor.lastrowid is not None
            numbered.added[name] = cursor.lastrowid
    _many(db, "UPDATE sessions SET value = ? WHERE number = ?", changed)
    return numbered


def _write_subscriptions(db: sqlite3.Connection, parts: list[tuple[int, SessionPart]]) -> None:
    gone, put = [], []
    for number, part in parts:
        for key, value in part.subscriptions.items():
            if value is None:
                gone.append((number, key))
            else:
                put.append((number, key, encoded(value)))
    _many(db, "DELETE FROM subscriptions WHERE session = ? AND key = ?", gone)
    _many(db, "INSERT OR REPLACE INTO subscriptions VALUES (?, ?, ?)", put)


def _write_queue(
    db: sqlite3.Connection, parts: list[tuple[int, SessionPart]], pending: Pending
) -> None:
    put, sent, released, gone = [], [], [], []
    referred: dict[int, int] = {}
    for number, part in parts:
        for change in part.queue.values():
            if type(change) is Enqueued:
                message = change.message
                referred[message] = referred.get(message, 0) + 1
                detail = None
                if change.identifiers or change.names:
                    detail = msgspec.msgpack.encode((change.identifiers, change.names))
                put.append(
                    (
                        change.number, number, message, change.qos, change.retain,
                        change.priority, change.packet, change.stage, detail,
                    )
                )  # fmt: skip
            elif type(change) is Dequeued:
                gone.append((change.number, number))
            elif type(change) is Sent:
                sent.append((change.packet, change.number, number))
            elif type(change) is Released:
                released.append((change.packet, change.number, number))
    referred.pop(0, None)
    _write_messages(db, referred, pending)
    _many(db, "DELETE FROM queue WHERE number = ? AND session = ?", gone)
    _many(db, "INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", put)
    _many(
        db, f"UPDATE queue SET packet = ?, stage = {_SENT} WHERE number = ? AND session = ?", sent
    )
    _many(
        db,
        f"UPDATE queue SET packet = ?, stage = {_RELEASED}, message = 0 "
        "WHERE number = ? AND session = ?",
        released,
    )


def _write_messages(db: sqlite3.Connection, referred: Mapping[int, int], pending: Pending) -> None:
    new, new_refs, more_refs = [], [], []
    for id_, refs in referred.items():
        message = pending.messages.get(id_)
        if message is None:
            more_refs.append((refs, id_))
        else:
            new.append((id_, encoded(message)))
            new_refs.append((id_, refs))
    _many(db, "INSERT INTO messages VALUES (?, ?)", new)
    _many(db, "INSERT INTO message_refs VALUES (?, ?)", new_refs)
    if more_refs:
        cursor = db.executemany("UPDATE message_refs SET refs = refs + ? WHERE id = ?", more_refs)
        if cursor.rowcount != len(more_refs):
            raise StoreError(
                f"a queue refers to one of the messages {[id_ for _, id_ in more_refs][:5]}, "
                "which was never put or is gone"
            )


def _write_received(db: sqlite3.Connection, parts: list[tuple[int, SessionPart]]) -> None:
    put: list[tuple[int, int]] = []
    gone: list[tuple[int, int]] = []
    for number, part in parts:
        for packet, taken in part.received.items():
            (put if taken else gone).append((number, packet))
    _many(db, "INSERT OR IGNORE INTO received VALUES (?, ?)", put)
    _many(db, "DELETE FROM received WHERE session = ? AND packet = ?", gone)


def _write_live(db: sqlite3.Connection, pending: Pending) -> None:
    if not pending.live:
        return
    changed = [(key,) for key, part in pending.live.items() if part.changed]
    _many(db, "DELETE FROM live WHERE key = ?", changed)
    _many(
        db,
        "INSERT INTO live (key, value) VALUES (?, ?)",
        [(key, encoded_live(part.live)) for key, part in pending.live.items() if part.live],
    )
    _many(
        db,
        "INSERT OR IGNORE INTO live_seen SELECT number, ? FROM live WHERE key = ?",
        list(_seen(pending)),
    )


def _seen(pending: Pending) -> Iterator[tuple[str, str]]:
    for key, part in pending.live.items():
        for who in part.seen:
            yield who, key


def _write_kept(db: sqlite3.Connection, pending: Pending) -> None:
    put = [(*at, value) for at, value in pending.kept.items() if value is not None]
    gone = [at for at, value in pending.kept.items() if value is None]
    _many(db, "INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", put)
    _many(db, "DELETE FROM kept WHERE space = ? AND key = ?", gone)


def _many(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        db.executemany(statement, rows)
