"""What the priority of a queued event is computed from, whenever it is computed again."""

from msgspec import Struct

from nearcast.core.adaptation.subscriber_priorities import JudgedSubscription


class PriorityBasis(Struct, frozen=True, gc=False):
    """The subscriptions that an event matched, and what its publisher said.

    Only for copies that no subscription without relevance matched: those have priority 1.
    """

    judged: tuple[JudgedSubscription, ...]
    said: int | None = None
    raises: bool = False
