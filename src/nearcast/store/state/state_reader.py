"""Reading the state as the changes that would build it, one at a time."""

import sqlite3
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from nearcast.store.state.changes import (
    Change,
    Enqueued,
    Kept,
    LivePut,
    LiveSeen,
    MessagePut,
    ReceivedPut,
    SessionChange,
    SessionPut,
    Stage,
    SubscriptionPut,
)
from nearcast.store.state.values import (
    StoredMessage,
    StoredSession,
    SubscriptionState,
    decoded,
    decoded_live,
)

_QUEUE = "SELECT session, number, message, qos, retain, priority, packet, stage, detail FROM queue"


class _Detail(Struct, array_like=True):
    identifiers: tuple[int, ...]
    names: tuple[str, ...]
    live_id: str | None = None
    basis: bytes = b""


_DETAIL = msgspec.msgpack.Decoder(_Detail)
_NO_DETAIL = _Detail((), ())


def load_all(db: sqlite3.Connection, numbers: Mapping[str, int]) -> Iterator[Change]:
    """Yield everything: sessions and messages before references to them, queues in order."""
    ids = {number: name for name, number in numbers.items()}
    for name, number in numbers.items():
        yield from _session(db, name, number)
    for id_, value in db.execute("SELECT id, value FROM messages ORDER BY id"):
        yield MessagePut(id_, decoded(value, StoredMessage))
    for row in db.execute(f"{_QUEUE} ORDER BY number"):
        if row[0] in ids:  # else the session has ended and its rows are still to be swept up
            yield _enqueued(ids[row[0]], *row[1:])
    keys = {}
    for number, key, value in db.execute("SELECT number, key, value FROM live ORDER BY number"):
        keys[number] = key
        yield LivePut(decoded_live(key, value))
    for number, who in db.execute("SELECT live, who FROM live_seen"):
        yield LiveSeen(keys[number], who)
    for space, key, value in db.execute("SELECT space, key, value FROM kept"):
        yield Kept(space, key, value)


def load_session(db: sqlite3.Connection, name: str, number: int) -> Iterator[SessionChange]:
    """Yield one session, with the messages that its queue refers to."""
    yield from _session(db, name, number)
    query = (
        "SELECT id, value FROM messages "
        "WHERE id IN (SELECT message FROM queue WHERE session = ?) ORDER BY id"
    )
    for id_, value in db.execute(query, (number,)):
        yield MessagePut(id_, decoded(value, StoredMessage))
    for row in db.execute(f"{_QUEUE} WHERE session = ? ORDER BY number", (number,)):
        yield _enqueued(name, *row[1:])


def _session(db: sqlite3.Connection, name: str, number: int) -> Iterator[SessionChange]:
    at = (number,)
    (value,) = db.execute("SELECT value FROM sessions WHERE number = ?", at).fetchone()
    yield SessionPut(decoded(value, StoredSession))
    for key, value in db.execute("SELECT key, value FROM subscriptions WHERE session = ?", at):
        yield SubscriptionPut(name, key, decoded(value, SubscriptionState))
    for (packet,) in db.execute("SELECT packet FROM received WHERE session = ?", at):
        yield ReceivedPut(name, packet)


def _enqueued(
    name: str, number: int, message: int, qos: int, retain: int, priority: int, packet: int,
    stage: int, detail: bytes | None,
) -> Enqueued:  # fmt: skip
    found = _NO_DETAIL if detail is None else _DETAIL.decode(detail)
    return Enqueued(
        name, number, message, qos, bool(retain), priority, packet, Stage(stage),
        found.identifiers, found.names, found.live_id, found.basis,
    )  # fmt: skip
