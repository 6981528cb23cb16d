"""What waits for subscriptions that gather, as rows of a snapshot and as values of the store.

In a snapshot a pool is a row of its own, with the subscriptions beside it, and so is each event,
with the pool that it waits in. In the store they are values of two spaces.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.gathering.division import Division
from nearcast.core.gathering.waiting import WaitingEvent, WaitingPool
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Published
from nearcast.core.model.record import Record
from nearcast.store.errors import CorruptError
from nearcast.store.rows.row_json import text
from nearcast.store.rows.rows import Row, input_of, record_row
from nearcast.store.state.values import decoded, encoded

POOL = "pool"
"""The kind of the row of a pool, which no log has."""


class _PoolForm(Struct, frozen=True):
    id: int
    subject: str
    division: str
    middle: tuple[float, float] | None
    subscriptions: tuple[str, ...] = ()


class _WaitingForm(Struct, frozen=True, array_like=True):
    number: int
    priority: int
    expires_at: float | None
    row: Row


# Rows of a snapshot


def pool_row(pool: WaitingPool, broker: str, seq: int) -> Row:
    """Return the row of a pool, without its subscriptions and events."""
    form = _pool_form(replace(pool, subscriptions=()))
    return Row(broker, seq, POOL, 0.0, data=text(msgspec.structs.asdict(form)))


def pool_in(row: Row, subscriptions: Sequence[str]) -> WaitingPool:
    """Return the pool of a row, without its events."""
    try:
        form = msgspec.json.decode(row.data, type=_PoolForm)
    except msgspec.MsgspecError as error:
        raise CorruptError(f"row {row.seq}, a pool, cannot be read: {error}") from None
    return _pool_of(replace(form, subscriptions=tuple(subscriptions)))


def waiting_row(each: WaitingEvent, broker: str, seq: int) -> Row:
    """Return the row of an event that waits, without its expiry."""
    event = replace(each.event, expires_at=None)
    return record_row(Record(seq, each.ingested, Published(event)), broker)


def waiting_in(row: Row, number: int, priority: int, expires_at: float | None) -> WaitingEvent:
    """Return the event that waits in a row."""
    published = input_of(row)
    if not isinstance(published, Published):
        raise CorruptError(f"row {row.seq}, a {row.kind}, cannot wait")
    event = replace(published.event, expires_at=expires_at)
    return WaitingEvent(event, row.ingested, number, priority)


# Values of the store


def encoded_pool(pool: WaitingPool) -> bytes:
    """Return an encoded pool, without its events."""
    return encoded(_pool_form(pool))


def decoded_pool(data: bytes) -> WaitingPool:
    """Return the pool that `encoded_pool` wrote."""
    return _pool_of(decoded(data, _PoolForm))


def encoded_ids(ids: Sequence[str]) -> bytes:
    """Return encoded ids of subscriptions."""
    return encoded(tuple(ids))


def decoded_ids(data: bytes) -> tuple[str, ...]:
    """Return the ids that `encoded_ids` wrote."""
    return decoded(data, tuple[str, ...])


def encoded_waiting(each: WaitingEvent) -> bytes:
    """Return an encoded event that waits."""
    expires_at = each.event.expires_at
    return encoded(_WaitingForm(each.number, each.priority, expires_at, waiting_row(each, "", 0)))


def decoded_waiting(data: bytes) -> WaitingEvent:
    """Return the event that `encoded_waiting` wrote."""
    form = decoded(data, _WaitingForm)
    return waiting_in(form.row, form.number, form.priority, form.expires_at)


def _pool_form(pool: WaitingPool) -> _PoolForm:
    middle = pool.division.middle
    at = None if middle is None else (middle.lat, middle.lon)
    return _PoolForm(pool.id, pool.subject, pool.division.members, at, pool.subscriptions)


def _pool_of(form: _PoolForm) -> WaitingPool:
    middle = None if form.middle is None else Position(*form.middle)
    division = Division(form.division, middle)
    return WaitingPool(form.id, form.subject, division, form.subscriptions, ())
