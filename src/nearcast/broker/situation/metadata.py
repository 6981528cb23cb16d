"""Metadata of a delivery: its event, as far as the subscriber may see it.

As `nc-` user properties, or as members of a JSON object around the payload for clients without
properties.
"""

import base64

import msgspec

from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position, plain
from nearcast.core.model.time_text import time_text as time_text
from nearcast.core.model.visibility import SEE_IDENTITY, SEE_POSITION
from nearcast.store.rows.message_headers import UserProperties


def metadata(event: Event, priority: int, labels: tuple[str, ...], sees: int) -> UserProperties:
    """Return the metadata for a subscriber that may see this much of the publisher."""
    found = [("nc-id", event.id)]
    if event.gathered:
        found.append(("nc-aggregate", str(event.gathered)))
    if event.position is not None and (event.at_given or sees & SEE_POSITION):
        found.append(("nc-at", position_text(event.position)))
    if sees & SEE_IDENTITY and event.publisher:
        # A script is named with its node: `NODE~ID`.
        found.append(("nc-publisher", event.origin if event.script_hops else event.publisher))
    if event.valid_s == 0.0:
        found.append(("nc-valid", "0"))
    found += [("nc-time", time_text(event.time)), ("nc-priority", str(priority))]
    return (*found, *(("nc-subscription", label) for label in labels))


def enveloped(payload: bytes, metadata_pairs: UserProperties) -> bytes:
    """Return a payload in an envelope with its metadata."""
    members: dict[str, object] = {
        name.removeprefix("nc-"): value
        for name, value in metadata_pairs
        if name != "nc-subscription"
    }
    for name in ("priority", "valid", "aggregate"):
        if name in members:
            members[name] = int(str(members[name]))
    members["subscription"] = [value for name, value in metadata_pairs if name == "nc-subscription"]
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        members["base64"] = base64.b64encode(payload).decode()
        return msgspec.json.encode(members)
    try:
        msgspec.json.decode(payload)
        members["payload"] = msgspec.Raw(payload)
    except (msgspec.DecodeError, RecursionError):
        members["text"] = text
    return msgspec.json.encode(members)


def position_text(position: Position) -> str:
    """Return a position as `LAT,LON`."""
    return f"{plain(position.lat)},{plain(position.lon)}"
