"""Metadata of a delivery: its event, as far as the subscriber may see it.

As `nc-` user properties, or as members of a JSON object around the payload for clients without
properties.
"""

import base64
from datetime import UTC, datetime
from functools import lru_cache
from math import modf

import msgspec

from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position, plain
from nearcast.core.model.visibility import SEE_IDENTITY, SEE_POSITION
from nearcast.store.rows.message_headers import UserProperties


def metadata(event: Event, priority: int, labels: tuple[str, ...], sees: int) -> UserProperties:
    """Return the metadata for a subscriber that may see this much of the publisher."""
    found = [("nc-id", event.id)]
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
    for name in ("priority", "valid"):
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


def time_text(seconds: float) -> str:
    """Return an RFC 3339 time in milliseconds, or microseconds if that is more exact."""
    fraction, whole = modf(seconds)
    microseconds = round(fraction * 1e6)
    if not 0 <= microseconds < 1_000_000:
        carry = 1 if microseconds > 0 else -1
        whole, microseconds = whole + carry, microseconds - carry * 1_000_000
    thousandths, rest = divmod(microseconds, 1_000)
    end = f"{microseconds:06}" if rest else f"{thousandths:03}"
    return f"{_second_text(int(whole))}.{end}Z"


@lru_cache(16)
def _second_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="seconds")
