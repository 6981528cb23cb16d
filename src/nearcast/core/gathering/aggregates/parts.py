"""Parts and aggregates: held events, and the released result."""

import hashlib

from msgspec import Struct

from nearcast.core.model.context import Value
from nearcast.core.model.payload import attributes_of

PartOrder = tuple[float, int, str, str]
"""The order of arrival, the same wherever a part is looked at."""


class Part(Struct, frozen=True, array_like=True, gc=False):
    """A held event, reduced to the needed fields."""

    id: str
    publisher: str
    time: float
    ingested: float
    lat: float | None = None
    lon: float | None = None
    payload: bytes = b""
    """Its attributes as JSON, parsed only when the aggregate is made."""
    number: int = 0
    """Its place among parts ingested at the same time."""
    properties: tuple[tuple[str, str], ...] = ()
    """The user properties of its message."""

    @property
    def order(self) -> PartOrder:
        """Its place in the order of arrival."""
        return self.ingested, self.number, self.publisher, self.id

    @property
    def key(self) -> str:
        """A key unique to the event."""
        return f"{self.publisher}\0{self.id}"

    def attributes(self) -> dict[str, Value]:
        """Return its attributes."""
        return attributes_of(self.payload)


class Aggregate(Struct, frozen=True):
    """The result of parts released together."""

    id: str
    """The same for the same parts of the same group, so that a repeat is recognised."""
    time: float
    """The time of its newest part; to the minute if people are hidden."""
    count: int
    people: int
    payload: bytes
    lat: float | None = None
    lon: float | None = None


def short_hash(key: str) -> int:
    """Return a 64-bit hash of a part's key."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
