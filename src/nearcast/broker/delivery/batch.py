"""The result of a tick for its host: entries to store, then data to write to connections."""

from msgspec import Struct

from nearcast.broker.auth import CredentialCheck
from nearcast.broker.durability.journal import Entries
from nearcast.broker.net.connection import Connection
from nearcast.core.propagation.link_pace import LinkPace


class Write(Struct, frozen=True, gc=False):
    """Bytes for a connection, and whether the connection closes after them."""

    connection: Connection
    data: bytes
    acknowledgements: int = 0
    closes: bool = False
    pace: LinkPace | None = None
    """How its link is paced; `Hub.written` must be told when it is written."""


class Batch(Struct):
    """The result of a tick: first store `entries`, then do the `writes`."""

    entries: Entries
    writes: list[Write]
    slow: list[tuple[Connection, CredentialCheck]] = []
    """Connections whose credentials must be checked elsewhere; `admit` takes the result."""
    served: list[Connection] = []
    """Connections whose input no longer waits for its turn: they can be read again."""
