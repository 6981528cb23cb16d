"""Rows of the log: any input of the core as one line of columns, and back without loss.

What analyses ask for has a column of its own; the rest of an input is JSON in `data`, with areas
and filters in their JSON forms. Times are seconds since 1970 as doubles, because a decision that
is made again must see the very same numbers. Attributes that the payload says anyway are not
written twice. Each row names the form it has (`schema`); a form or a kind of input from a later
release is refused by name.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.language import LanguageError
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Announcement, Event, Subscription
from nearcast.core.model.geometry.area import Area, FixedArea
from nearcast.core.model.geometry.forms.area_json import geometry_from_json
from nearcast.core.model.geometry.place_loading import LARGEST_PLACE
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    AreaUnwatched,
    AreaWatched,
    ContextPatched,
    Forgot,
    Input,
    Left,
    Moved,
    PlaceDefined,
    Presence,
    Published,
    QueueDrained,
    Restarted,
    RulesSet,
    SightSet,
    Subscribed,
    Unannounced,
    Undelivered,
    Unsubscribed,
)
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.record import Record
from nearcast.core.model.subject_permissions import SubjectPermissions
from nearcast.store.errors import CorruptError, StoreError, newer
from nearcast.store.log.area_form import area_from_store, stored_area
from nearcast.store.log.message_headers import UserProperties, header_columns, headers_of
from nearcast.store.log.row_json import Json, filter_from_json, filter_json, plain, text
from nearcast.store.log.row_kinds import DELIVERY, ERASED, INPUT_KINDS, is_input, unknown_kind
from nearcast.store.log.rules_json import rules_from_json, rules_json
from nearcast.wire.mqtt import ProtocolError

SCHEMA = 1


class Row(Struct, frozen=True, array_like=True, gc=False):
    """One line of the log."""

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
    """What else the message carried, in the broker's own form."""
    data: str = "{}"


def record_row(record: Record, broker: str) -> Row:
    """Return the row of a record."""
    value = record.input
    seq, ingested = record.seq, record.ingested
    if type(value) is Moved and value.position is not None:
        # The same as below, sooner: most rows are of this kind.
        fix = value.position
        return Row(
            broker, seq, "position", ingested, SCHEMA, None, None, None, None, fix.lat, fix.lon,
            value.node,
        )  # fmt: skip
    beside = _beside(value)
    if isinstance(value, Published):
        event = value.event
        at = event.position
        properties, headers = header_columns(event, ingested)
        return Row(
            broker, seq, "event", ingested, SCHEMA, event.id, event.subject, event.publisher,
            event.time, None if at is None else at.lat, None if at is None else at.lon, None,
            properties, event.payload, headers, text(_event_data(event) | beside),
        )  # fmt: skip
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise StoreError(f"the log cannot write {type(value).__name__}: it has no row yet")
    kind, node, subject, at, data = writer(value)
    return Row(
        broker, seq, kind, ingested, SCHEMA, None, subject, None,
        None, None if at is None else at.lat, None if at is None else at.lon, node,
        data=text(data | beside),
    )  # fmt: skip


PIPELINE = "$pipeline"
"""Who publishes what the pipeline found; on the wire it has the same name."""

Recipient = tuple[str, tuple[str, ...], int, bool]
"""A session, its subscriptions that fit, the priority, and whether the event was there before."""


def delivery_row(
    event: Event, recipients: Sequence[Recipient], broker: str, seq: int, now: float
) -> Row:
    """Return what is recorded of a decision: to whom an event went."""
    return Row(
        broker, seq, DELIVERY, now, SCHEMA, event.id, event.subject, event.publisher, event.time,
        data=text({"to": recipients}),
    )  # fmt: skip


def recipients_of(row: Row) -> list[Recipient]:
    """Return to whom an event went."""
    return msgspec.json.decode(row.data, type=_Delivered).to


class _Delivered(Struct):
    to: list[Recipient]


def erased(row: Row) -> Row:
    """Return what is left of a row when a person is forgotten: its place in the log."""
    return Row(row.broker, row.seq, ERASED, row.ingested)


def input_of(row: Row) -> Input:
    """Return the input that a row records."""
    reader = _READERS.get(row.kind)
    if reader is None and is_input(row.kind):
        raise unknown_kind(row.kind, row.seq, row.broker)
    where = f"row {row.seq} of {row.broker or 'the log'}"
    if reader is None:
        raise CorruptError(f"{where}, a {row.kind}, records no input")
    if row.schema > SCHEMA:
        raise newer(where, row.schema, SCHEMA)
    try:
        data = msgspec.json.decode(row.data, type=dict[str, object])
        beside = data.pop("input", None)
        found = reader(row, data)
        return found if beside is None else replace(found, **beside)  # type: ignore[arg-type]
    except _DAMAGED as error:
        raise CorruptError(f"{where}, a {row.kind}, cannot be read: {error!r}") from None


_DAMAGED = (KeyError, TypeError, msgspec.MsgspecError, ModelError, LanguageError, ProtocolError)
T = TypeVar("T")


