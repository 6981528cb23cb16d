"""What a subscription lacks to match anything: a position, a node, a place.

An unknown node, a node hidden from the subscriber and a node without position all give the same
text: different texts would reveal which nodes exist.
"""

from nearcast.core.language.evaluation.possible_truth import can_hold
from nearcast.core.matching.reference import WorldView, area_for
from nearcast.core.model.errors import PlaceError
from nearcast.core.model.event import Subscription
from nearcast.core.model.geometry.area import ME, Area, Around, PlaceArea, PlaceHere
from nearcast.core.model.geometry.position import shown

NO_POSITION = "me has no position yet"
ADVICE = "publish $me/position"


def needed_nodes(subscription: Subscription) -> tuple[str, ...]:
    """Return the nodes without whose position a subscription can match nothing."""
    needed: list[str] = []
    area = subscription.from_
    if _is_round_me(area, subscription.node) or not _matches_without_me(subscription):
        needed.append(subscription.node)
    if isinstance(area, Around) and not _is_round_me(area, subscription.node):
        needed.append(area.anchor)
    return tuple(needed)


def needs_place(subscription: Subscription) -> bool:
    """Whether a subscription can match nothing without a named place."""
    return isinstance(subscription.from_, PlaceArea)


def unmet_needs(subscription: Subscription, world: WorldView) -> list[str]:
    """Return why a subscription can match nothing now, as text for its owner."""
    me, area = subscription.node, subscription.from_
    found: list[str] = []
    if area is not None and (why := unmet_area(area, me, world)) is not None:
        found.append(f"{why}: nothing can match `from`")
    if not found or not _is_round_me(area, me):
        lost = world.position(me) is None
        if lost and not _matches_without_me(subscription):
            found.append(f"{NO_POSITION}: nothing can match `where`")
    return [f"{why}; {ADVICE}" if why.startswith(NO_POSITION) else why for why in found]


def unmet_area(area: Area, me: str, world: WorldView) -> str | None:
    """Return what an area lacks to contain any node, None if nothing."""
    if _is_round_me(area, me):
        return NO_POSITION if world.position(me) is None else None
    if isinstance(area, Around):
        if area_for(area, me, world) is None:
            return f"{shown(area.anchor)} has no position that you may see"
    elif isinstance(area, PlaceArea):
        try:
            world.places.find(area.name, area.kind)
        except PlaceError as error:
            return str(error)
    return None


def _is_round_me(area: Area | None, me: str) -> bool:
    if isinstance(area, Around):
        return area.anchor in (ME, me)
    return isinstance(area, PlaceHere)


def _matches_without_me(subscription: Subscription) -> bool:
    where = subscription.where
    return where is None or can_hold(where.root, _is_my_position, where.two_valued)


def _is_my_position(name: str) -> bool:
    return name == "me" or name == "me.position" or name.startswith("me.position.")
