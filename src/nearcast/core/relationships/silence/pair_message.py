"""What the two members of a relationship say to each other.

Every message is whole: it can be lost, repeated or overtaken, and the next one says it all again.
"""

from typing import TypeAlias

from msgspec import Struct

from nearcast.core.relationships.silence.regions.region import Regions
from nearcast.core.relationships.silence.report import Report


class Crossing(Struct, frozen=True, tag="crossing", gc=False):
    """A member has left its region, or answers the peer: where it is, and which regions follow."""

    sender: str
    incarnation: int
    """Counts the starts of the sender."""
    number: int
    """Counts its reports since it started."""
    peer_incarnation: int
    peer_number: int
    """The last report of the peer that it knows, from which the regions are computed; 0: none."""
    report: Report
    regions: Regions | None
    """None from a member that does not know where its peer is."""
    slack: float
    """What the regions leave to the two members together; of two that cross, the smaller counts."""


class Ack(Struct, frozen=True, tag="ack", gc=False):
    """A crossing has arrived; it carries nothing else."""

    sender: str
    incarnation: int
    peer_incarnation: int
    peer_number: int
    adopted: bool
    """False if a crossing of the sender, which is under way, counts instead."""


PairMessage: TypeAlias = Crossing | Ack
