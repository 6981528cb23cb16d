"""The interface of a part of the broker that reads the queue of a session in place of a client."""

from typing import Protocol

from nearcast.broker.auth import AuthRefusal
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.core.model.event import Event


class EventReader(Protocol):
    """Reads what waits for a session that has no connection."""

    @property
    def payer(self) -> str:
        """The client id of the session that is charged for what it does."""

    def delivery(
        self, event: Event, message: OutboundMessage, priority: int
    ) -> QueuedDelivery | None:
        """Return a copy of an event in the form in which it is read; None: it is not wanted.

        `message` carries the event to others, and keeps what all readers share.
        """

    def note_queued(self) -> None:
        """Called when something was queued."""

    def recall(self) -> AuthRefusal | None:
        """Set the permissions of the session anew; return why it must end."""

    def tell(self, why: str) -> None:
        """Tell whoever reads something about the session."""

    def session_ended(self) -> None:
        """Called when the session has ended, for whatever reason."""
