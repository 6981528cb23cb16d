"""Datagrams of nodes without a broker: messages in parts that fit, each sealed.

A datagram begins with two letters and the version. Parts of one message carry its hash, so that
those of different forwarders fit together, and nothing wrong is put together. What is incomplete
is bounded in number, size and time.
"""

from collections import OrderedDict
from hashlib import blake2b

from msgspec import Struct

from nearcast.core.proximity.messages import Message
from nearcast.wire.beacons.group_key import GroupKey, KeyRing
from nearcast.wire.beacons.message_codec import (
    LARGEST_MESSAGE_BYTES,
    BeaconError,
    decode_message,
    encode_message,
)
from nearcast.wire.beacons.signatures import Signatures

MAGIC = b"nc\x01"
_SEALED, _PLAIN = b"\x01", b"\x00"
_WHOLE, _PART = b"\x00", b"\x01"
_HASH_BYTES = 8
_MOST_PARTS = 255
_PART_HEADER_BYTES = 1 + _HASH_BYTES + 2
MOST_PARTIAL = 64
PARTIAL_S = 5.0


class DatagramCounts(Struct):
    """What was not read, and why."""

    foreign: int = 0
    """Not of this protocol, or sealed when no key is given, or the other way round."""
    unsealed: int = 0
    """Not sealed with a key of this node."""
    forged: int = 0
    """Not signed by the member that it says it is from."""
    malformed: int = 0
    partial: int = 0
    """Parts of messages of which others did not come in time."""


class _Partial(Struct):
    parts: dict[int, bytes]
    count: int
    expires_at: float


class DatagramCodec:
    """Turns messages into datagrams and back, for one node."""

    def __init__(
        self, keys: KeyRing, largest_bytes: int, signatures: Signatures | None = None
    ) -> None:
        self.counts = DatagramCounts()
        self._keys = keys
        self._signatures = signatures
        self._kind = _SEALED if keys.keys else _PLAIN
        self._head = MAGIC + self._kind
        self._room = largest_bytes - len(self._head) - keys.overhead_bytes
        self._partial: OrderedDict[bytes, _Partial] = OrderedDict()

    @property
    def keys(self) -> tuple[GroupKey, ...]:
        """The keys of the node."""
        return self._keys.keys

    def encode(self, message: Message) -> list[bytes]:
        """Return the datagrams of a message, or raise `BeaconError` if it is too large."""
        signatures = self._signatures
        body = encode_message(message if signatures is None else signatures.signed(message))
        if len(body) < self._room:
            return [self._head + self._keys.seal(_WHOLE + body)]
        if len(body) > LARGEST_MESSAGE_BYTES:
            raise BeaconError(f"a message of {len(body)} bytes exceeds {LARGEST_MESSAGE_BYTES}")
        room = self._room - _PART_HEADER_BYTES
        count = -(-len(body) // room)
        if count > _MOST_PARTS:
            raise BeaconError(f"a message of {len(body)} bytes has more than {_MOST_PARTS} parts")
        name = _hash(body)
        return [
            self._head
            + self._keys.seal(
                _PART + name + bytes((index, count)) + body[index * room : (index + 1) * room]
            )
            for index in range(count)
        ]

    def decode(self, data: bytes, now: float) -> Message | None:
        """Return the message that a datagram completes; None if it completes or is none."""
        if data[: len(MAGIC)] != MAGIC or data[len(MAGIC) : len(self._head)] != self._kind:
            self.counts.foreign += 1
            return None
        body = self._keys.open(data[len(self._head) :])
        if body is None:
            self.counts.unsealed += 1
            return None
        try:
            if body[:1] == _WHOLE:
                message = decode_message(body[1:])
            else:
                whole = self._join(body, now) if body[:1] == _PART else _refuse()
                if whole is None:
                    return None
                message = decode_message(whole)
        except BeaconError:
            self.counts.malformed += 1
            return None
        if self._signatures is not None and not self._signatures.are_valid(message):
            self.counts.forged += 1
            return None
        return message

    def _join(self, body: bytes, now: float) -> bytes | None:
        if len(body) <= _PART_HEADER_BYTES:
            raise BeaconError("a part is empty")
        name = body[1 : 1 + _HASH_BYTES]
        index, count = body[1 + _HASH_BYTES : _PART_HEADER_BYTES]
        part = body[_PART_HEADER_BYTES:]
        self._expire(now)
        if not index < count or count < 2:
            raise BeaconError("a part has no place in its message")
        found = self._partial.get(name)
        if found is None:
            found = self._partial[name] = _Partial({}, count, now + PARTIAL_S)
        if found.count != count:
            raise BeaconError("parts of one message disagree")
        found.parts.setdefault(index, part)
        if len(found.parts) < count:
            return None
        del self._partial[name]
        whole = b"".join(found.parts[at] for at in range(count))
        if len(whole) > LARGEST_MESSAGE_BYTES or _hash(whole) != name:
            raise BeaconError("parts do not make the message that they name")
        return whole

    def _expire(self, now: float) -> None:
        while self._partial:
            first = next(iter(self._partial.values()))
            if first.expires_at > now and len(self._partial) < MOST_PARTIAL:
                return
            self._partial.popitem(last=False)
            self.counts.partial += 1


def _hash(body: bytes) -> bytes:
    return blake2b(body, digest_size=_HASH_BYTES).digest()


def _refuse() -> bytes:
    raise BeaconError("neither a message nor a part of one")
