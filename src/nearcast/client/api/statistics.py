"""Statistics of a client."""

from msgspec import Struct


class Statistics(Struct, frozen=True):
    """Contents of a client's state machine."""

    waiting: int
    in_flight: int
    held_bytes: int
    unsent_bytes: int
    subscriptions: int
    unreleased: int
    """Received messages of QoS 2 whose PUBREL has not come."""


class ConnectionStatistics(Struct, frozen=True):
    """Sizes of the outgoing and the incoming queue."""

    sending: Statistics
    unread: int
    unread_bytes: int
    connections: int
    """How often the client was connected."""


class NodeStatistics(Struct, frozen=True):
    """Queue sizes and message counts of a node."""

    sending: Statistics
    unread: int
    unread_bytes: int
    received: int
    """Messages received."""
    repeats: int
    """Those of them that the broker sent again and that were already received."""
    connections: int
    """How often the node was connected."""
