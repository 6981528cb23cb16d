"""One message for many recipients: encoded once, with only the differing parts inserted.

Recipients of QoS 0 without additions share one bytes object per version, and so do those with the
same additions. For QoS 1 and 2 only two bytes differ between recipients: the bytes before and after
the packet identifier are shared.
"""

from functools import lru_cache

from nearcast.wire.mqtt.errors import EncodeError
from nearcast.wire.mqtt.fields import encode_text, encode_variable
from nearcast.wire.mqtt.packet_types import MQTT_5

_PUBLISH = 0x30
# Beyond this number of different headers and additions, results are not cached.
_MOST_SHARED = 64

Pieces = tuple[bytes, ...]


class PublishFrame:
    """A message that can be encoded for any recipient.

    `raw_properties` are properties for all recipients, as bytes without their length. `additions`
    below are properties of one recipient in the same form (see `publish_properties`): they come
    first, and MQTT 3 drops them all. With `alias_only` the topic is left out, for a recipient that
    knows the topic alias among its additions.
    """

    __slots__ = ("_parts", "_whole", "payload", "raw_properties", "topic", "topic_field")

    def __init__(self, topic: str, payload: bytes = b"", raw_properties: bytes = b"") -> None:
        self.topic = topic
        self.payload = payload
        self.raw_properties = raw_properties
        self.topic_field = topic_field(topic)
        self._whole: dict[tuple[bool, int, bytes, bool], bytes] = {}
        self._parts: dict[tuple[bool, int, bytes, bool], tuple[bytes, bytes]] = {}

    def encode(
        self,
        version: int,
        *,
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        packet_id: int = 0,
        additions: bytes = b"",
        alias_only: bool = False,
    ) -> bytes:
        """Return the whole PUBLISH as bytes; for QoS 0 the same object where possible."""
        if not qos:
            return self.at_most_once(version, retain, additions, alias_only)
        pieces = self.acknowledged(version, qos, packet_id, retain, dup, additions, alias_only)
        return b"".join(pieces)

    def at_most_once(
        self,
        version: int,
        retain: bool = False,
        additions: bytes = b"",
        alias_only: bool = False,
    ) -> bytes:
        """Return the PUBLISH of QoS 0: one object for all recipients with the same options."""
        key = (version == MQTT_5, _PUBLISH | retain, additions, alias_only)
        whole = self._whole.get(key)
        if whole is None:
            if additions or retain or alias_only:
                whole = b"".join(self._split(key, 0))
            else:
                five = version == MQTT_5
                whole = plain_publish(self.topic_field, self.raw_properties, self.payload, five)
            if len(self._whole) < _MOST_SHARED:
                self._whole[key] = whole
        return whole

    def acknowledged(
        self,
        version: int,
        qos: int,
        packet_id: int,
        retain: bool = False,
        dup: bool = False,
        additions: bytes = b"",
        alias_only: bool = False,
    ) -> Pieces:
        """Return the PUBLISH of QoS 1 or 2 in pieces, to be joined with others for one write."""
        key = (
            version == MQTT_5,
            _PUBLISH | dup << 3 | qos << 1 | retain,
            additions,
            alias_only,
        )
        parts = self._parts.get(key)
        if parts is None:
            parts = self._split(key, 2)
            if len(self._parts) < _MOST_SHARED:
                self._parts[key] = parts
        return (parts[0], packet_id.to_bytes(2, "big"), parts[1])

    def size(
        self, version: int, qos: int = 0, additions: bytes = b"", alias_only: bool = False
    ) -> int:
        """Return the size of the PUBLISH for a recipient, without encoding it."""
        rest = 2 if alias_only else len(self.topic_field)
        rest += len(self.payload) + (2 if qos else 0)
        if version == MQTT_5:
            properties = len(self.raw_properties) + len(additions)
            rest += properties + len(encode_variable(properties))
        return 1 + len(encode_variable(rest)) + rest

    def _split(
        self, key: tuple[bool, int, bytes, bool], identifier_size: int
    ) -> tuple[bytes, bytes]:
        """Return the bytes before and after the packet identifier."""
        five, first, additions, alias_only = key
        if alias_only and not five:
            raise EncodeError("MQTT 3 has no topic aliases")
        after = self.payload
        if five:
            properties = additions + self.raw_properties
            after = b"".join((encode_variable(len(properties)), properties, self.payload))
        topic = b"\0\0" if alias_only else self.topic_field
        length = encode_variable(len(topic) + identifier_size + len(after))
        return b"".join((first.to_bytes(1, "big"), length, topic)), after


@lru_cache(4_096)
def topic_field(topic: str) -> bytes:
    """A topic as encoded in a PUBLISH."""
    return encode_text(topic, "topic")


def plain_publish(topic_field: bytes, properties: bytes, payload: bytes, five: bool) -> bytes:
    """A PUBLISH of QoS 0 without flags, of version 5 or earlier."""
    if five:
        count = len(properties)
        size = bytes((count,)) if count <= 0x7F else encode_variable(count)
        length = len(topic_field) + len(size) + count + len(payload)
        head = bytes((_PUBLISH, length)) if length <= 0x7F else _long_head(length)
        return b"".join((head, topic_field, size, properties, payload))
    length = len(topic_field) + len(payload)
    head = bytes((_PUBLISH, length)) if length <= 0x7F else _long_head(length)
    return b"".join((head, topic_field, payload))


def _long_head(length: int) -> bytes:
    if length <= 0x3FFF:
        return bytes((_PUBLISH, length & 0x7F | 0x80, length >> 7))
    return bytes((_PUBLISH,)) + encode_variable(length)
