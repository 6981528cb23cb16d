"""Options of an event besides subject and payload.

With MQTT 5 these are user properties that begin with `nc-`; for MQTT 3, which has none, they are
members of a JSON object around the payload, sent to `$me/publish/SUBJECT`.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from nearcast.client.api.areas import AreaLike, PositionLike, encode_area, encode_position
from nearcast.client.errors import OptionsError
from nearcast.wire.mqtt import MQTT_5, NO_PROPERTIES, Properties
from nearcast.wire.mqtt.properties import PropertyPairs

Payload = (
    bytes | bytearray | str | bool | int | float | Mapping[str, object] | Sequence[object] | None
)
"""Bytes are sent unchanged, text as UTF-8, None as empty; all else is sent as JSON."""


class Packed(Struct, frozen=True):
    """An event as a message: topic, payload and properties."""

    topic: str
    payload: bytes
    properties: Properties


class EventOptions(Struct, frozen=True, kw_only=True):
    """Options of an event, as text; None where not given."""

    at: str | None = None
    to: str | None = None
    valid: float | None = None
    object: str | None = None
    priority: int | None = None
    deadline: float | None = None
    people: int | None = None
    time: str | None = None
    id: str | None = None

    def pack(
        self, subject: str, payload: Payload, version: int, others: PropertyPairs = ()
    ) -> Packed:
        """Return the message for a version of MQTT."""
        members = {name: value for name, value in _members(self) if value is not None}
        if version == MQTT_5:
            ours = tuple((f"nc-{name}", _text(value)) for name, value in members.items())
            return Packed(
                subject, payload_bytes(payload), Properties(user_properties=(*ours, *others))
            )
        if others:
            raise OptionsError("MQTT 3 has no user properties; use version 5")
        if not members:
            return Packed(subject, payload_bytes(payload), NO_PROPERTIES)
        document = msgspec.json.encode(members | _payload_member(payload))
        return Packed(f"$me/publish/{subject}", document, NO_PROPERTIES)


def encode_event_options(
    *,
    at: PositionLike | str | None = None,
    to: AreaLike | None = None,
    valid: float | None = None,
    object: str | None = None,  # noqa: A002  # the word of the contract
    priority: int | None = None,
    deadline: float | None = None,
    people: int | None = None,
    time: datetime | str | None = None,
    id: str | None = None,  # noqa: A002
) -> EventOptions:
    """Return the options of an event, or raise `ValueError`."""
    return EventOptions(
        at=None if at is None else encode_position(at),
        to=None if to is None else encode_area(to),
        valid=valid,
        object=object,
        priority=priority,
        deadline=deadline,
        people=people,
        time=_time_text(time) if isinstance(time, datetime) else time,
        id=id,
    )


def payload_bytes(payload: Payload) -> bytes:
    """Return the bytes of a payload."""
    if payload is None:
        return b""
    if isinstance(payload, bytes | bytearray):
        return bytes(payload)
    if isinstance(payload, str):
        return payload.encode()
    return msgspec.json.encode(payload)


def _payload_member(payload: Payload) -> dict[str, object]:
    if payload is None:
        return {}
    if isinstance(payload, bytes | bytearray):
        return {"base64": b64encode(payload).decode()}
    return {"text" if isinstance(payload, str) else "payload": payload}


def _members(options: EventOptions) -> list[tuple[str, object]]:
    return list(msgspec.structs.asdict(options).items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(msgspec.json.encode(value), "ascii")


def _time_text(time: datetime) -> str:
    if time.tzinfo is None:
        raise OptionsError(f"{time} has no time zone; write datetime(..., tzinfo=UTC)")
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
