"""Decoding bytes to packets, however the bytes are split.

One call reads every packet that is complete in the received bytes, or as many as the caller wants
now. A PUBLISH is parsed only as far as every broker needs: its properties stay bytes until they are
used. Incomplete packets are buffered; no byte is copied more than a fixed number of times, and the
buffer never exceeds the largest packet allowed and what the caller left unread.
"""

import re

from nearcast.wire.mqtt.bodies import BODIES
from nearcast.wire.mqtt.errors import ProtocolError, forbidden, malformed
from nearcast.wire.mqtt.fields import Fields, not_utf8
from nearcast.wire.mqtt.packet_types import LARGEST_PACKET, MQTT_3_1, MQTT_5, PacketType, Sender
from nearcast.wire.mqtt.packets import (
    Connect,
    Packet,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
)
from nearcast.wire.mqtt.reason_codes import ReasonCode

_DUP = 0x08
_PING = PacketType.PINGREQ << 4
_PINGS = re.compile(rb"(?:%c\x00)+" % _PING)
# First bytes of the acknowledgements, most of which are two bytes long.
_ACKNOWLEDGEMENTS: dict[int, type[PubAck] | type[PubRec] | type[PubRel] | type[PubComp]] = {
    0x40: PubAck,
    0x50: PubRec,
    0x62: PubRel,
    0x70: PubComp,
}
_FLAGS = {PacketType.PUBREL: 2, PacketType.SUBSCRIBE: 2, PacketType.UNSUBSCRIBE: 2}

ALL = 1 << 62
MOST_KNOWN, LONGEST_KNOWN = 4_096, 128
"""The size of the cache of topics, and the longest topic in it."""
_KNOWN_TOPICS: dict[bytes, str] = {}


