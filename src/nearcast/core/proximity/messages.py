"""What nodes without a broker tell each other: values, encoded by `nearcast.wire.beacons`.

Positions are (lat, lon) in degrees, times seconds since 1970. Numbers of beacons, of events and of
what is told and asked count up from 1 in each run of a node, which its incarnation names.
"""

from msgspec import Struct

from nearcast.core.proximity.discovery.event_type import EventType

LatLon = tuple[float, float]


class Beacon(Struct, frozen=True, array_like=True, tag_field="kind", tag=1):
    """A producer's announcement: this type of events is raised in this proximity.

    With `sought` it is a consumer's: it wants events of this subject raised in this proximity.
    """

    producer: str
    incarnation: int
    number: int
    time: float
    type: EventType
    area: str
    initial: LatLon
    """The naval when it was announced."""
    naval: LatLon
    """The naval now."""
    scale: float
    grow_s: float
    period_s: float
    """The next beacon follows within this time."""
    hops: bool
    """Nodes in the proximity pass it on, once each."""
    sought: bool = False
    ended: bool = False
    """It is no longer announced."""
    signature: bytes = b""
    """Of all the rest, by the producer; empty where the members do not sign."""


class EventMessage(Struct, frozen=True, array_like=True, tag_field="kind", tag=2):
    """An event, on its way in a proximity group."""

    group: int
    producer: str
    incarnation: int
    number: int
    """Of all events of the producer."""
    sequence: int
    """Of the producer's events of this subject."""
    subject: str
    time: float
    naval: LatLon
    scale: float
    hops: bool
    """Members pass it on, once each."""
    payload: bytes
    """The attributes, as JSON."""
    at: LatLon | None = None
    """Where it happened, if that is not where the producer was."""
    publisher: str = ""
    """The node that published it, if the producer passed it on from a broker."""
    event_id: str = ""
    """The id under which that node published it."""
    beacon: Beacon | None = None
    """A beacon of its proximity, for those who may not hear the producer's: in the groups of
    consumers, and where an event is sent again."""
    signature: bytes = b""
    """Of what the producer said: all but the group, `hops` and the beacon, which members set."""


class Holdings(Struct, frozen=True, array_like=True, tag_field="kind", tag=3):
    """What a member holds and can send again: events that are still true."""

    sender: str
    incarnation: int
    number: int
    time: float
    at: LatLon
    events: tuple[tuple[str, str, int, tuple[int, ...]], ...]
    """Subject, producer, its incarnation, and the numbers of its events."""
    parting: bool = False
    """It expects to be out of somebody's range soon: tell what you hold now."""
    signature: bytes = b""


class Request(Struct, frozen=True, array_like=True, tag_field="kind", tag=4):
    """A wish for events that a member holds, and for the beacons of their producers."""

    sender: str
    incarnation: int
    number: int
    time: float
    holder: str
    events: tuple[tuple[str, str, int, tuple[int, ...]], ...]
    signature: bytes = b""


Message = Beacon | EventMessage | Holdings | Request
