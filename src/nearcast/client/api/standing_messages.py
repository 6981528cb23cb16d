"""Messages that hold as long as the session: announcements, subscriptions with a name.

A server that forgets the session forgets them, so they are sent again, ahead of everything that
waits: what is published without its announcement would reach others than it is meant for.
"""

from nearcast.client.protocol.outgoing import OutgoingMessage
from nearcast.wire.mqtt import ReasonCode


class StandingMessages:
    """What stands, by topic: a later message on a topic replaces the one before."""

    def __init__(self) -> None:
        self._standing: dict[str, OutgoingMessage] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def answered(self, item: OutgoingMessage, code: ReasonCode) -> None:
        """Keep what the server took; a refusal leaves what stood, unless that was refused."""
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
        """Drop all: the server has, and nobody wants them back."""
        self._standing.clear()

    def renewals(self) -> list[OutgoingMessage]:
        """Return the messages that bring all of it back."""
        return [
            OutgoingMessage(0, item.frame, item.qos, item.retain, item.size, standing=True)
            for item in self._standing.values()
        ]
