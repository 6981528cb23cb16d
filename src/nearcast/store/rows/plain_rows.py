"""Rows of plain events: they are fully described by columns, so they are read and written faster.

Plain events are not retained and have no target, key or session of their own.
"""

from math import isfinite

from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position, is_usual
from nearcast.store.rows.message_headers import header_columns, headers_of
from nearcast.store.rows.rows import SCHEMA, Row

PLAIN_DATA = ("{}", '{"qos":1}', '{"qos":2}')
"""The value of `data` in such rows, by QoS."""
_QOS = {data: qos for qos, data in enumerate(PLAIN_DATA)}


def plain_row(event: Event, broker: str, seq: int, now: float) -> Row:
    """Return the row of a plain event: the same as `record_row`, but faster."""
    at = event.position
    properties, headers = header_columns(event, now)
    return Row(
        broker, seq, "event", now, SCHEMA, event.id, event.subject, event.publisher, event.time,
        None if at is None else at.lat, None if at is None else at.lon, None, properties,
        event.payload, headers, PLAIN_DATA[event.qos],
    )  # fmt: skip


def plain_event(row: Row) -> Event | None:
    """Return the event of a plain row, without its attributes; None for other rows."""
    qos = _QOS.get(row.data)
    if row.kind != "event" or qos is None or row.schema != SCHEMA:
        return None
    if row.event_id is None or row.subject is None or row.publisher is None or row.time is None:
        return None
    at = None if row.lat is None or row.lon is None else Position(row.lat, row.lon)
    if not isfinite(row.time) or not (at is None or is_usual(at)):
        return None
    headers, expires_at = headers_of(row.properties, row.headers, row.ingested, None)
    return Event(
        row.event_id, row.subject, row.publisher, row.time, position=at,
        payload=row.payload or b"", qos=qos, headers=headers, expires_at=expires_at,
    )  # fmt: skip
