"""The doors of the broker: who may come in, as which node, and what they may do there."""

from nearcast.broker.doors.entrance import Doors, DoorsStatistics
from nearcast.broker.doors.errors import BrokenFilesError, DoorsError
from nearcast.broker.doors.names import node_of
from nearcast.broker.doors.rights import Rights
from nearcast.broker.doors.visitors import Admitted, Check, Identity, Listed, Peer, Refused

__all__ = [
    "Admitted",
    "BrokenFilesError",
    "Check",
    "Doors",
    "DoorsError",
    "DoorsStatistics",
    "Identity",
    "Listed",
    "Peer",
    "Refused",
    "Rights",
    "node_of",
]
