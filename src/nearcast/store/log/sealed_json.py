"""JSON objects with a checksum as their last member, so that damage to them is found.

A flipped bit in a number of the manifest would otherwise be valid JSON: segments would be skipped,
or dropped as if they were too old. Releases that know no checksum ignore the member, and what they
wrote has none and counts as intact.
"""

import re
from zlib import crc32

_NAME = b'"crc32"'
_SEAL = re.compile(rb',"crc32":"([0-9a-f]{8})"\}\s*\Z')


def sealed(data: bytes) -> bytes:
    """Return a JSON object with the checksum of its bytes as its last member."""
    return b'%b,"crc32":"%08x"}' % (data[:-1], crc32(data))


def is_intact(data: bytes) -> bool:
    """Return False if the checksum of a JSON object differs."""
    found = _SEAL.search(data)
    if found is None:
        return _NAME not in data
    return crc32(data[: found.start()] + b"}") == int(found[1], 16)
