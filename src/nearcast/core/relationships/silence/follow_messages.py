"""What a node that follows its regions and its broker tell each other.

A report has what the node says for all its pairs at once; orders have all that the node must know.
Both name a run: from the beginning of following, or a new connection, to its end. What belongs to
another run is out of date, and is ignored.
"""

from msgspec import Struct

from nearcast.core.relationships.silence.pair_message import PairMessage


class WatchedPair(Struct, frozen=True, gc=False):
    """A pair in which a node keeps silent."""

    number: int
    """Names the pair in messages of this run."""
    peer: str
    within_m: float
    strategy: str
    incarnation: int
    """The number of this start of the node, as a member of the pair."""


class FollowOrders(Struct, frozen=True, omit_defaults=True):
    """From the broker: in which pairs a node keeps silent, and what their peers say."""

    run: int
    """0: regions are not followed (any more)."""
    time: float = 0.0
    """By the broker's clock."""
    all: bool = False
    """Every fix must be reported."""
    pairs: tuple[WatchedPair, ...] | None = None
    """All pairs; None: as before."""
    messages: tuple[tuple[int, PairMessage], ...] = ()
    """By the numbers of pairs."""
    why: str = ""
    """Why regions are not followed."""


class FollowReport(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """From a node: where it is, and what it says to the peers of pairs."""

    run: int
    position: tuple[float, float] | None = None
    """Longitude and latitude."""
    messages: tuple[tuple[int, PairMessage], ...] = ()
    end: bool = False
    """It follows no more."""
