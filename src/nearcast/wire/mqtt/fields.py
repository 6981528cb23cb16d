"""The data types of MQTT: numbers, texts and binary data preceded by their lengths.

`Fields` reads them from the body of one packet, from left to right, and its errors name the field
and the packet; the functions encode them.
"""

from nearcast.wire.mqtt.errors import EncodeError, ProtocolError, malformed
from nearcast.wire.mqtt.packet_types import LARGEST_VARIABLE_INTEGER

LONGEST_FIELD_BYTES = 65_535


class Fields:
    """The unread part of a packet's body, or of its properties."""

    __slots__ = ("at", "data", "end", "packet")

    def __init__(self, data: bytes, at: int, end: int, packet: str) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.packet = packet

    @property
    def left(self) -> int:
        """The number of bytes left."""
        return self.end - self.at

    def byte(self, what: str) -> int:
        """Read one byte."""
        return self._take(1, what)[0]

    def uint16(self, what: str) -> int:
        """Read a two byte integer."""
        return int.from_bytes(self._take(2, what), "big")

    def uint32(self, what: str) -> int:
        """Read a four byte integer."""
        return int.from_bytes(self._take(4, what), "big")

    def variable(self, what: str) -> int:
        """Read a variable byte integer in its shortest form [MQTT-1.5.5-1]."""
        value = 0
        for place in range(4):
            byte = self.byte(what)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if place and not byte:
                    raise self.malformed(f"{value} is written in more bytes than it needs", what)
                return value
        raise self.malformed("a variable byte integer is at most 4 bytes long", what)

    def binary(self, what: str) -> bytes:
        """Read binary data."""
        return self._take(self.uint16(what), what)

    def text(self, what: str) -> str:
        """Read text: well-formed UTF-8 without U+0000 [MQTT-1.5.4-1, MQTT-1.5.4-2]."""
        data = self.binary(what)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self.malformed(not_utf8(error), what) from None
        if "\0" in text:
            raise self.malformed("the text holds U+0000, which MQTT forbids", what)
        return text

    def rest(self) -> bytes:
        """Read all remaining bytes."""
        return self._take(self.left, "")

    def close(self) -> None:
        """Check that no bytes are left."""
        if self.at != self.end:
            raise malformed(f"{self.left} bytes are left after the last field", self.packet)

    def malformed(self, message: str, what: str) -> ProtocolError:
        """Return the error for a field."""
        return malformed(message, f"{self.packet} {what}")

    def _take(self, size: int, what: str) -> bytes:
        start = self.at
        self.at = start + size
        if self.at > self.end:
            raise self.malformed(
                f"{size} bytes were expected and {self.end - start} are left", what
            )
        return self.data[start : self.at]


def not_utf8(error: UnicodeDecodeError) -> str:
    """Return the message for bytes that are not UTF-8."""
    return f"byte {error.start} of the text is not well-formed UTF-8: {error.reason}"


def encode_variable(value: int) -> bytes:
    """Return a variable byte integer."""
    if 0 <= value < 0x80:
        return value.to_bytes(1, "big")
    if 0x80 <= value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if not 0 <= value <= LARGEST_VARIABLE_INTEGER:
        raise EncodeError(
            f"{value} is no variable byte integer; they go from 0 to {LARGEST_VARIABLE_INTEGER}"
        )
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_text(text: str, what: str) -> bytes:
    """Return text preceded by its length."""
    if "\0" in text:
        raise EncodeError(f"the {what} holds U+0000, which MQTT forbids")
    try:
        return encode_binary(text.encode(), what)
    except UnicodeEncodeError as error:
        raise EncodeError(f"the {what} cannot be written as UTF-8: {error.reason}") from None


def encode_binary(data: bytes, what: str) -> bytes:
    """Return binary data preceded by its length."""
    if len(data) > LONGEST_FIELD_BYTES:
        raise EncodeError(f"the {what} is {len(data)} bytes long; at most 65535 fit")
    return len(data).to_bytes(2, "big") + data


def encode_integer(value: int, size: int, what: str) -> bytes:
    """Return an integer of a fixed number of bytes."""
    try:
        return value.to_bytes(size, "big")
    except OverflowError:
        raise EncodeError(f"the {what} is {value}; 0 to {256**size - 1} fit") from None
