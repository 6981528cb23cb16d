"""Options of a connection that are not sent to the server."""

import ssl

from msgspec import Struct

from nearcast.client.link.backoff import Backoff


class ConnectionOptions(Struct, frozen=True, kw_only=True):
    """Delays between attempts, limits of the receive buffer, and TLS."""

    backoff: Backoff = Backoff()
    seed: int | None = None
    """Makes the delays between attempts reproducible."""
    buffered_messages: int = 1_000
    """The limit of unread messages; above it the socket is not read."""
    buffered_bytes: int = 16 << 20
    tls: ssl.SSLContext | None = None
    """The TLS context; by default the system's authorities are trusted."""
