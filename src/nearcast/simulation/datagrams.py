"""What a program needs of datagrams: one socket, which may be virtual or a real one of UDP.

Protocols without a broker are written against this and run on either. Nothing is promised: a
datagram arrives whole or not at all, perhaps twice, perhaps after one that was sent later.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from nearcast.errors import NearcastError

Receive = Callable[[bytes, str], object]
"""Gets a datagram and the address of who sent it."""

LARGEST_BYTES = 1472
"""What fits into one frame of Ethernet or Wi-Fi (1500 bytes) with the headers of IPv4 and UDP."""


class DatagramTooLargeError(NearcastError):
    """A datagram is larger than what the network carries; nothing was sent."""

    def __init__(self, size: int, to: str, largest: int) -> None:
        super().__init__(
            f"a datagram of {size} bytes to {to!r} is larger than the {largest} bytes that the "
            "network carries; send less, or in parts"
        )
        self.size = size
        self.largest = largest


class SocketStatistics(Struct, frozen=True):
    """What a socket sent and received."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0


class DatagramSocket(Protocol):
    """Sends and receives datagrams under one address."""

    receive: Receive
    """Called with each datagram; what comes before it is set is dropped."""

    @property
    def address(self) -> str:
        """Where others reach it."""

    @property
    def largest_bytes(self) -> int:
        """The largest datagram that it sends."""

    def send(self, data: bytes, to: str) -> None:
        """Send to an address, or to all others that are in a group; nobody learns what arrived.

        The sender does not hear what it sends to a group, and need not be in it. Raises
        `DatagramTooLargeError`, and `OSError` once it is closed.
        """

    def join(self, group: str) -> None:
        """Receive what is sent to a group; once is enough."""

    def leave(self, group: str) -> None:
        """No longer receive what is sent to a group, if it did."""

    def close(self) -> None:
        """Leave all groups, and send and receive nothing more."""

    def statistics(self) -> SocketStatistics:
        """Return what it sent and received."""
