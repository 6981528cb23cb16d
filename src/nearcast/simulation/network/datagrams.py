"""The interface of a datagram socket, which may be virtual or a real one of UDP.

Protocols without a broker are written against this and run on either. There are no guarantees: a
datagram arrives whole or not at all, possibly twice or out of order.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from nearcast.errors import NearcastError

Receive = Callable[[bytes, str], object]
"""Called with a datagram and the address of its sender."""

LARGEST_BYTES = 1472
"""The payload of one Ethernet or Wi-Fi frame (1500 bytes) without IPv4 and UDP headers."""


class DatagramTooLargeError(NearcastError):
    """A datagram is larger than the network allows; nothing was sent."""

    def __init__(self, size: int, to: str, largest: int) -> None:
        super().__init__(
            f"a datagram of {size} bytes to {to!r} is larger than the {largest} bytes that the "
            "network carries; send less, or in parts"
        )
        self.size = size
        self.largest = largest


class SocketStatistics(Struct, frozen=True):
    """Counts of a socket."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0


class DatagramSocket(Protocol):
    """Sends and receives datagrams under one address."""

    receive: Receive
    """Called with each datagram; earlier datagrams are dropped."""

    @property
    def address(self) -> str:
        """The address of the socket."""

    @property
    def largest_bytes(self) -> int:
        """The largest datagram that it sends."""

    def send(self, data: bytes, to: str) -> None:
        """Send to an address, or to all other members of a group; delivery is not reported.

        The sender does not get its own datagrams to a group, and need not be a member. Raises
        `DatagramTooLargeError`, and `OSError` once it is closed.
        """

    def join(self, group: str) -> None:
        """Join a group to receive its datagrams; joining twice has no effect."""

    def leave(self, group: str) -> None:
        """Leave a group, if it is a member."""

    def close(self) -> None:
        """Leave all groups, and send and receive nothing more."""

    def statistics(self) -> SocketStatistics:
        """Return the counts of the socket."""
