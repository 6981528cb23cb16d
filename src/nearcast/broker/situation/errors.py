"""Errors in words, for clients that asked for them: JSON on `$me/errors`."""

import msgspec

from nearcast.broker.delivering import Delivering
from nearcast.broker.session import Outgoing, Parcel, Session
from nearcast.broker.situation.private_topics import ERRORS
from nearcast.wire.mqtt import PublishFrame


class Errors:
    """Tells clients what went wrong, and with which of their messages."""

    def __init__(self, delivering: Delivering) -> None:
        self._delivering = delivering

    def tell(self, session: Session, topic: str, why: str) -> None:
        """Tell a client that something it sent to a topic was refused."""
        granted = session.granted.get(ERRORS)
        if granted is None:
            return
        payload = msgspec.json.encode({"error": why, "topic": topic})
        parcel = Parcel(PublishFrame(ERRORS, payload))
        self._delivering.put(session, Outgoing(parcel, min(1, granted.wanted.qos)))
