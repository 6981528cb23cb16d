"""Content codings: what a client accepts, which one a payload gets, and back.

A client names the codings that it accepts in CONNECT (`nc-accept-encoding`), and a payload names
its own in `nc-encoding`. Codings that are not known here are passed over, so that later ones can be
named beside them.
"""

from collections.abc import Mapping
from enum import IntFlag

from msgspec import Struct

from nearcast.wire.encoding.budget import LARGEST_DECODED
from nearcast.wire.encoding.byte_streams import ByteReader, ByteWriter
from nearcast.wire.encoding.columns import decode_columns, encode_columns
from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.encoding.zstd_frames import (
    compress,
    compress_bare,
    decompress,
    decompress_bare,
)

ACCEPT = "nc-accept-encoding"
ENCODING = "nc-encoding"
DICTIONARY_TOPIC = "$me/dictionaries/"
LARGEST_DICTIONARY = 64 << 10
LEAST_TABLE_BYTES, LARGEST_TABLE_BYTES = 256, 64 << 10
"""Smaller lists of objects are not worth columns, and larger ones would take too long."""
LEAST_BYTES = 1_024
"""Other payloads that are smaller are compressed only with a dictionary."""
_TABLE = b"[{"


class Coding(IntFlag):
    """The codings, as a set of those that a client accepts."""

    NONE = 0
    ZSTD = 1
    """A standard zstd frame."""
    COLUMNS = 2
    """JSON as columns, then zstd."""
    DICTIONARY = 4
    """The id of a trained dictionary, then zstd with that dictionary."""


class Dictionary(Struct, frozen=True):
    """A trained dictionary, and the id of this version of it."""

    id: int
    trained: bytes

    @property
    def topic(self) -> str:
        """The topic on which it is told."""
        return f"{DICTIONARY_TOPIC}{self.id}"


class Encoded(Struct, frozen=True):
    """An encoded payload and the name of its coding."""

    name: str
    payload: bytes


NAMES = {Coding.ZSTD: "zstd", Coding.COLUMNS: "columns", Coding.DICTIONARY: "dictionary"}
ALL = Coding.ZSTD | Coding.COLUMNS | Coding.DICTIONARY


def accepted_codings(text: str) -> Coding:
    """Return the known codings in a list such as `columns, zstd`."""
    named = {each.strip().lower() for each in text.split(",")}
    found = Coding.NONE
    for coding, name in NAMES.items():
        if name in named:
            found |= coding
    return found


def coding_names(codings: Coding) -> str:
    """Return codings as a client names them."""
    return ", ".join(name for coding, name in NAMES.items() if coding in codings)


def encode_payload(
    payload: bytes, accepted: Coding, dictionary: Dictionary | None = None
) -> Encoded | None:
    """Return a payload in the smallest accepted coding; None if none makes it smaller."""
    found: list[Encoded] = []
    if dictionary is not None and Coding.DICTIONARY in accepted:
        head = ByteWriter()
        head.number(dictionary.id)
        found.append(
            Encoded(
                NAMES[Coding.DICTIONARY], head.result() + compress_bare(payload, dictionary.trained)
            )
        )
    columns = encode_columns(payload) if Coding.COLUMNS in accepted and _is_table(payload) else None
    if columns is not None:
        found.append(Encoded(NAMES[Coding.COLUMNS], columns))
    elif len(payload) >= LEAST_BYTES and Coding.ZSTD in accepted:
        found.append(Encoded(NAMES[Coding.ZSTD], compress(payload)))
    best = min(found, key=_size, default=None)
    return best if best is not None and _size(best) < len(payload) else None


def decode_payload(
    name: str, payload: bytes, dictionaries: Mapping[int, bytes], most: int = LARGEST_DECODED
) -> bytes:
    """Return the payload as it was published; raise `DecodingError` if that fails."""
    if name == NAMES[Coding.ZSTD]:
        return decompress(payload, most)
    if name == NAMES[Coding.COLUMNS]:
        return decode_columns(payload, most)
    if name == NAMES[Coding.DICTIONARY]:
        reader = ByteReader(payload)
        id_ = reader.number()
        trained = dictionaries.get(id_)
        if trained is None:
            raise DecodingError(f"dictionary {id_} was not told")
        return decompress_bare(reader.raw(reader.left), trained, most)
    raise DecodingError(f"{name!r} is no known coding; there are {coding_names(ALL)}")


def _is_table(payload: bytes) -> bool:
    return LEAST_TABLE_BYTES <= len(payload) <= LARGEST_TABLE_BYTES and _TABLE in payload


def _size(encoded: Encoded) -> int:
    """Return its size, with the property that names its coding."""
    return len(encoded.payload) + len(ENCODING) + len(encoded.name) + 5
