"""Messages that are in force as long as the session: announcements, named subscriptions.

A server that loses the session loses them, so they are sent again, ahead of everything that waits:
events published without their announcement would reach other nodes than intended.
"""

from nearcast.client.protocol.outgoing import OutgoingMessage
from nearcast.wire.mqtt import ReasonCode


class StandingMessages:
    """Standing messages by topic: a later message on a topic replaces the one before."""

    def __init__(self) -> None:
        self._standing: dict[str, OutgoingMessage] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def answered(self, item: OutgoingMessage, code: ReasonCode) -> None:
        """Keep an accepted message; a refusal keeps the previous one, unless that was refused."""
        topic = item.frame.topic
        if code.failed:
            # It was sent again and is refused now.
            if not item.token:
                self._standing.pop(topic, None)
        elif not item.frame.payload:
            self._standing.pop(topic, None)
        elif item.token:
            self._standing.pop(topic, None)
            self._standing[topic] = item

    def forget(self) -> None:
        """Drop all: the server has, and they are not to be renewed."""
        self._standing.clear()

    def renewals(self) -> list[OutgoingMessage]:
        """Return the messages that renew all of them."""
        return [
            OutgoingMessage(0, item.frame, item.qos, item.retain, item.size, standing=True)
            for item in self._standing.values()
        ]
