"""Whether the conditions of a subscription move: with its own node, with another, or not."""

from nearcast.core.matching.reference import asks_only_the_event
from nearcast.core.model.event import Subscription
from nearcast.core.model.geometry.area import ME, Around, PlaceHere


def is_still(subscription: Subscription) -> bool:
    """True if its conditions do not depend on the position or state of its node."""
    if isinstance(subscription.from_, Around | PlaceHere):
        return False
    return subscription.where is None or asks_only_the_event(subscription.where.root)


def anchor_of(subscription: Subscription) -> str | None:
    """The other node with which a subscription's area moves, None if there is none."""
    area = subscription.from_
    if isinstance(area, Around) and area.anchor not in (ME, subscription.node):
        return area.anchor
    return None
