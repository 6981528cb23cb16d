"""Options of a connection that are not sent to the server."""

import ssl

from msgspec import Struct

from nearcast.client.link.backoff import Backoff


class ConnectionOptions(Struct, frozen=True, kw_only=True):
    """How often to try again, how much may wait for a reader, and whom to trust."""

    backoff: Backoff = Backoff()
    seed: int | None = None
    """Makes the delays between attempts the same every time."""
    buffered_messages: int = 1_000
    """Messages that nobody has read; then the socket is not read."""
    buffered_bytes: int = 16 << 20
    tls: ssl.SSLContext | None = None
    """What to trust; the system's authorities if there is none."""
