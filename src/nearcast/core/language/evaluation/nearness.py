"""Nearcast's own spatial functions: ``distance``, ``approaching`` and ``count``.

A position that is missing, or that the subscriber may not see, makes them unknown. The forms
that only seed C's XML can express are here too: a node by its name (``node``), the nearest
earlier event (``earlier``), and a count around a party other than the subscriber.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from nearcast.core.language.ast import Geometry, Node, Operation, Property
from nearcast.core.language.evaluation.scope import LatLon, Scope, Value, lat_lon
from nearcast.core.language.forms.parser import parse_counted
from nearcast.core.language.signatures import WHO
from nearcast.core.model.geometry.geodesy import distance_m

if TYPE_CHECKING:
    from nearcast.core.language.filter import Filter


def distance(node: Operation, scope: Scope) -> Value:
    """Evaluate ``distance``: metres along the ground."""
    first, second = node.args
    if is_earlier(first):
        first, second = second, first
    here = place_of(first, scope)
    if here is None:
        return None
    if is_earlier(second):
        assert isinstance(second, Operation)
        return scope.nearest(selection(second.args[0]), here)
    return metres_between(here, place_of(second, scope))


def approaching(node: Operation, scope: Scope) -> Value:
    """Evaluate ``approaching``: whether it is nearer to me than before the latest fix of either.

    A party with a single fix counts as stationary; if neither has two, the result is unknown.
    """
    here, there = scope.position("me"), place_of(node.args[0], scope)
    now = metres_between(here, there)
    mine, its = scope.previous_position("me"), previous_place_of(node.args[0], scope)
    then = metres_between(mine or here, its or there)
    if now is None or then is None or mine is its is None:
        return None
    return now < then


def counted(node: Operation, scope: Scope) -> Value:
    """Evaluate ``count``: the number of matching earlier events, near a party or anywhere."""
    return counted_up_to(node, scope, None)


def counted_up_to(node: Operation, scope: Scope, most: int | None) -> int | None:
    """Evaluate ``count`` where a number of at least `most` need not be exact."""
    subject = node.args[0]
    assert isinstance(subject, str)
    metres = node.args[2] if len(node.args) > 2 else None
    radius = float(metres) if isinstance(metres, int | float) else None
    chosen = selection(node.args[1])
    if len(node.args) == 4:
        return scope.count(subject, chosen, radius, who_is(node.args[3]) or "me", most)
    return scope.count(subject, chosen, radius, most=most)


def place_of(node: Node, scope: Scope) -> LatLon | None:
    """Return the position of an argument."""
    if isinstance(node, Geometry):
        lon, lat = node.coordinates[:2]
        assert isinstance(lon, float)
        assert isinstance(lat, float)
        return lat, lon
    who = who_is(node)
    if who:
        return scope.position(who)
    return lat_lon(scope.value(node.name)) if isinstance(node, Property) else None


def previous_place_of(node: Node, scope: Scope) -> LatLon | None:
    """Return the previous position of an argument; points, events and attributes have none."""
    who = who_is(node)
    return scope.previous_position(who) if who and who != "event" else None


def located(node: Property, scope: Scope) -> LatLon | None:
    """Return the position of me, publisher or event for ``me.position`` etc., else None."""
    who = who_is(node)
    return scope.position(who) if who and node.name != who else None


def who_is(node: Node) -> str | None:
    """Return the party of an argument, such as ``me`` or ``me.position``, or None."""
    if isinstance(node, Property):
        who = node.name.removesuffix(".position")
        return who if who in WHO else None
    if isinstance(node, Operation) and node.op == "node":
        return f"node.{node.args[0]}"
    return None


def metres_between(here: LatLon | None, there: LatLon | None) -> float | None:
    """Return the distance in metres, or None if a position is unknown."""
    return None if here is None or there is None else float(distance_m(*here, *there))


def is_earlier(node: Node) -> bool:
    """Return whether an argument is ``earlier``, the nearest earlier event."""
    return isinstance(node, Operation) and node.op == "earlier"


def selection(text: Node) -> "Filter | None":
    """Return the filter of a text argument; None if the text is empty."""
    assert isinstance(text, str)
    return read_selection(text)


@lru_cache(maxsize=4096)
def read_selection(text: str) -> "Filter | None":
    """Parse and cache the text; it was checked when the enclosing filter was parsed."""
    # Imported here, because `Filter` imports this module through the evaluator.
    from nearcast.core.language.filter import Filter

    root = parse_counted(text)
    return None if root is None else Filter(root)
