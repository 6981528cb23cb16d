"""Where a member of a relationship keeps silent, as the log records it for explanations."""

from msgspec import Struct


class RegionRecord(Struct, frozen=True, gc=False):
    """A region of a member, while one of its peers stays in its own."""

    node: str
    peer: str
    told_by: str
    """The member whose report led to it."""
    region: str
    """In words: `circle:LAT,LON,METRES`, or what the region has in place of a circle."""
    margin_m: float
    """How far inside the member reported to be; of one that has not answered, was last known."""
