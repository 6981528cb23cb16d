"""Bounds of HTTP connections: new ones are served however many others are idle or slow.

A connection beyond a bound takes the place of the one that has been idle for longest, first among
those of its own address if that has many. One that has not sent a whole request, or not read its
answer, within a time is closed: a byte now and then does not keep it.
"""

import asyncio
from collections import Counter
from typing import Any

from msgspec import Struct
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

CONNECTIONS = 200
"""Connections at once."""
PER_ADDRESS = 150
"""The same of one address."""
SPEAK_WITHIN_S = 10.0
"""How long a connection may take to send a request, from its start or from the answer before."""
READ_WITHIN_S = 10.0
"""How long a client may take to read an answer."""


class HttpStatistics(Struct, frozen=True):
    """How many connections there are, and how many were closed because of a bound or a time."""

    connections: int
    evicted_total: int
    timed_out_total: int


class HttpConnections:
    """All connections of an HTTP server."""

    def __init__(self, most: int = CONNECTIONS, most_of_address: int = PER_ADDRESS) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._open: dict[BoundedConnection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._evicted = self._timed_out = 0

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection: "BoundedConnection") -> None:
        """Register a connection; beyond a bound another one is closed, or this one if it must."""
        self._open[connection] = None
        self._by_address[connection.address] += 1
        if self._by_address[connection.address] > self._most_of_address:
            self._evict(connection.address)
        elif len(self._open) > self._most:
            ((address, _),) = self._by_address.most_common(1)
            self._evict(address)

    def closed(self, connection: "BoundedConnection") -> None:
        """Remove a connection."""
        if connection in self._open:
            del self._open[connection]
            self._by_address[connection.address] -= 1
            if not self._by_address[connection.address]:
                del self._by_address[connection.address]

    def sweep(self, now: float) -> None:
        """Close the connections that are late."""
        for connection in [each for each in self._open if each.is_late(now)]:
            self._timed_out += 1
            self._close(connection)

    def statistics(self) -> HttpStatistics:
        """Return the counts."""
        return HttpStatistics(len(self._open), self._evicted, self._timed_out)

    def _evict(self, address: str) -> None:
        """Close a connection of an address: the longest idle, or the newest if all are busy."""
        own = [each for each in self._open if each.address == address]
        idle = [each for each in own if not each.is_busy]
        self._evicted += 1
        self._close(min(idle, key=lambda each: each.since) if idle else own[-1])

    def _close(self, connection: "BoundedConnection") -> None:
        # Removed at once, not when the loop tells: the next one may come before.
        self.closed(connection)
        connection.transport.abort()


class BoundedConnection(H11Protocol):
    """An HTTP connection that is counted."""

    def __init__(
        self,
        book: HttpConnections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._book = book
        self.address = ""
        self.since = 0.0
        """When it was opened, or began to answer or ended to."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def is_late(self, now: float) -> bool:
        """Whether it took too long to send a request, or to read an answer."""
        if self.is_busy and not self.flow.write_paused:
            return False
        # An answer that is complete here may still wait for the client.
        limit_s = READ_WITHIN_S if self.transport.get_write_buffer_size() else SPEAK_WITHIN_S
        return now - self.since > limit_s

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called on a new connection."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.since = self.loop.time()
        self._book.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection is closed."""
        super().connection_lost(exc)
        self._book.closed(self)

    def pause_writing(self) -> None:
        """Called when the client does not read."""
        super().pause_writing()
        self.since = self.loop.time()

    def on_response_complete(self) -> None:
        """Called when an answer was written."""
        self.since = self.loop.time()
        super().on_response_complete()
