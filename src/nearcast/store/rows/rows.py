"""Rows of the log: any input of the core as one row of columns, and back without loss.

Fields for analyses have columns of their own; the rest of an input is JSON in `data`, with areas
and filters in their JSON forms. Times are seconds since 1970 as doubles, because a repeated
decision must see exactly the same numbers. Attributes that are in the payload are not written
twice. Each row has the version of its form (`schema`); forms and kinds of input of a later release
are refused.
"""

import math
from collections.abc import Sequence
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import (
    Position,
    checked,
    number,
    position_from_json,
)
from nearcast.core.model.input_form import form_of, form_of_input
from nearcast.core.model.inputs import Input, Moved, Published
from nearcast.core.model.notice_record import NoticeRecord
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.record import Record
from nearcast.store.errors import CorruptError, StoreError, newer
from nearcast.store.rows.area_form import area_from_store, stored_area
from nearcast.store.rows.input_data import InputColumns, needed, read_input, write_input
from nearcast.store.rows.message_headers import UserProperties, header_columns, headers_of
from nearcast.store.rows.row_json import Json, text
from nearcast.store.rows.row_kinds import (
    DELIVERY,
    ERASED,
    GAP,
    NOTICE,
    TICK,
    is_input,
    unknown_kind,
)
from nearcast.wire.mqtt import ProtocolError

SCHEMA = 1


class Row(Struct, frozen=True, array_like=True, gc=False):
    """One row of the log."""

    broker: str
    seq: int
    kind: str
    ingested: float
    schema: int = SCHEMA
    event_id: str | None = None
    subject: str | None = None
    publisher: str | None = None
    time: float | None = None
    lat: float | None = None
    lon: float | None = None
    node: str | None = None
    properties: UserProperties = ()
    payload: bytes | None = None
    headers: bytes | None = None
    """The other headers of the message, in the broker's own form."""
    data: str = "{}"


def record_row(record: Record, broker: str) -> Row:
    """Return the row of a record."""
    value = record.input
    seq, ingested = record.seq, record.ingested
    if type(value) is Moved and value.position is not None:
        # The same as below, but faster: most rows are of this kind.
        fix = value.position
        return Row(
            broker, seq, "position", ingested, SCHEMA, None, None, None, None, fix.lat, fix.lon,
            value.node,
        )  # fmt: skip
    if isinstance(value, Published):
        event = value.event
        at = event.position
        properties, headers = header_columns(event, ingested)
        return Row(
            broker, seq, "event", ingested, SCHEMA, event.id, event.subject, event.publisher,
            event.time, None if at is None else at.lat, None if at is None else at.lon, None,
            properties, event.payload, headers, text(_event_data(event)),
        )  # fmt: skip
    form = form_of_input(value)
    columns = write_input(value, form)
    at = columns.position
    return Row(
        broker, seq, form.kind, ingested, SCHEMA, None, columns.subject, None,
        None, None if at is None else at.lat, None if at is None else at.lon, columns.node,
        data=text(columns.data),
    )  # fmt: skip


PIPELINE = "$pipeline"
"""The publisher of the pipeline's results; its name on the wire is the same."""

Recipient = tuple[str, tuple[str, ...], int, bool]
"""A session, its matching subscriptions, the priority, and whether the event is replayed."""


def delivery_row(
    event: Event, recipients: Sequence[Recipient], broker: str, seq: int, now: float
) -> Row:
    """Return the row that records the recipients of an event."""
    return Row(
        broker, seq, DELIVERY, now, SCHEMA, event.id, event.subject, event.publisher, event.time,
        data=text({"to": recipients}),
    )  # fmt: skip


def notice_row(
    notice: NoticeRecord, members: Sequence[str], broker: str, seq: int, now: float
) -> Row:
    """Return the row that records a notice; `members` are those whose erasure erases it."""
    return Row(
        broker, seq, NOTICE, now, SCHEMA, None, notice.topic, None, notice.time, None, None,
        notice.node, data=text({"state": notice.state, "members": members}),
    )  # fmt: skip


def tick_row(broker: str, seq: int, now: float) -> Row:
    """Return the row that records the time."""
    return Row(broker, seq, TICK, now)


def gap_row(broker: str, seq: int, now: float, reason: str) -> Row:
    """Return a row that says what the log lacks; it stands for no other row."""
    members = {"first": seq, "last": seq, "reason": reason}
    return Row(broker, seq, GAP, now, data=msgspec.json.encode(members).decode())


