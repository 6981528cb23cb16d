"""A tick's net changes as SQL: one statement per table and kind, each for many rows.

With every run of a statement the interpreter's lock is given up and must be got back, for which a
busy event loop lets a thread wait. So rows are inserted many at once.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TypeVar

import msgspec
from msgspec import Struct

from nearcast.store.errors import StoreError
from nearcast.store.state.changes import Dequeued, Enqueued, Released, Sent, Stage
from nearcast.store.state.pending_changes import Pending, SessionPart
from nearcast.store.state.session_cleanup import Sweep
from nearcast.store.state.values import encoded, encoded_live

_DROPS = ("subscriptions WHERE session", "received WHERE session", "sessions WHERE number")
_AT_ONCE = (64, 8, 1)
"""Numbers of rows for one statement: few, as each makes another statement to prepare."""
_AT_ONCE_BYTES = 1 << 18
"""The most bytes that one statement inserts, unless a single row has more: they are copied."""
_RELEASED = int(Stage.RELEASED)
_SENT = int(Stage.SENT)
T = TypeVar("T")


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
        numbers = [number for _, number in gone]
        for of_session in _DROPS:
            _delete(db, of_session, numbers)
        _insert(db, "INSERT INTO ended", [(number,) for number in numbers])
    changed: list[tuple[bytes, int]] = []
    new: list[tuple[str, bytes]] = []
    for name, part in pending.sessions.items():
        if part.session is None:
            continue
        value = encoded(part.session)
        if name in known and not part.dropped:
            changed.append((value, known[name]))
        else:
            new.append((name, value))
    _insert(db, "INSERT INTO sessions (id, value)", new)
    for some in _pieces([name for name, _ in new]):
        numbers_of = f"SELECT id, number FROM sessions WHERE id IN ({_values(len(some), 1)})"
        numbered.added |= db.execute(numbers_of, some)
    assert len(numbered.added) == len(new)
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
    _insert(db, "INSERT OR REPLACE INTO subscriptions", put)


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
                if change.live_id is not None or change.basis:
                    told = change.identifiers, change.names, change.live_id, change.basis
                    detail = msgspec.msgpack.encode(told)
                elif change.identifiers or change.names:
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
    _insert(db, "INSERT INTO queue", put)
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
    _insert(db, "INSERT INTO messages", new)
    _insert(db, "INSERT INTO message_refs", new_refs)
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
    _insert(db, "INSERT OR IGNORE INTO received", put)
    _many(db, "DELETE FROM received WHERE session = ? AND packet = ?", gone)


def _write_live(db: sqlite3.Connection, pending: Pending) -> None:
    if not pending.live:
        return
    _delete(db, "live WHERE key", [key for key, part in pending.live.items() if part.changed])
    put = [(key, encoded_live(part.live)) for key, part in pending.live.items() if part.live]
    _insert(db, "INSERT INTO live (key, value)", put)
    _many(
        db,
        "INSERT OR IGNORE INTO live_seen SELECT number, ? FROM live WHERE key = ?",
        list(_seen(pending, True)),
    )
    _many(
        db,
        "DELETE FROM live_seen WHERE who = ? AND live = (SELECT number FROM live WHERE key = ?)",
        list(_seen(pending, False)),
    )


def _seen(pending: Pending, has_it: bool) -> Iterator[tuple[str, str]]:
    for key, part in pending.live.items():
        for who, seen in part.seen.items():
            if seen is has_it:
                yield who, key


def _write_kept(db: sqlite3.Connection, pending: Pending) -> None:
    put = [(*at, value) for at, value in pending.kept.items() if value is not None]
    gone = [at for at, value in pending.kept.items() if value is None]
    _insert(db, "INSERT OR REPLACE INTO kept", put)
    _many(db, "DELETE FROM kept WHERE space = ? AND key = ?", gone)


def _many(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        db.executemany(statement, rows)


def _insert(db: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows in their order, many with one statement."""
    at, left = 0, len(rows)
    while left:
        size = next(
            size for size in _AT_ONCE
            if size == 1 or (size <= left and _bytes(rows[at : at + size]) <= _AT_ONCE_BYTES)
        )  # fmt: skip
        some = rows[at : at + size]
        db.execute(f"{into} {_values(size, len(some[0]))}", list(chain.from_iterable(some)))
        at, left = at + size, left - size


def _delete(db: sqlite3.Connection, where: str, keys: Sequence[object]) -> None:
    """Delete the rows of a table in which a column has one of some values."""
    # Not for keys of several columns: SQLite would look through the whole table.
    for some in _pieces(keys):
        db.execute(f"DELETE FROM {where} IN ({_values(len(some), 1)})", some)


def _pieces(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield keys in pieces for which statements are prepared."""
    at, left = 0, len(keys)
    while left:
        size = next(size for size in _AT_ONCE if size <= left)
        yield keys[at : at + size]
        at, left = at + size, left - size


@cache
def _values(rows: int, columns: int) -> str:
    """Return places for the values of so many rows."""
    row = f"({', '.join('?' * columns)})"
    return f"VALUES {', '.join([row] * rows)}"


def _bytes(rows: Sequence[tuple[object, ...]]) -> int:
    """The size of the values of rows that are bytes."""
    return sum(len(value) for row in rows for value in row if type(value) is bytes)
