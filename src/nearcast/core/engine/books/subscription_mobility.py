"""What moves of what a subscription asks for: its own node, another, or nothing."""

from nearcast.core.matching.reference import asks_only_the_event
from nearcast.core.model.event import Subscription
from nearcast.core.model.geometry.area import ME, Around, PlaceHere


def is_still(subscription: Subscription) -> bool:
    """Whether what it asks for stays the same wherever its node is, and whatever it does."""
    if isinstance(subscription.from_, Around | PlaceHere):
        return False
    filters = (subscription.where, *subscription.levels)
    return all(each is None or asks_only_the_event(each.root) for each in filters)


def anchor_of(subscription: Subscription) -> str | None:
    """The other node with which a subscription's area moves."""
    area = subscription.from_
    if isinstance(area, Around) and area.anchor not in (ME, subscription.node):
        return area.anchor
    return None
