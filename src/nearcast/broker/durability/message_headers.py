"""What messages carry beside their payloads, as rows of the log have it."""

from math import ceil

from nearcast.broker.sessions.session import OutboundMessage
from nearcast.core.model.event import Event
from nearcast.wire.mqtt import Publish, message_expiry, short_user_properties

Pairs = tuple[tuple[str, str], ...]
Carried = tuple[Pairs, bytes | None]
"""User properties, and all properties as bytes if there are others too."""
NOTHING: Carried = ((), None)


def carried_in(raw: bytes) -> Carried:
    """What checked properties carry."""
    pairs = short_user_properties(raw)
    if pairs is not None:
        return tuple(pairs), None
    return Publish("x", raw_properties=raw).properties.user_properties, raw


def carried_with(event: Event, parcel: OutboundMessage, now: float) -> Carried:
    """What an event's message carries: its expiry first, if that is not how long it is valid."""
    raw = parcel.frame.raw_properties
    if parcel.expires_at is not None:
        left_s = max(1, ceil(parcel.expires_at - now))
        if event.valid_s is None or left_s < event.valid_s:
            raw = message_expiry(left_s) + raw
    return carried_in(raw) if raw else NOTHING
