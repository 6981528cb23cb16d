"""What follows from one call of a node, and the counts of what it did and refused."""

from msgspec import Struct

from nearcast.core.model.inputs import Input
from nearcast.core.proximity.dissemination.send_queue import Send


class ProximityStep(Struct):
    """What follows from one call."""

    sends: list[Send] = []
    joins: list[int] = []
    """Groups to listen to from now on."""
    leaves: list[int] = []
    inputs: list[Input] = []
    """What the engine of this node is told, in order."""


class ProximityCounts(Struct):
    """What a node did and refused."""

    beacons_sent: int = 0
    beacons_forwarded: int = 0
    events_raised: int = 0
    events_sent: int = 0
    events_forwarded: int = 0
    delivered: int = 0
    """Events given to the engine."""
    duplicates: int = 0
    collisions: int = 0
    """Events of another type or proximity in a group of this node."""
    mistyped: int = 0
    outdated: int = 0
    outside: int = 0
    """Events that arrived while this node was outside their proximity."""
    conflicts: int = 0
    """Beacons that gave a known subject another structure."""
    malformed: int = 0
    over_share: int = 0
    """Events and beacons of others beyond their share of the channel."""
    replayed: int = 0
    """What was told or asked before, and was sent again."""
    told: int = 0
    """Times that it told what it holds."""
    asked: int = 0
    """Times that it asked for what it lacked."""
    recovered: int = 0
    """Events that it sent again."""
    expired: int = 0
    """Proximities that fell silent."""


class ProximityKept(Struct, frozen=True):
    """How much a node keeps, each within a bound of its settings, and what went over it."""

    proximities: int
    evicted: int
    """Proximities that gave way to others."""
    overheard: int
    """Beacons of proximities that it is not in."""
    seen: int
    """Events that are remembered, so that none is taken twice."""
    late: int
    """Events of a promised order that came after a later one, and were discarded."""
    held: int
    """Events kept for others."""
    held_bytes: int
    anticipated: int
    """Times that a neighbour was seen leaving, and was told at once what is held."""
    waiting: int
    """Messages that wait for their time or the channel."""
    overdue: int
    """Messages that waited too long, and were not sent."""
    dropped: int
    """Messages for which the queue had no room."""
