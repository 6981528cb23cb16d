"""Incoming messages: QoS 2 exactly once, and topic aliases.

A packet identifier of QoS 2 is remembered until its PUBREL, over all connections of the session; a
message with the same identifier before that is a repeat.
"""

from msgspec.structs import replace

from nearcast.wire.mqtt import MQTT_5, ProtocolError, Publish, ReasonCode, Sender, stripped
from nearcast.wire.mqtt.errors import forbidden

_TOPIC_ALIAS = frozenset((0x23,))


class Inbox:
    """Messages from the server, over all connections of one client."""

    def __init__(self, version: int, receive_maximum: int, topic_alias_maximum: int) -> None:
        self._version = version
        self._receive_maximum = receive_maximum
        self._topic_alias_maximum = topic_alias_maximum
        self._unreleased: set[int] = set()
        # Those of this connection: only they count towards the Receive Maximum.
        self._counted: set[int] = set()
        self._topics: dict[int, str] = {}

    @property
    def unreleased(self) -> int:
        """The number of QoS 2 messages that wait for their PUBREL."""
        return len(self._unreleased)

    def lost(self) -> None:
        """Drop the topic aliases of a lost transport."""
        self._counted.clear()
        self._topics.clear()

    def begin_anew(self) -> None:
        """Drop all identifiers: the server has lost the session and will release none."""
        self._unreleased.clear()

    def accept(self, publish: Publish) -> Publish | None:
        """Return a message with its topic resolved; None if it is a repeat.

        Raises `ProtocolError` for a message that the server must not send.
        """
        if self._version == MQTT_5:
            publish = self._whole(publish)
        if publish.qos != 2:
            return publish
        packet_id = publish.packet_id
        new = packet_id not in self._unreleased
        if packet_id not in self._counted and len(self._counted) >= self._receive_maximum:
            raise ProtocolError(
                ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                f"{self._receive_maximum} messages are unreleased, and that is the maximum",
                "PUBLISH",
            )
        self._unreleased.add(packet_id)
        self._counted.add(packet_id)
        return publish if new else None

    def release(self, packet_id: int) -> bool:
        """Drop an identifier, and return whether it was known."""
        known = packet_id in self._unreleased
        self._unreleased.discard(packet_id)
        self._counted.discard(packet_id)
        return known

    def _whole(self, publish: Publish) -> Publish:
        if publish.validate(Sender.SERVER):
            return publish
        alias = publish.properties.topic_alias
        if alias is None:
            return publish
        if alias > self._topic_alias_maximum:
            raise ProtocolError(
                ReasonCode.TOPIC_ALIAS_INVALID,
                f"it is {alias}, and {self._topic_alias_maximum} is the maximum",
                "PUBLISH topic alias",
            )
        if publish.topic:
            self._topics[alias] = publish.topic
        elif alias not in self._topics:
            raise forbidden(f"alias {alias} stands for no topic yet", "PUBLISH topic alias")
        raw = stripped(publish.raw_properties, _TOPIC_ALIAS)
        return replace(publish, topic=self._topics[alias], raw_properties=raw, _properties=None)

    def validate_state(self, connected: bool) -> None:
        """Assert the invariants."""
        assert self._counted <= self._unreleased
        assert len(self._counted) <= self._receive_maximum
        assert all(1 <= alias <= self._topic_alias_maximum for alias in self._topics)
        assert connected or not (self._counted or self._topics), "remembered beyond a connection"
