"""A message that peers pass on: its number, content and recipients, as the broker signed them."""

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

ADDRESS_BYTES = 6
"""An IPv4 address and a port, in the order of the network."""


class ChainMessage(Struct, frozen=True):
    """What the broker sends to the first of a chain, and each passes on as it is."""

    number: int
    """Unique for the broker, and increasing."""
    content: bytes
    """A message in the form of its sender and receivers; opaque here."""
    members: Sequence[bytes]
    """Addresses of all recipients of this chain, in the order of `chain_tree`."""
    degree: int
    signature: bytes
    """The broker's, of all of it: a peer can drop a message, but not change or make one."""


def signed_bytes(number: int, content: bytes, members: Sequence[bytes], degree: int) -> bytes:
    """Return what the broker signs."""
    digest = sha256(content).digest() + sha256(b"".join(members)).digest()
    return b"nearcast chain" + number.to_bytes(8, "big") + bytes((degree,)) + digest
