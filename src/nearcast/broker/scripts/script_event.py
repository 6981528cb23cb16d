"""An event as a script gets it: JSON, with as much of its publisher as the sender may see."""

import msgspec

from nearcast.broker.situation.metadata import time_text
from nearcast.core.model.event import Event
from nearcast.core.model.payload import LARGEST_JSON_PAYLOAD, attributes_of
from nearcast.core.model.visibility import SEE_IDENTITY, SEE_POSITION


def script_event(event: Event, sees: int) -> bytes:
    """Return the argument of `on_event`; what is missing is null."""
    at = event.position
    if at is not None and not (event.at_given or sees & SEE_POSITION):
        at = None
    publisher = event.publisher if sees & SEE_IDENTITY else None
    if publisher is not None and event.script_hops:
        publisher = event.origin
    members = {
        "id": event.id,
        "subject": event.topic or event.subject,
        "publisher": publisher or None,
        "time": time_text(event.time),
        "position": None if at is None else [at.lon, at.lat],
        "attributes": event.attributes or attributes_of(event.payload) or _empty(event.payload),
        "text": None,
    }
    if members["attributes"] is None:
        members["text"] = _text(event.payload)
    return msgspec.json.encode(members)


def _empty(payload: bytes) -> dict[str, object] | None:
    """The attributes of an empty JSON object; None for what has no attributes."""
    return {} if payload.strip()[:1] == b"{" and _is_json(payload) else None


def _text(payload: bytes) -> str | None:
    """A payload that is text; None if it is none, or JSON too large to have attributes."""
    if not payload or len(payload) > LARGEST_JSON_PAYLOAD:
        return None
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def _is_json(payload: bytes) -> bool:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
