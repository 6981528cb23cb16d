"""The properties of a PUBLISH as bytes: checked and forwarded without being parsed.

Most messages carry only a few user properties, which a broker forwards unchanged. For these it is
enough to go from length to length; all others are parsed.
"""

from collections.abc import Iterable
from functools import lru_cache

from nearcast.wire.mqtt.fields import Fields
from nearcast.wire.mqtt.packet_types import PacketType
from nearcast.wire.mqtt.properties import (
    BY_IDENTIFIER,
    SUBSCRIPTION_IDENTIFIER,
    USER_PROPERTY,
    encode_property,
    read_property,
)

_USER = BY_IDENTIFIER[USER_PROPERTY]
_USER_PREFIX = bytes((USER_PROPERTY,))
_SUBSCRIPTION_IDENTIFIER = BY_IDENTIFIER[SUBSCRIPTION_IDENTIFIER]
_TOPIC_ALIAS = BY_IDENTIFIER[0x23]
_MESSAGE_EXPIRY = BY_IDENTIFIER[0x02]
_LONGEST_EXPIRY_S = 0xFFFF_FFFF
MESSAGE_EXPIRY_MARK = b"\x02"
"""The first byte of a message expiry interval."""


def only_short_user_properties(raw: bytes) -> bool:
    """Return True if bytes are only well-formed user properties of short ASCII texts.

    False does not mean that they are invalid, only that they must be parsed.
    """
    at = texts = 0
    end = len(raw)
    try:
        while at < end:
            if raw[at] != USER_PROPERTY or raw[at + 1]:
                return False
            at += 3 + raw[at + 2]
            if raw[at]:
                return False
            at += 2 + raw[at + 1]
            texts += 2
    except IndexError:
        return False
    # Every length has exactly one zero byte, unless a text is empty: another zero is U+0000.
    return at == end and raw.isascii() and raw.count(0) == texts


def short_user_properties(raw: bytes) -> list[tuple[str, str]] | None:
    """Return user properties of short ASCII texts; None if there are any others."""
    if not raw.isascii():
        return None
    text = raw.decode("ascii")
    pairs: list[tuple[str, str]] = []
    at = 0
    end = len(raw)
    try:
        while at < end:
            if raw[at] != USER_PROPERTY or raw[at + 1]:
                return None
            key_end = at + 3 + raw[at + 2]
            if raw[key_end]:
                return None
            value_end = key_end + 2 + raw[key_end + 1]
            pairs.append((text[at + 3 : key_end], text[key_end + 2 : value_end]))
            at = value_end
    except IndexError:
        return None
    return pairs if at == end and raw.count(0) == 2 * len(pairs) else None


def stripped(raw: bytes, identifiers: frozenset[int], user_prefix: str = "") -> bytes:
    """Return validated properties without some, and without user properties of a prefix."""
    fields = Fields(raw, 0, len(raw), PacketType.PUBLISH.name)
    prefix = user_prefix.encode()
    kept: list[bytes] = []
    at, end = 0, len(raw)
    while at < end:
        start = at
        if raw[at] == USER_PROPERTY:
            key_end = at + 3 + (raw[at + 1] << 8 | raw[at + 2])
            at = key_end + 2 + (raw[key_end] << 8 | raw[key_end + 1])
            dropped = bool(prefix) and raw.startswith(prefix, start + 3, key_end)
        else:
            fields.at = at
            read_property(fields, PacketType.PUBLISH)
            at = fields.at
            dropped = raw[start] in identifiers
        if not dropped:
            kept.append(raw[start:at])
    return b"".join(kept)


def user_properties(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return user properties as bytes, to be added for a recipient."""
    parts: list[bytes] = []
    for name, text in pairs:
        value = text.encode()
        if len(value) > 0xFFFF or b"\0" in value:
            encode_property(_USER, (name, text))  # raises the error
        parts += (_begun(name), len(value).to_bytes(2, "big"), value)
    return b"".join(parts)


@lru_cache(256)
def _begun(name: str) -> bytes:
    """The encoding of a user property up to the end of its name."""
    return encode_property(_USER, (name, ""))[:-2]


def subscription_identifiers(identifiers: Iterable[int]) -> bytes:
    """Return subscription identifiers as bytes, to be added for a recipient."""
    return b"".join([encode_property(_SUBSCRIPTION_IDENTIFIER, value) for value in identifiers])


def topic_alias(alias: int) -> bytes:
    """Return a topic alias as bytes, to be added for a recipient."""
    return encode_property(_TOPIC_ALIAS, alias)


def message_expiry(seconds: int) -> bytes:
    """Return a message expiry interval as bytes, to replace the received one.

    What is left of the longest interval may exceed it: times are rounded.
    """
    return encode_property(_MESSAGE_EXPIRY, min(seconds, _LONGEST_EXPIRY_S))


def first_message_expiry(raw: bytes) -> tuple[int | None, bytes]:
    """Return the message expiry interval at the start of properties, and the rest."""
    if raw[:1] != MESSAGE_EXPIRY_MARK:
        return None, raw
    return int.from_bytes(raw[1:5], "big"), raw[5:]
