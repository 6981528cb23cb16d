"""An outbound message, and its delivery to one session."""

import re
from collections.abc import Hashable

from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.propagation.outbox import WITHHELD
from nearcast.wire.encoding.content_codings import Coding, Dictionary
from nearcast.wire.mqtt import PublishFrame

OVERHEAD_BYTES = 200
"""Estimated memory of a queued message beyond its text."""
_PRIORITY = "nc-priority"
# Before the payload of an envelope; inside a text the quotation marks would be escaped.
_ENVELOPED_PRIORITY = re.compile(rb'"priority":-?[0-9]+')


class OutboundMessage:
    """A message for any number of sessions."""

    __slots__ = (
        "deadline", "encoded_frames", "enveloped", "expires_at", "for_scripts", "frame", "live_key",
        "message_id", "publisher",
    )  # fmt: skip

    def __init__(
        self,
        frame: PublishFrame,
        publisher: str = "",
        expires_at: float | None = None,
        message_id: int = 0,
        live_key: str | None = None,
        enveloped: bool = False,
        deadline: float | None = None,
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
        self.deadline = deadline
        """The time by which it should be sent."""
        self.encoded_frames: dict[Coding, tuple[PublishFrame, Dictionary | None]] | None = None
        """Its encoded frames, by what their recipients accept."""
        self.for_scripts: dict[int, OutboundMessage] | None = None
        """Its event as scripts read it, by what they may see of its publisher."""

    @property
    def size(self) -> int:
        """Estimated memory in bytes."""
        frame = self.frame
        return len(frame.payload) + len(frame.topic) + len(frame.raw_properties) + OVERHEAD_BYTES


class QueuedDelivery:
    """A message for one session."""

    __slots__ = (
        "basis", "deadline", "expires_at", "identifiers", "live_id", "message", "metadata",
        "number", "packet_id", "priority", "qos", "queued_at", "released", "retain", "size",
        "told_priority",
    )  # fmt: skip

    def __init__(
        self,
        message: OutboundMessage,
        qos: int,
        retain: bool = False,
        identifiers: tuple[int, ...] = (),
        metadata: tuple[tuple[str, str], ...] = (),
        priority: int = 1,
        queued_at: float = 0.0,
        live_id: str | None = None,
        basis: PriorityBasis | None = None,
    ) -> None:
        self.message = message
        self.size = message.size
        self.expires_at = message.expires_at
        self.deadline = message.deadline
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.metadata = metadata
        """User properties for this subscriber."""
        self.priority = self.told_priority = priority
        self.queued_at = queued_at
        self.live_id = live_id
        """The id of a live event that its session gets later if this copy is dropped."""
        self.basis = basis
        """What its priority follows from; None: it stays as it is."""
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
    def flow(self) -> Hashable:
        """Its publisher, topic and QoS: what stays in order."""
        return self.message.publisher, self.message.frame.topic, self.qos

    def reprioritise(self, priority: int) -> None:
        """Set another priority; its metadata follow when it is sent."""
        self.priority = priority

    def tell_priority(self) -> None:
        """Write the priority of now into its metadata."""
        assert self.priority != WITHHELD
        self.told_priority = self.priority
        text = str(self.priority)
        self.metadata = tuple(
            (name, text if name == _PRIORITY else value) for name, value in self.metadata
        )
        message = self.message
        if message.enveloped:
            frame = message.frame
            payload = _ENVELOPED_PRIORITY.sub(b'"priority":%d' % self.priority, frame.payload, 1)
            self.message = OutboundMessage(
                PublishFrame(frame.topic, payload, frame.raw_properties), message.publisher,
                message.expires_at, message.message_id, message.live_key, True, message.deadline,
            )  # fmt: skip

    @property
    def was_sent(self) -> bool:
        """Whether the client may have it already."""
        return self.packet_id > 0
