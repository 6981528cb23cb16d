"""OwnTracks: positions from phones, in their format.

A message of `_type` `location` to `owntracks/USER/DEVICE` is a fix of node USER; its other fields
are attributes under their own names. Any other message has no such effect, and is an ordinary
event; if a position was probably intended, its publisher gets a warning on `$me/errors`.
"""

from collections.abc import Collection

import msgspec
from msgspec import Struct

from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.topic_names import decode_name
from nearcast.core.excerpts import reason
from nearcast.core.model.context import check_attributes
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import position, shown
from nearcast.core.model.inputs import ContextPatched

PREFIX = "owntracks/"
LOCATION = "location"
OTHERS = frozenset(
    (
        "beacon", "card", "cmd", "configuration", "dump", "lwt", "remoteConfiguration", "request",
        "status", "steps", "transition", "waypoint", "waypoints",
    )
)  # fmt: skip
"""Message types without a position."""


class Ignored(Struct, frozen=True):
    """A message without a position, and why; no reason if none was intended."""

    why: str = ""


def fix_of(
    session: Session, topic: str, payload: bytes, may_act: bool, protected: Collection[str]
) -> ContextPatched | Ignored:
    """Return the context change of a phone's message, or why it is ignored."""
    user = user_of(topic)
    if not user:
        return Ignored()
    try:
        members = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Ignored(f"this is no JSON, and changes no position: {reason(error)}" * bool(payload))
    kind = members.get("_type") if isinstance(members, dict) else None
    if kind != LOCATION:
        if isinstance(kind, str) and kind in OTHERS:
            return Ignored()
        what = "is encrypted" if kind == "encrypted" else f"has _type {shown(kind)}"
        return Ignored(f"this {what}, and changes no position; one of _type location does")
    if user != session.node and not may_act:
        return Ignored(
            f"this changes no position: {shown(session.node)} may not say where {shown(user)} is; "
            f"use client id {user} or {user}~DEVICE, or a rule that lets this user connect as it"
        )
    try:
        at = position(members.get("lat"), members.get("lon"))
        fields = {
            name: value
            for name, value in members.items()
            if name not in ("_type", "lat", "lon", "position") and name not in protected
        }
        return ContextPatched(user, {**check_attributes(fields), "position": [at.lon, at.lat]})
    except ModelError as error:
        return Ignored(f"this changes no position: {error}")


def user_of(topic: str) -> str | None:
    """Return the user of an OwnTracks topic, or None if it has none."""
    parts = topic.split("/")
    return decode_name(parts[1]) if len(parts) == 3 else None
