"""OwnTracks: positions from phones, in their format.

A message of `_type` `location` to `owntracks/USER/DEVICE` is a fix of node USER; its other fields
are attributes under their own names. Anything else changes nothing, and is an ordinary event; where
a position was likely meant, its sender gets an error on `$me/errors`.
"""

from collections.abc import Collection

import msgspec
from msgspec import Struct

from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.topic_names import decode_name
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
"""Types of messages that are not about where a phone is."""


class Ignored(Struct, frozen=True):
    """A message without effect, and why; no reason if it was not meant to have one."""

    why: str = ""


def fix_of(
    session: Session, topic: str, payload: bytes, may_act: bool, protected: Collection[str]
) -> ContextPatched | Ignored:
    """Return the inputs that a phone's message stands for."""
    user = user_of(topic)
    if not user:
        return Ignored()
    try:
        members = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Ignored(f"this is no JSON, and changes no position: {error}" * bool(payload))
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
    """Return the user whom an OwnTracks topic is about, None if it is about nobody."""
    parts = topic.split("/")
    return decode_name(parts[1]) if len(parts) == 3 else None
