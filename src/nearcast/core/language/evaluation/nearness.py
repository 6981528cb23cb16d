"""Nearcast's own functions of place: ``distance``, ``approaching`` and ``count``.

A position that is missing, or that the subscriber may not see, makes them unknown. The forms
that only seed C's XML can express are here too: a node by its name (``node``), the nearest
earlier event (``earlier``), and a count round someone else than the subscriber.
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

    Who has one fix only stands still; where neither has two, nobody knows.
    """
    here, there = scope.position("me"), place_of(node.args[0], scope)
    now = metres_between(here, there)
    mine, its = scope.previous_position("me"), previous_place_of(node.args[0], scope)
    then = metres_between(mine or here, its or there)
    if now is None or then is None or mine is its is None:
        return None
    return now < then


def counted(node: Operation, scope: Scope) -> Value:
    """Evaluate ``count``: earlier events that match, near someone or anywhere."""
    subject = node.args[0]
    assert isinstance(subject, str)
    metres = node.args[2] if len(node.args) > 2 else None
    radius = float(metres) if isinstance(metres, int | float) else None
    chosen = selection(node.args[1])
    if len(node.args) == 4:
        return scope.count(subject, chosen, radius, who_is(node.args[3]) or "me")
    return scope.count(subject, chosen, radius)


def place_of(node: Node, scope: Scope) -> LatLon | None:
    """Return where an argument is."""
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
    """Return where an argument was; points, events and attributes have no previous place."""
    who = who_is(node)
    return scope.previous_position(who) if who and who != "event" else None


def located(node: Property, scope: Scope) -> LatLon | None:
    """Return the position that ``me.position`` and its like stand for."""
    who = who_is(node)
    return scope.position(who) if who and node.name != who else None


def who_is(node: Node) -> str | None:
    """Return who an argument names, bare or through the position, or None."""
    if isinstance(node, Property):
        who = node.name.removesuffix(".position")
        return who if who in WHO else None
    if isinstance(node, Operation) and node.op == "node":
        return f"node.{node.args[0]}"
    return None


def metres_between(here: LatLon | None, there: LatLon | None) -> float | None:
    """Return the distance, if both ends are known."""
    return None if here is None or there is None else float(distance_m(*here, *there))


def is_earlier(node: Node) -> bool:
    """Return whether an argument means the nearest of the earlier events."""
    return isinstance(node, Operation) and node.op == "earlier"


def selection(text: Node) -> "Filter | None":
    """Return the filter that a text inside a function spells."""
    assert isinstance(text, str)
    return read_selection(text)


@lru_cache(maxsize=4096)
def read_selection(text: str) -> "Filter | None":
    """Read such a text once; it was checked when the filter round it was read."""
    # Filter evaluates itself with this module, so it can only be had once both are loaded.
    from nearcast.core.language.filter import Filter

    root = parse_counted(text)
    return None if root is None else Filter(root)