def _needed(value: T | None) -> T:
    if value is None:
        raise TypeError("a column that this kind needs is empty")
    return value


def _position(row: Row) -> Position | None:
    return None if row.lat is None or row.lon is None else Position(row.lat, row.lon)


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
    # Without any nobody looked into the payload, which says them still.
    if event.attributes:
        written = msgspec.json.encode(event.attributes)
        said = msgspec.json.encode(attributes_of(event.payload))
        if written not in (event.payload, said):
            data["attributes"] = msgspec.Raw(written)
    return data


def _read_event(row: Row, data: Json) -> Input:
    payload = row.payload or b""
    attributes = data.pop("attributes", None)
    if attributes is None:
        attributes = attributes_of(payload)
    to, lon_lat = data.pop("to", None), data.pop("target_at", None)
    about, valid_s = data.pop("about", ()), data.pop("valid_s", None)
    headers, expires_at = headers_of(row.properties, row.headers, row.ingested, valid_s)  # type: ignore[arg-type]  # written from an event
    return Published(
        Event(
            _needed(row.event_id),
            _needed(row.subject),
            _needed(row.publisher),
            _needed(row.time),
            attributes,  # type: ignore[arg-type]  # written from an event
            _position(row),
            to=None if to is None else area_from_store(to),
            valid_s=valid_s,  # type: ignore[arg-type]  # likewise
            payload=payload,
            headers=headers,
            expires_at=expires_at,
            about=tuple(about),  # type: ignore[arg-type]  # likewise
            target_at=None if lon_lat is None else Position(lon_lat[1], lon_lat[0]),  # type: ignore[index]
            **data,  # type: ignore[arg-type]  # likewise
        )
    )


# Everything else: kind, node, subject, position and data

Columns = tuple[str, str | None, str | None, Position | None, Json]


def _moved(value: Moved) -> Columns:
    return "position", value.node, None, value.position, {}


def _context(value: ContextPatched) -> Columns:
    return "context", value.node, None, None, {"patch": value.patch}


def _subscribed(value: Subscribed) -> Columns:
    wanted = value.subscription
    data: Json = {"id": wanted.id}
    if wanted.where is not None:
        data["where"] = filter_json(wanted.where)
    if wanted.from_ is not None:
        data["from"] = stored_area(wanted.from_)
    if wanted.levels:
        data["levels"] = [filter_json(level) for level in wanted.levels]
    if wanted.countable is not None:
        data["countable"] = msgspec.to_builtins(wanted.countable)
    for name, default in _SUBSCRIPTION_DATA:
        value_of = getattr(wanted, name)
        if value_of != default:
            data[name] = plain(value_of, name)
    return "subscription", wanted.node, wanted.subject, None, data


_SUBSCRIPTION_SPECIAL = ("id", "node", "subject", "where", "from_", "levels", "countable")
_SUBSCRIPTION_DATA = _defaults(Subscription, _SUBSCRIPTION_SPECIAL)


def _read_subscribed(row: Row, data: Json) -> Input:
    where, area = data.pop("where", None), data.pop("from", None)
    levels, countable = data.pop("levels", ()), data.pop("countable", None)
    return Subscribed(
        Subscription(
            str(data.pop("id")),
            _needed(row.node),
            _needed(row.subject),
            None if where is None else filter_from_json(where),
            None if area is None else area_from_store(area),
            tuple(filter_from_json(level) for level in levels),  # type: ignore[attr-defined]
            countable=msgspec.convert(countable, SubjectPermissions | None),
            **data,  # type: ignore[arg-type]  # written from a subscription
        )
    )


def _unsubscribed(value: Unsubscribed) -> Columns:
    return "unsubscription", None, None, None, {"id": value.id}


def _announced(value: Announced) -> Columns:
    told = value.announcement
    data: Json = {"to": stored_area(told.to)}
    if told.session:
        data["session"] = told.session
    return "announcement", told.node, told.subject, None, data


def _read_announced(row: Row, data: Json) -> Input:
    to, session = area_from_store(data["to"]), str(data.get("session", ""))
    return Announced(Announcement(_needed(row.node), _needed(row.subject), to, session))


def _unannounced(value: Unannounced) -> Columns:
    return "unannouncement", value.node, value.subject, None, {}


def _place(value: PlaceDefined) -> Columns:
    geometry = None if value.geometry is None else stored_area(value.geometry)
    data: Json = {"kind": value.place_kind, "name": value.name, "geometry": geometry}
    if value.parent is not None:
        data["parent"] = value.parent
    return "place", None, None, None, data


def _read_place(row: Row, data: Json) -> Input:
    geometry = data["geometry"]
    return PlaceDefined(
        str(data["kind"]),
        str(data["name"]),
        None if geometry is None else _fixed(geometry),
        data.get("parent"),  # type: ignore[arg-type]  # text, if any
    )


def _fixed(value: object) -> FixedArea:
    assert isinstance(value, dict)
    area: Area = (
        # A place may have more points than an area that a client draws.
        geometry_from_json(value, LARGEST_PLACE) if "type" in value else area_from_store(value)
    )
    return area  # type: ignore[return-value]  # it was written from one


