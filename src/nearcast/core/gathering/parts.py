"""Parts and aggregates: what waits, and what goes out."""

import hashlib

from msgspec import Struct

from nearcast.core.model.context import Value
from nearcast.core.model.payload import attributes_of


class Part(Struct, frozen=True, array_like=True, gc=False):
    """An event that waits, or what is needed of it."""

    id: str
    publisher: str
    time: float
    ingested: float
    lat: float | None = None
    lon: float | None = None
    payload: bytes = b""
    """Its attributes as JSON, read only when the aggregate goes out."""

    @property
    def key(self) -> str:
        """What no two events have in common."""
        return f"{self.publisher}\0{self.id}"

    def attributes(self) -> dict[str, Value]:
        """Return its attributes."""
        return attributes_of(self.payload)


class Aggregate(Struct, frozen=True):
    """What went out together."""

    id: str
    """The same for the same parts of the same group, so that a repeat is recognised."""
    time: float
    """The time of its newest part; to the minute where people are hidden."""
    count: int
    people: int
    payload: bytes
    lat: float | None = None
    lon: float | None = None


def short_hash(key: str) -> int:
    """Return 64 bits that stand for the key of a part."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