class Decoder:
    """Decodes the packets of one side of a connection.

    `version` is that of the connection: 0 until a CONNECT has been read; it must be given to read
    the packets of a server.
    """

    __slots__ = (
        "_at", "_failed", "_needed", "_pending", "max_packet_size", "sender", "unread", "version",
    )  # fmt: skip

    def __init__(
        self,
        max_packet_size: int = LARGEST_PACKET,
        *,
        sender: Sender = Sender.CLIENT,
        version: int = 0,
    ) -> None:
        self.max_packet_size = max_packet_size
        self.sender = sender
        self.version = version
        self._pending: bytearray | None = None
        self._needed = 0
        self.unread = b""
        """Bytes that an earlier call left, which may contain complete packets; for reading only."""
        self._at = 0
        self._failed: ProtocolError | None = None

    @property
    def waiting(self) -> int:
        """The number of buffered bytes: of an incomplete packet, and of unread packets."""
        return len(self.unread) - self._at + (len(self._pending) if self._pending else 0)

    def keep(self, data: bytes) -> None:
        """Add bytes without reading packets from them yet."""
        if self.unread:
            self.unread = self.unread[self._at :] + data
        elif self._pending is not None:
            self.unread, self._pending = bytes(self._pending) + data, None
        else:
            self.unread = data
        self._at = 0

    def read(self, most: int) -> list[Packet]:
        """Return further packets of the bytes left unread; raises as `feed` does."""
        data, at = self.unread, self._at
        self.unread, self._at = b"", 0
        return self._packets(data, at, most)

    def feed(self, data: bytes | bytearray | memoryview, most: int = ALL) -> list[Packet]:
        """Return the packets that are complete now, in order; at most so many.

        If there may be more, they are in `unread`, and `read` returns them. Raises `ProtocolError`,
        with the packets before the error in its `packets`. After that the decoder is unusable:
        every further call raises the same error, without them.
        """
        if self._failed is not None:
            raise self._failed
        if self.unread:
            self.keep(bytes(data))
            return self.read(most)
        if self._pending is not None:
            self._pending += data
            if len(self._pending) < self._needed:
                return []
            data = bytes(self._pending)
            self._pending = None
        elif type(data) is not bytes:
            data = bytes(data)
        elif self.version == MQTT_5 and len(data) <= self.max_packet_size:
            only = _only_publish(data)
            if only is not None:
                return [only]
        return self._packets(data, 0, most)

    def _packets(self, data: bytes, at: int, most: int) -> list[Packet]:
        if self._failed is not None:
            raise self._failed
        packets: list[Packet] = []
        try:
            at = self._read(data, at, packets, most)
        except ProtocolError as error:
            # The stored error must not hold references to the packets.
            self._failed = ProtocolError(error.reason_code, error.message, error.where)
            error.packets = packets
            raise
        if at < len(data):
            if len(packets) >= most:
                self.unread, self._at = data, at
            else:
                self._pending = bytearray(data[at:] if at else data)
        return packets

    def _read(self, data: bytes, at: int, packets: list[Packet], most: int) -> int:
        """Read complete packets, and return where the rest starts."""
        size = len(data)
        version = self.version
        largest = self.max_packet_size
        while size - at > 1:
            if len(packets) >= most:
                return at
            first = data[at]
            length = data[at + 1]
            body = at + 2
            if length > 0x7F:
                if size > body and data[body] < 0x80 and (data[body] or version != MQTT_5):
                    length += (data[body] << 7) - 0x80
                    body += 1
                else:
                    length, body = self._length(data, at)
                    if not body:
                        break
            end = body + length
            if end - at > largest:
                raise self._too_large(first, end - at)
            if end > size:
                self._needed = end - at
                return at
            if 0x30 <= first <= 0x3F and version:
                packets.append(publish(data, first, body, end, version))
            elif length == 2 and version and first in _ACKNOWLEDGEMENTS:
                packet_id = data[body] << 8 | data[body + 1]
                if not packet_id:
                    raise forbidden("it is 0", f"{PacketType(first >> 4).name} packet identifier")
                packets.append(_ACKNOWLEDGEMENTS[first](packet_id))
            elif first == _PING and end == at + 2 and version and self.sender is Sender.CLIENT:
                # A megabyte of pings is half a million packets, each answered by two bytes.
                pings = _PINGS.match(data, at)
                assert pings is not None
                end = pings.end()
                packets.append(PingReq((end - at) // 2))
            else:
                packets.append(self._other(data, at, body, end))
                version = self.version
            at = end
        else:
            self._needed = 2
            return at
        self._needed = size - at + 1
        return at

    def _length(self, data: bytes, at: int) -> tuple[int, int]:
        """Return the remaining length and the start of the body; (0, 0) if it is incomplete."""
        length = 0
        for place in range(4):
            index = at + 1 + place
            if index >= len(data):
                return 0, 0
            length |= (data[index] & 0x7F) << 7 * place
            if data[index] < 0x80:
                if place and not data[index] and self.version == MQTT_5:
                    raise malformed(
                        f"{length} is written in more bytes than it needs [MQTT-1.5.5-1]",
                        "remaining length",
                    )
                return length, index + 1
        raise malformed("it is longer than 4 bytes", "remaining length")

    def _too_large(self, first: int, size: int) -> ProtocolError:
        return ProtocolError(
            ReasonCode.PACKET_TOO_LARGE,
            f"it is {size} bytes long; at most {self.max_packet_size} are accepted",
            PacketType(first >> 4).name if first > 0x0F else "packet",
        )

    def _other(self, data: bytes, at: int, body: int, end: int) -> Packet:
        """Read any packet but a PUBLISH, and check that it is allowed now."""
        number, flags = data[at] >> 4, data[at] & 0x0F
        if not number:
            raise malformed("type 0 is reserved", "packet")
        packet = PacketType(number)
        if not self.version and packet is not PacketType.CONNECT:
            raise forbidden("the first packet must be a CONNECT [MQTT-3.1.0-1]", packet.name)
        if self.version and packet is PacketType.CONNECT:
            raise forbidden("there was one already [MQTT-3.1.0-2]", packet.name)
        read = BODIES[self.sender].get(number)
        if read is None:
            raise forbidden(f"a {self.sender.value} may not send it", packet.name)
        expected = _FLAGS.get(packet, 0)
        if flags != expected and not (
            expected and self.version == MQTT_3_1 and flags == expected | _DUP
        ):
            raise malformed(
                f"the flags are {flags:04b} and must be {expected:04b} [MQTT-2.1.3-1]",
                f"{packet.name} first byte",
            )
        fields = Fields(data, body, end, packet.name)
        result = read(fields, self.version, self.sender)
        fields.close()
        if isinstance(result, Connect):
            self.version = result.version
            # An overlong length can be detected only now that the version is known to be 5.
            self._length(data, at)
        return result


def clear_topic_cache() -> None:
    """Clear the cache of topics."""
    _KNOWN_TOPICS.clear()


def _topic(written: bytes) -> str:
    """Read the topic of a PUBLISH; short topics are cached."""
    topic = written.decode()
    if "#" in topic or "+" in topic or "\0" in topic:
        raise malformed(
            "a topic name holds no wildcards + and # [MQTT-3.3.2-2] and no U+0000",
            "PUBLISH topic",
        )
    if len(written) <= LONGEST_KNOWN:
        if len(_KNOWN_TOPICS) >= MOST_KNOWN:
            _KNOWN_TOPICS.clear()
        _KNOWN_TOPICS[written] = topic
    return topic


def _only_publish(data: bytes) -> Publish | None:
    """Read bytes that are exactly one PUBLISH of the usual kind; None: use the full decoder.

    The usual kind is version 5 and QoS 0, without flags and properties, to a cached topic.
    """
    size = len(data)
    if size < 5 or data[0] != 0x30:
        return None
    length, at = data[1], 2
    if length > 0x7F:
        more = data[2]
        if not 0 < more <= 0x7F:
            return None
        length, at = length - 0x80 + (more << 7), 3
    start = at + 2
    end = start + (data[at] << 8 | data[at + 1])
    if at + length != size or end >= size or data[end]:
        return None
    topic = _KNOWN_TOPICS.get(data[start:end])
    return Publish(topic, data[end + 1 :], 0, False, False, 0, b"") if topic else None


def publish(data: bytes, first: int, at: int, end: int, version: int) -> Publish:
    """Read the body of a PUBLISH; its properties are left to `Publish.validate`."""
    try:
        topic_end = at + 2 + (data[at] << 8 | data[at + 1])
        written = data[at + 2 : topic_end]
        topic = _KNOWN_TOPICS.get(written) or _topic(written)
        qos = first >> 1 & 3
        packet_id = 0
        at = topic_end
        if qos:
            packet_id = data[at] << 8 | data[at + 1]
            at += 2
            if not packet_id and at <= end:
                raise forbidden("it is 0 [MQTT-2.2.1-3]", "PUBLISH packet identifier")
            if qos == 3:
                raise malformed("3 is no QoS [MQTT-3.3.1-4]", "PUBLISH first byte")
        elif first & _DUP:
            raise malformed("DUP is set with QoS 0 [MQTT-3.3.1-2]", "PUBLISH first byte")
        raw = b""
        if version == MQTT_5:
            size = data[at]
            at += 1
            if size:
                if size > 0x7F:
                    fields = Fields(data, at - 1, end, "PUBLISH")
                    size = fields.variable("property length")
                    at = fields.at
                raw = data[at : at + size]
                at += size
    except UnicodeDecodeError as error:
        raise malformed(not_utf8(error), "PUBLISH topic") from None
    except IndexError:
        at = end + 1
    if at > end:
        raise malformed("the packet ends in the middle of its fields", "PUBLISH")
    if not topic and not raw:
        raise forbidden("it is empty [MQTT-4.7.3-1]", "PUBLISH topic")
    return Publish(topic, data[at:end], qos, first & 1 == 1, first & _DUP != 0, packet_id, raw)