def _sight(value: SightSet) -> Columns:
    return "rule", value.viewer, None, None, {"other": value.other, "mask": value.mask}


def _rules(value: RulesSet) -> Columns:
    return "rules", None, None, None, rules_json(value)


def _presence(value: Presence) -> Columns:
    return "presence", value.node, None, None, {"here": value.here}


def _undelivered(value: Undelivered) -> Columns:
    return "undelivered", value.node, None, None, {"live": value.live}


def _read_undelivered(row: Row, data: Json) -> Input:
    live = msgspec.convert(data["live"], tuple[tuple[str, str], ...])
    return Undelivered(_needed(row.node), live)


def _drained(value: QueueDrained) -> Columns:
    return "drained", value.node, None, None, {}


def _left(value: Left) -> Columns:
    return "session", value.node, None, None, {}


def _forgot(value: Forgot) -> Columns:
    return "forgotten", value.node, None, None, {}


def _watched(value: AreaWatched) -> Columns:
    data: Json = {"name": value.name, "area": stored_area(value.area)}
    if value.where is not None:
        data["where"] = filter_json(value.where)
    return "area", value.node, None, None, data


def _read_watched(row: Row, data: Json) -> Input:
    where = data.get("where")
    return AreaWatched(
        str(data["name"]),
        _needed(row.node),
        area_from_store(data["area"]),
        None if where is None else filter_from_json(where),
    )


def _unwatched(value: AreaUnwatched) -> Columns:
    return "unwatched", None, None, None, {"name": value.name}


def _restarted(value: Restarted) -> Columns:
    return "restart", None, None, None, msgspec.to_builtins(value)


def _beside(value: Input) -> Json:
    """Return the plain fields of an input itself, such as whether a subscription replays."""
    plain_fields = _PLAIN.get(type(value), ())
    found = {n: got for n, default in plain_fields if (got := getattr(value, n)) != default}
    return {"input": found} if found else {}


# The fields that the columns and `data` have anyway; any other is plain and has a default.
_IN_ROWS: dict[type[Struct], tuple[str, ...]] = {
    Published: ("event",),
    Moved: ("node", "position"),
    ContextPatched: ("node", "patch"),
    Subscribed: ("subscription",),
    Unsubscribed: ("id",),
    Announced: ("announcement",),
    Unannounced: ("node", "subject"),
    PlaceDefined: ("place_kind", "name", "geometry", "parent"),
    SightSet: ("viewer", "other", "mask"),
    RulesSet: ("rules", "grants", "protected", "settable", "default"),
    Presence: ("node", "here"),
    Undelivered: ("node", "live"),
    QueueDrained: ("node",),
    Left: ("node",),
    Forgot: ("node",),
    AreaWatched: ("name", "node", "area", "where"),
    AreaUnwatched: ("name",),
    Restarted: Restarted.__struct_fields__,
}
_PLAIN = {form: _defaults(form, has) for form, has in _IN_ROWS.items()}
_WRITERS: dict[type, Callable[..., Columns]] = {
    Moved: _moved,
    ContextPatched: _context,
    Subscribed: _subscribed,
    Unsubscribed: _unsubscribed,
    Announced: _announced,
    Unannounced: _unannounced,
    PlaceDefined: _place,
    SightSet: _sight,
    RulesSet: _rules,
    Presence: _presence,
    Undelivered: _undelivered,
    QueueDrained: _drained,
    Left: _left,
    Forgot: _forgot,
    AreaWatched: _watched,
    AreaUnwatched: _unwatched,
    Restarted: _restarted,
}
_READERS: dict[str, Callable[[Row, Json], Input]] = {
    "event": _read_event,
    "position": lambda row, data: Moved(_needed(row.node), _position(row)),
    "context": lambda row, data: ContextPatched(_needed(row.node), data["patch"]),  # type: ignore[arg-type]
    "subscription": _read_subscribed,
    "unsubscription": lambda row, data: Unsubscribed(str(data["id"])),
    "announcement": _read_announced,
    "unannouncement": lambda row, data: Unannounced(_needed(row.node), _needed(row.subject)),
    "place": _read_place,
    "rule": lambda row, data: SightSet(_needed(row.node), str(data["other"]), data["mask"]),  # type: ignore[arg-type]
    "rules": lambda row, data: rules_from_json(data),
    "presence": lambda row, data: Presence(_needed(row.node), bool(data["here"])),
    "undelivered": _read_undelivered,
    "drained": lambda row, data: QueueDrained(_needed(row.node)),
    "session": lambda row, data: Left(_needed(row.node)),
    "forgotten": lambda row, data: Forgot(_needed(row.node)),
    "area": _read_watched,
    "unwatched": lambda row, data: AreaUnwatched(str(data["name"])),
    "restart": lambda row, data: msgspec.convert(data, Restarted),
}
assert set(_READERS) == set(INPUT_KINDS), "every input has a row of its own kind"
