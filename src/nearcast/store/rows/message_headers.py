"""The headers of an event's message, as stored in rows of the log.

`properties` are the user properties, for analyses. `headers` is null if there are no others; else
it has all of them, preceded by the expiry if that is before the end of the event's validity.
"""

from collections.abc import Sequence
from math import ceil

from nearcast.core.model.event import Event
from nearcast.core.model.event_run import EventRun
from nearcast.wire.mqtt import (
    Properties,
    Publish,
    first_message_expiry,
    message_expiry,
    short_user_properties,
    user_properties,
)

UserProperties = tuple[tuple[str, str], ...]
"""In their order; names may be repeated."""
HeaderColumns = tuple[UserProperties, bytes | None]
"""The values of `properties` and `headers`."""
NO_HEADERS: HeaderColumns = ((), None)
_PAIR_BYTES = 160
"""The approximate memory of a user property besides its characters."""


def header_columns(event: Event, ingested: float) -> HeaderColumns:
    """Return the columns for an event's headers and expiry."""
    return _columns(event.headers, event.expires_at, event.valid_s, ingested)


def run_header_columns(run: EventRun, ingested: float) -> HeaderColumns:
    """Return these columns for the rows of a run."""
    return _columns(run.headers, run.expires_at, None, ingested)


def _columns(
    raw: bytes, expires_at: float | None, valid_s: float | None, ingested: float
) -> HeaderColumns:
    if expires_at is not None:
        left_s = max(1, ceil(expires_at - ingested))
        if not valid_s or left_s < valid_s:
            raw = message_expiry(left_s) + raw
    return columns_of(raw) if raw else NO_HEADERS


def columns_of(raw: bytes) -> HeaderColumns:
    """Return the columns for validated headers."""
    pairs = short_user_properties(raw)
    if pairs is not None:
        return tuple(pairs), None
    properties = Publish("x", raw_properties=raw).properties
    has_others = properties != Properties(user_properties=properties.user_properties)
    return properties.user_properties, raw if has_others else None


def header_bytes(properties: UserProperties, headers: bytes | None) -> int:
    """The approximate memory of the columns of a row."""
    size = 0 if headers is None else len(headers)
    for name, value in properties:
        size += _PAIR_BYTES + len(name) + len(value)
    return size


def headers_of(
    properties: Sequence[tuple[str, str]],
    headers: bytes | None,
    ingested: float,
    valid_s: float | None,
) -> tuple[bytes, float | None]:
    """Return the headers of an event from its row, and when it expires.

    Raises `ProtocolError` if they are damaged.
    """
    lasts_s = valid_s
    if headers is None:
        raw = user_properties(properties) if properties else b""
    else:
        expiry, raw = first_message_expiry(headers)
        if raw:
            Publish("x", raw_properties=raw).validate()
        lasts_s = valid_s if expiry is None else expiry
    return raw, ingested + lasts_s if lasts_s else None
