"""What a tick of the hub leaves to its host: what to keep, and then what to write to whom."""

from msgspec import Struct

from nearcast.broker.auth import CredentialCheck
from nearcast.broker.durability.journal import Entries
from nearcast.broker.net.connection import Connection


class Write(Struct, frozen=True, gc=False):
    """Bytes for a connection, and whether they are its last."""

    connection: Connection
    data: bytes
    acknowledgements: int = 0
    closes: bool = False


class Batch(Struct):
    """What a tick decided: first keep `entries`, then do the `writes`."""

    entries: Entries
    writes: list[Write]
    slow: list[tuple[Connection, CredentialCheck]] = []
    """Clients whose passwords are to be checked elsewhere; `admit` takes the answer."""
