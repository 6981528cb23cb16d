"""Limits on the buffers of all connections: input that is not processed, output that is not read.

What one connection can have is bounded by the size of a packet and of its write buffer; here the
sums are. They are looked at about once a second, and the largest connections are closed first.
"""

from collections.abc import Iterable, Iterator

from nearcast.broker.config.settings import Limits
from nearcast.broker.net.connection import Connection
from nearcast.broker.net.links import Link


class BufferLimits:
    """Finds the connections to close."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def exceeding(self, links: Iterable[Link]) -> Iterator[tuple[Connection, str]]:
        """Yield connections to close until the rest is within the limits, and why."""
        received: list[tuple[int, Connection]] = []
        unsent: list[tuple[int, Connection]] = []
        for link in links:
            connection = link.connection
            decoder = connection.decoder
            if decoder is not None and decoder.waiting:
                received.append((decoder.waiting, connection))
            if size := link.unsent_bytes:
                unsent.append((size, connection))
        limits = self._limits
        yield from _largest(received, limits.input_bytes, "not processed", "input_bytes")
        yield from _largest(unsent, limits.all_unsent_bytes, "not read", "all_unsent_bytes")


def _largest(
    sizes: list[tuple[int, Connection]], most: int, what: str, setting: str
) -> Iterator[tuple[Connection, str]]:
    total = sum(size for size, _ in sizes)
    if total <= most:
        return
    for size, connection in sorted(sizes, key=lambda each: each[0], reverse=True):
        if total <= most:
            return
        why = f"{total} bytes of all clients are {what}, {size} of this one; limits.{setting}"
        yield connection, f"{why} allows {most} in all"
        total -= size
