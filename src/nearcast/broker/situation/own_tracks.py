"""OwnTracks: phones that say where they are, in their own words.

A message of `_type` `location` to `owntracks/USER/DEVICE` is a fix of node USER; its other fields
are attributes under their own names. Anything else changes nothing, and is an ordinary event.
"""

from collections.abc import Collection

import msgspec

from nearcast.broker.session import Session
from nearcast.broker.topic_names import decode_name
from nearcast.core.model.context import check_attributes
from nearcast.core.model.errors import ModelError
from nearcast.core.model.inputs import ContextPatched
from nearcast.core.model.position import position
from nearcast.wire.mqtt import Publish

PREFIX = "owntracks/"


def fix_of(
    session: Session, packet: Publish, may_act: bool, protected: Collection[str]
) -> ContextPatched | None:
    """Return what a phone's message says of its user, None if nothing."""
    user = user_of(packet.topic)
    if user is None or (user != session.node and not may_act):
        return None
    try:
        members = msgspec.json.decode(packet.payload)
        if not isinstance(members, dict) or members.get("_type") != "location":
            return None
        at = position(members.get("lat"), members.get("lon"))
        fields = {
            name: value
            for name, value in members.items()
            if name not in ("_type", "lat", "lon", "position") and name not in protected
        }
        return ContextPatched(user, {**check_attributes(fields), "position": [at.lon, at.lat]})
    except (msgspec.DecodeError, ModelError, UnicodeDecodeError, RecursionError):
        return None


def user_of(topic: str) -> str | None:
    """Return the user whom an OwnTracks topic is about, None if it is about nobody."""
    parts = topic.split("/")
    return decode_name(parts[1]) if len(parts) == 3 else None
