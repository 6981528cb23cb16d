"""Group identifiers: 24 bits that every node computes from a textual description (seed D).

Each character is mixed in by an exclusive or and a multiplication, and the upper bits are taken
after one by the golden ratio. Two descriptions may share a group: whoever receives events of
the other discards them, by their type.
"""

from functools import lru_cache

from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.discovery.proximity import Proximity

BITS = 24
_WORD = 0xFFFF_FFFF
_PRIME = 16_777_619
_BASIS = 2_166_136_261
_GOLDEN = 2_654_435_769


def group_id(event_type: EventType, proximity: Proximity) -> int:
    """Return the group in which events of a type are sent in a proximity."""
    return hashed(f"{event_type.text};{proximity.text}")


@lru_cache(4_096)
def hashed(description: str) -> int:
    """Return the 24-bit hash of a text."""
    word = _BASIS
    for byte in description.encode():
        word = ((word ^ byte) * _PRIME) & _WORD
    return ((word ^ word >> 15) * _GOLDEN & _WORD) >> (32 - BITS)
