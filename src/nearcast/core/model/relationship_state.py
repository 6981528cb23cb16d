"""The state of a relationship: near or apart, and since when."""

from msgspec import Struct


class RelationshipState(Struct, frozen=True, gc=False):
    """What is known of a relationship, or of one of its members if each has metres of its own."""

    near: bool
    since: float
    """The time from which on it is told; the latest change of what may be seen of a member."""
    veiled: bool = False
    """It was found out when other nodes might see the members: nobody is told until it is found
    out anew."""
