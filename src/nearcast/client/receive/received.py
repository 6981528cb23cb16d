"""A received event: what was published, and its metadata.

With MQTT 5 the metadata is in user properties that begin with `nc-`; with MQTT 3 it is in a JSON
object around the payload. Invalid metadata is left out: no message is lost because of it.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from nearcast.core.model import ModelError, Position, parse_position
from nearcast.core.model.context import Value
from nearcast.core.model.payload import attributes_of
from nearcast.wire.mqtt import MQTT_5, Publish

PREFIX = "nc-"


class Received(Struct, frozen=True, kw_only=True):
    """A received event; unknown and hidden values are None."""

    subject: str
    payload: bytes = b""
    id: str | None = None
    position: Position | None = None
    """Where it happened."""
    publisher: str | None = None
    time: datetime | None = None
    priority: int | None = None
    """From 1, the most urgent, upwards."""
    subscriptions: tuple[str, ...] = ()
    """The subscriptions that it matches: their patterns, or their names."""
    qos: int = 0
    retain: bool = False
    """Whether it was retained, and is older than the subscription."""
    withdrawn: bool = False
    """It withdraws a live event, which should no longer be shown."""
    properties: tuple[tuple[str, str], ...] = ()
    """The publisher's own user properties (MQTT 5)."""
    count: int = 1
    """How many events it holds; the payload of an aggregate tells of all of them."""
    _attributes: dict[str, Value] | None = None

    @property
    def attributes(self) -> dict[str, Value]:
        """The members of a JSON object, or `value` for other JSON; empty if it is not JSON."""
        if self._attributes is None:
            force_setattr(self, "_attributes", attributes_of(self.payload))
        assert self._attributes is not None
        return self._attributes

    @property
    def text(self) -> str:
        """The payload as text; raises `UnicodeDecodeError` if it is not UTF-8."""
        return self.payload.decode()

    @property
    def size(self) -> int:
        """Its size in a buffer, in bytes."""
        return len(self.subject) + len(self.payload) + 200


def received(message: Publish, version: int) -> Received:
    """Return the event that a message carries."""
    if version == MQTT_5:
        return _from_properties(message)
    if not message.topic.startswith("$"):
        opened = _opened(message)
        if opened is not None:
            return opened
    return _event(message, message.payload, ())


def _from_properties(message: Publish) -> Received:
    pairs = message.properties.user_properties
    given: dict[str, object] = {}
    names: list[str] = []
    others: list[tuple[str, str]] = []
    for name, value in pairs:
        if not name.startswith(PREFIX):
            others.append((name, value))
        elif name == "nc-subscription":
            names.append(value)
        else:
            given[name[len(PREFIX) :]] = value
    return _event(message, message.payload, names, tuple(others), given)


def _opened(message: Publish) -> Received | None:
    """Return the event in an envelope; None if this is not an envelope."""
    try:
        members = msgspec.json.decode(message.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(members, dict) or not isinstance(members.get("subscription"), list):
        return None
    names = [name for name in members["subscription"] if isinstance(name, str)]
    payload = b""
    if isinstance(members.get("text"), str):
        payload = members["text"].encode()
    elif isinstance(members.get("base64"), str):
        try:
            payload = b64decode(members["base64"], validate=True)
        except binascii.Error:
            return None
    elif "payload" in members:
        # The bytes as published, which decoding and encoding could change.
        raw = msgspec.json.decode(message.payload, type=dict[str, msgspec.Raw])
        payload = bytes(raw["payload"])
    return _event(message, payload, names, (), members)


def _event(
    message: Publish,
    payload: bytes,
    names: Iterable[str],
    others: tuple[tuple[str, str], ...] = (),
    given: dict[str, object] | None = None,
) -> Received:
    metadata = given or {}
    return Received(
        subject=message.topic,
        payload=payload,
        id=_text(metadata.get("id")),
        position=_position(metadata.get("at")),
        publisher=_text(metadata.get("publisher")),
        time=time_of(metadata.get("time")),
        priority=_number(metadata.get("priority")),
        subscriptions=tuple(names),
        qos=message.qos,
        retain=message.retain,
        withdrawn=_number(metadata.get("valid")) == 0,
        properties=others,
        count=_number(metadata.get("aggregate")) or 1,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _position(value: object) -> Position | None:
    try:
        return parse_position(value) if isinstance(value, str) else None
    except ModelError:
        return None


def _number(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, str | int) else None
    except ValueError:
        return None


def time_of(value: object) -> datetime | None:
    """Return the time in an RFC 3339 text, or None."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
