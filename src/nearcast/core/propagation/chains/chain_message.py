"""A message that peers pass on: its number, its content as the broker signed it, and to whom."""

from collections.abc import Sequence

from msgspec import Struct

ADDRESS_BYTES = 6
"""An IPv4 address and a port, in the order of the network."""


class ChainMessage(Struct, frozen=True):
    """What one peer gets."""

    number: int
    """Unique for the broker, and increasing."""
    content: bytes
    """A message in the form of its sender and receivers; opaque here."""
    signature: bytes
    """The broker's, of number and content: nobody else can change or make one."""
    degree: int = 1
    rest: Sequence[bytes] = ()
    """Addresses of the recipients after this one, in the order of `chain_tree`."""


def signed_bytes(number: int, content: bytes) -> bytes:
    """Return what the broker signs."""
    return b"nearcast chain" + number.to_bytes(8, "big") + content
