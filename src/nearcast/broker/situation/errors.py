"""Errors and warnings in words, for clients that asked for them: JSON on `$me/errors`."""

import msgspec

from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.topic_names import ERRORS
from nearcast.wire.mqtt import PublishFrame

WARN_EVERY_S = 60.0
"""A session gets at most one warning on a topic in so many seconds."""
MOST_REMEMBERED = 10_000


class ErrorReports:
    """Tells clients what went wrong, and with which of their messages or subscriptions."""

    def __init__(self, delivering: DeliveryDispatcher) -> None:
        self._delivering = delivering
        self._warned: dict[tuple[str, str], float] = {}
        """When a session was last warned of a topic; the oldest first."""

    def tell(self, session: Session, topic: str, why: str) -> None:
        """Tell a client that something it sent to a topic was refused."""
        self._put(session, {"error": why, "topic": topic})

    def warn(self, session: Session, topic: str, why: str, now: float) -> float | None:
        """Tell a client why nothing will come of something; when to try again if it is too soon.

        One who is not connected, or did not ask for it, is not told.
        """
        if ERRORS not in session.granted or session.connection is None:
            return None
        key = session.client_id, topic
        again_at = self._warned.get(key, now - WARN_EVERY_S) + WARN_EVERY_S
        if now < again_at:
            return again_at
        self._warned.pop(key, None)
        for old in list(self._warned):
            if len(self._warned) < MOST_REMEMBERED and self._warned[old] + WARN_EVERY_S > now:
                break
            del self._warned[old]
        self._warned[key] = now
        self._put(session, {"warning": why, "topic": topic})
        return None

    def _put(self, session: Session, members: dict[str, str]) -> None:
        granted = session.granted.get(ERRORS)
        if granted is None:
            return
        message = OutboundMessage(PublishFrame(ERRORS, msgspec.json.encode(members)))
        self._delivering.put(session, QueuedDelivery(message, min(1, granted.wanted.qos)))
