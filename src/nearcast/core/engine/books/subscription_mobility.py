"""Whether the conditions of a subscription move: with its own node, with another, or not."""

from nearcast.core.matching.reference import asks_only_the_event
from nearcast.core.model.event import Subscription
from nearcast.core.model.geometry.area import ME, Around, PlaceHere


def is_still(subscription: Subscription) -> bool:
    """True if its conditions do not depend on the position or state of its node."""
    if isinstance(subscription.from_, Around | PlaceHere):
        return False
    return subscription.where is None or asks_only_the_event(subscription.where.root)


def anchors_of(subscription: Subscription) -> set[str]:
    """The other nodes whose moves change what a subscription matches.

    With one its area moves; filters from XML may name others.
    """
    area, where = subscription.from_, subscription.where
    found = {area.anchor} if isinstance(area, Around) else set()
    if where is not None and where.two_valued:
        found |= where.named_nodes
    return found - {ME, subscription.node}
