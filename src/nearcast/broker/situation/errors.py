"""Errors and warnings as JSON on `$me/errors`, for clients that subscribed to it."""

import msgspec

from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.topic_names import ERRORS
from nearcast.wire.mqtt import PublishFrame

WARN_EVERY_S = 60.0
"""A session gets at most one warning per topic in this many seconds."""
MOST_REMEMBERED = 10_000
MOST_NOTICES = 20
"""The maximum of notices kept for a client that is not connected."""


class ErrorReports:
    """Reports errors and warnings with the message or subscription concerned."""

    def __init__(self, delivering: DeliveryDispatcher) -> None:
        self._delivering = delivering
        self._warned: dict[tuple[str, str], float] = {}
        """The last warning time by session and topic, oldest first."""

    def tell(self, session: Session, topic: str, why: str) -> None:
        """Report that a message to a topic was refused."""
        self._put(session, {"error": why, "topic": topic})

    def tell_now_or_later(self, session: Session, topic: str, why: str) -> None:
        """Report something to a session; if nobody is there, when its client comes back."""
        if session.connection is not None or not session.durable:
            self.tell(session, topic, why)
        elif len(session.notices) < MOST_NOTICES:
            session.notices = (*session.notices, (topic, why))

    def warn(self, session: Session, topic: str, why: str, now: float) -> float | None:
        """Report why something will have no effect; if it is too soon, return when to retry.

        Nothing is sent to a client that is not connected or not subscribed.
        """
        if session.connection is None or session.granted_filter(ERRORS) is None:
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

    def tell_anyway(self, session: Session, members: dict[str, str | int]) -> bool:
        """Report something to a client although its queue may be full; False if it cannot be."""
        delivery = _report(session, members)
        return delivery is not None and self._delivering.put_anyway(session, delivery)

    def _put(self, session: Session, members: dict[str, str | int]) -> None:
        delivery = _report(session, members)
        if delivery is not None:
            self._delivering.put(session, delivery)


def _report(session: Session, members: dict[str, str | int]) -> QueuedDelivery | None:
    """Return a message for a client, if it is subscribed to errors."""
    granted = session.granted_filter(ERRORS)
    if granted is None:
        return None
    message = OutboundMessage(PublishFrame(ERRORS, msgspec.json.encode(members)))
    return QueuedDelivery(message, min(1, granted.wanted.qos))
