"""Frames of the events of one dispatch, each encoded once for all who take the same bytes."""

from collections.abc import Sequence

from nearcast.broker.sessions.outbound_message import OutboundMessage
from nearcast.broker.situation.metadata import metadata
from nearcast.core.model.event import Event
from nearcast.core.model.event_run import EventRun
from nearcast.wire.mqtt import MQTT_5, PublishFrame, plain_publish, topic_field, user_properties


class SharedFrames:
    """Encodes events on first use."""

    __slots__ = ("_joined", "_messages", "_plain", "_told", "any_special", "events", "most_qos")

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        if isinstance(events, EventRun):
            self.most_qos, self.any_special = events.qos, events.expires_at is not None
        else:
            self.most_qos = max([event.qos for event in events])
            self.any_special = any(map(self.is_special, events))
        self._plain: dict[bool, list[bytes]] = {}
        self._joined: dict[bool, bytes] = {}
        self._told: dict[tuple[int, int, tuple[str, ...], int, int], bytes] = {}
        self._messages: dict[int, OutboundMessage] = {}

    @staticmethod
    def is_special(event: Event) -> bool:
        """Whether the bytes of an event cannot be shared: it expires, or sessions track it."""
        return event.expires_at is not None or event.stays

    def plain(self, version: int) -> list[bytes]:
        """The QoS 0 frames of all events, without additional properties."""
        five = version == MQTT_5
        frames = self._plain.get(five)
        if frames is None:
            events = self.events
            if isinstance(events, EventRun):
                topic, headers, payloads = (
                    topic_field(events.subject),
                    events.headers,
                    events.payloads,
                )
                if len(payloads) == 1:
                    frames = [plain_publish(topic, headers, payloads[0], five)]
                else:
                    frames = [plain_publish(topic, headers, each, five) for each in payloads]
            else:
                frames = [
                    plain_publish(
                        topic_field(each.topic or each.subject), each.headers, each.payload, five
                    )
                    for each in events
                ]
            self._plain[five] = frames
        return frames

    def joined(self, version: int) -> bytes:
        """The same frames, concatenated."""
        five = version == MQTT_5
        whole = self._joined.get(five)
        if whole is None:
            frames = self.plain(version)
            whole = self._joined[five] = frames[0] if len(frames) == 1 else b"".join(frames)
        return whole

    def with_metadata(
        self, version: int, place: int, priority: int, labels: tuple[str, ...], sees: int
    ) -> bytes:
        """The frame of an event with metadata, for subscribers with this view of the publisher."""
        form = (version, place, labels, sees, priority)
        frame = self._told.get(form)
        if frame is None:
            event, five = self.events[place], version == MQTT_5
            properties = event.headers
            if five:
                properties = user_properties(metadata(event, priority, labels, sees)) + properties
            topic = topic_field(event.topic or event.subject)
            frame = self._told[form] = plain_publish(topic, properties, event.payload, five)
        return frame

    def message(self, place: int) -> OutboundMessage:
        """The message of an event, shared by all sessions that queue it."""
        message = self._messages.get(place)
        if message is None:
            event = self.events[place]
            topic = event.topic or event.subject
            frame = PublishFrame(topic, event.payload, event.headers)
            message = OutboundMessage(frame, event.origin, event.expires_at)
            self._messages[place] = message
        return message
