"""How much a client holds, and where."""

from msgspec import Struct


class Statistics(Struct, frozen=True):
    """How much a client's state machine holds."""

    waiting: int
    in_flight: int
    held_bytes: int
    unsent_bytes: int
    subscriptions: int
    unreleased: int
    """Received messages of QoS 2 whose PUBREL has not come."""


class ConnectionStatistics(Struct, frozen=True):
    """How much waits, on the way out and for a reader."""

    sending: Statistics
    unread: int
    unread_bytes: int
    connections: int
    """How often the server let the client in."""


class NodeStatistics(Struct, frozen=True):
    """How much of a node's traffic waits, and how much there was."""

    sending: Statistics
    unread: int
    unread_bytes: int
    received: int
    """Messages that have come."""
    repeats: int
    """Of these, the ones that the broker sent again and that were here before."""
    connections: int
    """How often the broker let the node in."""