def recipients_of(row: Row) -> list[Recipient]:
    """Return the recipients recorded in a delivery row; raises `CorruptError`."""
    try:
        return msgspec.json.decode(row.data, type=_Delivered).to
    except _DAMAGED as error:
        raise CorruptError(f"{_place(row)}, a delivery, cannot be read: {error}") from None


class _Delivered(Struct):
    to: list[Recipient]


def erased(row: Row) -> Row:
    """Return an erased row, which keeps only its place in the log."""
    return Row(row.broker, row.seq, ERASED, row.ingested)


def input_of(row: Row) -> Input:
    """Return the input that a row records."""
    form = form_of(row.kind)
    if form is None and is_input(row.kind):
        raise unknown_kind(row.kind, row.seq, row.broker)
    where = _place(row)
    if form is None:
        raise CorruptError(f"{where}, a {row.kind}, records no input")
    if row.schema > SCHEMA:
        raise newer(where, row.schema, SCHEMA)
    try:
        data = msgspec.json.decode(row.data, type=dict[str, object])
        if form.declared is Published:
            return _read_event(row, data)
        return read_input(InputColumns(row.node, row.subject, _position(row), data), form)
    except _DAMAGED as error:
        raise CorruptError(f"{where}, a {row.kind}, cannot be read: {error!r}") from None


# Errors of msgspec, the model and the language are among them.
_DAMAGED = (KeyError, TypeError, ValueError, RecursionError, msgspec.MsgspecError, ProtocolError)


def _place(row: Row) -> str:
    return f"row {row.seq} of {row.broker or 'the log'}"


def _position(row: Row) -> Position | None:
    return None if row.lat is None or row.lon is None else checked(Position(row.lat, row.lon))


def _defaults(form: type[Struct], but: Sequence[str]) -> tuple[tuple[str, object], ...]:
    """Return the plain fields that are written only when they differ from their defaults."""
    names, defaults = form.__struct_fields__, form.__struct_defaults__
    assert set(names[: len(names) - len(defaults)]) <= set(but), "a field without a default"
    with_default = zip(names[len(names) - len(defaults) :], defaults, strict=True)
    return tuple((name, default) for name, default in with_default if name not in but)


# Events

_IN_COLUMNS = (
    "id", "subject", "publisher", "time", "position", "payload", "attributes", "headers",
    "expires_at",
)  # fmt: skip
_IN_DATA = _defaults(Event, (*_IN_COLUMNS, "to", "target_at"))
_TYPES = get_type_hints(Event, localns={"Value": object})
_EventData = msgspec.defstruct(
    "_EventData",
    [
        *((name, _TYPES[name], default) for name, default in _IN_DATA),
        ("to", object, None),
        ("target_at", tuple[float, float] | None, None),
        ("attributes", dict[str, object] | None, None),
    ],
    forbid_unknown_fields=True,
)
"""The members of `data` of an event, each of its type."""


def _event_data(event: Event) -> Json:
    data: Json = {}
    for name, default in _IN_DATA:
        value = getattr(event, name)
        if value != default:
            data[name] = value
    if event.deadline_s is not None and not math.isfinite(event.deadline_s):
        raise StoreError(f"the deadline of event {event.id!r} is {event.deadline_s}")
    if event.to is not None:
        data["to"] = stored_area(event.to)
    if event.target_at is not None:
        data["target_at"] = [event.target_at.lon, event.target_at.lat]
    # Empty attributes mean that the payload was not parsed; it still has them.
    if event.attributes:
        written = msgspec.json.encode(event.attributes)
        said = msgspec.json.encode(attributes_of(event.payload))
        if written not in (event.payload, said):
            data["attributes"] = msgspec.Raw(written)
    return data


def _read_event(row: Row, data: Json) -> Input:
    payload = row.payload or b""
    told: Any = msgspec.convert(data, _EventData)
    attributes = attributes_of(payload) if told.attributes is None else told.attributes
    headers, expires_at = headers_of(row.properties, row.headers, row.ingested, told.valid_s)
    return Published(
        Event(
            needed(row.event_id),
            needed(row.subject),
            needed(row.publisher),
            number(needed(row.time), "time"),
            attributes,
            _position(row),
            to=None if told.to is None else area_from_store(told.to),
            payload=payload,
            headers=headers,
            expires_at=expires_at,
            target_at=None if told.target_at is None else position_from_json(told.target_at),
            **{name: getattr(told, name) for name, _ in _IN_DATA},
        )
    )
