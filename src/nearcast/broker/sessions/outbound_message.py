"""A message on its way out, and one delivery of it to a session."""

from nearcast.wire.mqtt import PublishFrame

OVERHEAD_BYTES = 200
"""What a waiting message takes beside its text."""


class OutboundMessage:
    """A message on its way to any number of sessions."""

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
        """Its number in the store, once it has one."""
        self.live_key = live_key
        """Of a live event, or of what withdraws one: its key."""
        self.enveloped = enveloped
        """The payload tells of the event, in JSON round what was published."""

    @property
    def size(self) -> int:
        """About how much memory it takes."""
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
        """User properties for this recipient."""
        self.priority = priority
        self.number = 0
        """Its place in the store's queue."""
        self.packet_id = 0
        self.released = False
        """The client has it (QoS 2), or it was dropped: only its packet id is still taken."""

    @property
    def live_key(self) -> str | None:
        """The live event that it is a copy of, if the client can tell what withdraws it.

        It can if it is told the event's id.
        """
        return self.message.live_key if self.metadata or self.message.enveloped else None

    @property
    def was_sent(self) -> bool:
        """Whether the client may have it already."""
        return self.packet_id > 0
