"""The packets of the broker benchmark, encoded once: every message is a frame of 223 bytes.

Messages are MQTT 5 with two user properties and a small JSON payload with a timestamp. The offset
of the timestamp from the end of the frame is constant.
"""

from nearcast.wire.mqtt import (
    Connect,
    Disconnect,
    PingReq,
    Properties,
    Publish,
    Subscribe,
    TopicFilter,
    encode,
)

FRAME_BYTES = 223
TOPICS = "bench"
"""First level of all topics; `bench/#` can be excluded from the event log."""
USER_PROPERTIES = (("kind", "bus"), ("line", "17"))
PING = encode(PingReq())
PING_ANSWER_BYTES = 2
GOODBYE = encode(Disconnect())
_BEFORE_TIME = b'{"sent":"'
_TIME_DIGITS = 19


def message(topic: str, qos: int = 0, packet_id: int = 0) -> bytes:
    """An encoded PUBLISH for a topic, always FRAME_BYTES long."""
    return encode(published(topic, qos, packet_id))


def published(topic: str, qos: int = 0, packet_id: int = 0) -> Publish:
    """The PUBLISH for a topic, with a payload that makes its frame FRAME_BYTES long."""
    filler = FRAME_BYTES
    while True:
        packet = Publish(topic, _payload(filler), qos, packet_id=packet_id)
        packet = packet.with_(Properties(user_properties=USER_PROPERTIES))
        excess = len(encode(packet)) - FRAME_BYTES
        if not excess:
            return packet
        filler -= excess
        assert filler >= 0, f"the topic {topic!r} is too long"


def is_same(packet: Publish, sent: Publish) -> bool:
    """True if topic, payload and user properties were delivered unchanged."""
    return (
        packet.topic == sent.topic
        and packet.payload == sent.payload
        and packet.properties.user_properties == sent.properties.user_properties
    )


def numbered(topic: str, count: int) -> bytes:
    """`count` messages for a topic, each with a different number in place of the timestamp."""
    frame = message(topic)
    from_end = time_from_end(frame)
    return b"".join(stamped(frame, from_end, number) for number in range(count))


def time_from_end(frame: bytes) -> int:
    """Offset of the timestamp from the end of a frame."""
    return len(frame) - frame.index(_BEFORE_TIME) - len(_BEFORE_TIME)


def stamped(frame: bytes, from_end: int, time_ns: int) -> bytes:
    """The frame with its timestamp replaced."""
    at = len(frame) - from_end
    return frame[:at] + b"%019d" % time_ns + frame[at + _TIME_DIGITS :]


def sent_ns(frame: bytes | bytearray, from_end: int) -> int:
    """The timestamp of a received frame."""
    at = len(frame) - from_end
    return int(frame[at : at + _TIME_DIGITS])


def connect(client_id: str) -> bytes:
    """A CONNECT for a session that ends with its connection."""
    return encode(Connect(client_id))


def subscribe(topic: str) -> bytes:
    """A SUBSCRIBE for one topic, QoS 0."""
    return encode(Subscribe(1, (TopicFilter(topic),)))


def _payload(filler: int) -> bytes:
    return _BEFORE_TIME + b"0" * _TIME_DIGITS + b'","note":"' + b"x" * filler + b'"}'
