"""Divisions: what `per` divides the events of a subscription and topic into.

Events without a place, position or attribute form a division of their own. A division is named by
the members that its aggregates show.
"""

import msgspec
from msgspec import Struct

from nearcast.core.gathering.cells import cell_of
from nearcast.core.gathering.grouping import PlaceMiddles
from nearcast.core.gathering.needs.rules import Per
from nearcast.core.model.context import Value
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.payload import attributes_of


class Division(Struct, frozen=True, gc=False):
    """What the parts of an aggregate share."""

    members: str = "{}"
    """The members that its aggregates show, as JSON."""
    middle: Position | None = None
    """The middle of the place or the cell."""


WHOLE = Division()


def division_of(per: Per, event: Event, places: PlaceMiddles) -> Division:
    """Return the division of an event; `per` has no effect on base sets."""
    if event.persons:
        return WHOLE
    if per.kind == "attribute":
        value = _attribute(event, per.attribute)
        return _named("attribute", {per.attribute: value})
    if per.kind == "subject":
        return WHOLE
    at = event.position
    if at is None:
        return _named(per.kind, None)
    if per.kind == "cell":
        cell = cell_of(at.lat, at.lon, per.size_m)
        return _named("cell", cell.label, cell.centre)
    if per.place_kind is None:
        place = next(iter(places.places.containing(at)), None)
    else:
        place = places.places.here(per.place_kind, at)
    if place is None:
        return _named("place", None)
    return _named("place", place.label, places.middle(place))


def _named(name: str, value: object, middle: Position | None = None) -> Division:
    return Division(msgspec.json.encode({name: value}, order="sorted").decode(), middle)


def _attribute(event: Event, name: str) -> Value:
    found: Value = dict(event.attributes or attributes_of(event.payload))
    for member in name.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(member)
    # 1 and 1.0 are one value.
    return int(found) if isinstance(found, float) and found.is_integer() else found
