"""Bytes written and read in order: variable integers, byte strings, packed bits."""

from collections.abc import Sequence

from nearcast.wire.encoding.errors import DecodingError

LARGEST = (1 << 64) - 1


class ByteWriter:
    """Bytes that grow."""

    def __init__(self) -> None:
        self._out = bytearray()

    def byte(self, value: int) -> None:
        """Write one byte."""
        self._out.append(value)

    def number(self, value: int) -> None:
        """Write an integer from 0 upwards, 7 bits to a byte, low bits first."""
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)

    def signed(self, value: int) -> None:
        """Write an integer of 64 bits with its sign in the lowest bit."""
        self.number(value << 1 if value >= 0 else (-value << 1) - 1)

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._out += data

    def text(self, data: bytes) -> None:
        """Write bytes after their number."""
        self.number(len(data))
        self._out += data

    def packed(self, values: Sequence[int], width: int) -> None:
        """Write integers from 0 upwards with `width` bits each."""
        if width and values:
            size = (len(values) * width + 7) // 8
            bits = "".join([format(value, f"0{width}b") for value in values])
            self._out += int(bits.ljust(size * 8, "0"), 2).to_bytes(size, "big")

    def result(self) -> bytes:
        """Return all that was written."""
        return bytes(self._out)


class ByteReader:
    """The unread part of some bytes; what is not there raises `DecodingError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """The number of unread bytes."""
        return len(self._data) - self._at

    def byte(self) -> int:
        """Read one byte."""
        return self.raw(1)[0]

    def number(self) -> int:
        """Read what `ByteWriter.number` wrote."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise DecodingError("a number has more than 64 bits")
        if value > LARGEST:
            raise DecodingError("a number has more than 64 bits")
        return value

    def signed(self) -> int:
        """Read what `ByteWriter.signed` wrote."""
        value = self.number()
        return -(value + 1 >> 1) if value & 1 else value >> 1

    def raw(self, size: int) -> bytes:
        """Read so many bytes."""
        if size > self.left:
            raise DecodingError(f"{size} bytes were expected and {self.left} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> bytes:
        """Read what `ByteWriter.text` wrote."""
        return self.raw(self.number())

    def packed(self, count: int, width: int) -> list[int]:
        """Read what `ByteWriter.packed` wrote."""
        if not width or not count:
            return [0] * count
        size = (count * width + 7) // 8
        bits = format(int.from_bytes(self.raw(size), "big"), f"0{size * 8}b")
        return [int(bits[at : at + width], 2) for at in range(0, count * width, width)]
