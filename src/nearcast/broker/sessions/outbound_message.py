"""An outbound message, and its delivery to one session."""

from nearcast.wire.mqtt import PublishFrame

OVERHEAD_BYTES = 200
"""Estimated memory of a queued message beyond its text."""


class OutboundMessage:
    """A message for any number of sessions."""

    __slots__ = ("enveloped", "expires_at", "frame", "live_key", "message_id", "publisher")

    def __init__(
        self,
        frame: PublishFrame,
        publisher: str = "",
        expires_at: float | None = None,
        message_id: int = 0,
        live_key: str | None = None,
        enveloped: bool = False,
    ) -> None:
        self.frame = frame
        self.publisher = publisher
        self.expires_at = expires_at
        self.message_id = message_id
        """Its id in the store; 0 before it is stored."""
        self.live_key = live_key
        """The key of the live event that it carries or withdraws."""
        self.enveloped = enveloped
        """The payload is a JSON envelope with metadata around the published payload."""

    @property
    def size(self) -> int:
        """Estimated memory in bytes."""
        frame = self.frame
        return len(frame.payload) + len(frame.topic) + len(frame.raw_properties) + OVERHEAD_BYTES


class QueuedDelivery:
    """A message for one session."""

    __slots__ = (
        "expires_at", "identifiers", "message", "metadata", "number", "packet_id", "priority",
        "qos", "released", "retain", "size",
    )  # fmt: skip

    def __init__(
        self,
        message: OutboundMessage,
        qos: int,
        retain: bool = False,
        identifiers: tuple[int, ...] = (),
        metadata: tuple[tuple[str, str], ...] = (),
        priority: int = 1,
    ) -> None:
        self.message = message
        self.size = message.size
        self.expires_at = message.expires_at
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.metadata = metadata
        """User properties for this subscriber."""
        self.priority = priority
        self.number = 0
        """Its number in the stored queue."""
        self.packet_id = 0
        self.released = False
        """The client has it (QoS 2), or it was dropped; only its packet id is still in use."""

    @property
    def live_key(self) -> str | None:
        """The key of the live event that it carries, if the client can match a withdrawal to it.

        It can if the delivery carries the event's id.
        """
        return self.message.live_key if self.metadata or self.message.enveloped else None

    @property
    def was_sent(self) -> bool:
        """Whether the client may have it already."""
        return self.packet_id > 0
