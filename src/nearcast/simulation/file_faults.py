"""Faults of files: what a disk leaves of them, from one seed.

Files are a mapping of names to contents. A disk that keeps its promises may leave any mixture of
old and new sectors of what was not synced; one that does not may also lose what was, or change it.
"""

from collections.abc import Mapping
from enum import Enum
from random import Random

Files = Mapping[str, bytes]
SECTOR_BYTES = 512


class FileFault(Enum):
    """The kinds of faults of a disk that breaks its promises."""

    FLIPPED = "a bit has changed"
    TRUNCATED = "the end is missing"
    REVERTED = "what was synced is not there"
    TORN = "some sectors that were synced are not there"


def torn(before: Files, after: Files, chance: Random) -> dict[str, bytes]:
    """Return files of which each sector is either as before or as after."""
    found = {}
    for name in sorted({*before, *after}):
        old, new = before.get(name, b""), after.get(name, b"")
        if old == new or chance.random() < 0.3:
            found[name] = new
            continue
        length = chance.choice((len(old), len(new)))
        parts = []
        for at in range(0, length, SECTOR_BYTES):
            source = chance.choice((old, new))
            parts.append(
                source[at : at + SECTOR_BYTES].ljust(min(SECTOR_BYTES, length - at), b"\0")
            )
        found[name] = b"".join(parts)
    return found


def damaged(
    files: Files, older: Files, name: str, fault: FileFault, chance: Random
) -> dict[str, bytes]:
    """Return files of which one has a fault; `older` are those of an earlier moment."""
    content = files[name]
    match fault:
        case FileFault.FLIPPED if content:
            changed = bytearray(content)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            content = bytes(changed)
        case FileFault.TRUNCATED:
            content = content[: chance.randrange(len(content) + 1)]
        case FileFault.REVERTED:
            content = older.get(name, b"")
        case FileFault.TORN:
            content = torn({name: older.get(name, b"")}, {name: content}, chance)[name]
        case _:
            pass
    return {**files, name: content}
