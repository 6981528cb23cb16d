"""Grouping: the group of an event under a rule, and the position of the group.

A group is named by what its parts share: a subject, a place or a cell. For a place or a cell, its
centre represents the positions of its parts.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.core.gathering.cells import cell_of
from nearcast.core.gathering.needs.rules import GatheringRule
from nearcast.core.model.geometry.position import Position

if TYPE_CHECKING:
    # Not imported: a client checks rules without numpy.
    from nearcast.core.model.geometry.places import Place, Places

SUBJECT, PLACE, CELL = "subject", "place", "cell"
NOWHERE = "aggregates"
"""The subject of aggregates of a rule that matches every subject and does not group by subject."""


class GroupKey(Struct, frozen=True, gc=False):
    """A group of a rule: its name, and its centre if it has one."""

    name: str
    middle: Position | None = None


class PlaceMiddles:
    """A point inside each place, cached."""

    def __init__(self, places: "Places") -> None:
        self.places = places
        self._middles: dict[tuple[str, str, str | None], Position] = {}

    def middle(self, place: "Place") -> Position:
        """Return a position inside a place."""
        found = self._middles.get(place.key)
        if found is None:
            from nearcast.core.model.geometry.places import inner_point

            found = self._middles[place.key] = inner_point(place.geometry)
        return found


def group_of(
    rule: GatheringRule, subject: str, lat: float | None, lon: float | None, known: PlaceMiddles
) -> GroupKey | None:
    """Return the group of an event; None if the rule needs a position or place it lacks."""
    per = rule.per
    if per.kind == SUBJECT:
        return GroupKey(f"{SUBJECT}:{subject}")
    if lat is None or lon is None:
        return None
    if per.kind == CELL:
        cell = cell_of(lat, lon, per.size_m)
        return GroupKey(f"{CELL}:{cell.label}", cell.centre)
    at = Position(lat, lon)
    if per.place_kind is None:
        place = next(iter(known.places.containing(at)), None)
    else:
        place = known.places.here(per.place_kind, at)
    if place is None:
        return None
    return GroupKey(f"{PLACE}:{place.label}", known.middle(place))


def subject_of(pattern: str, group: str) -> str:
    """Return the subject of a group's aggregates: its own, or the pattern's literal prefix."""
    kind, _, name = group.partition(":")
    if kind == SUBJECT:
        return name
    levels = []
    for level in pattern.split("/"):
        if level in ("+", "#"):
            break
        levels.append(level)
    return "/".join(levels) or NOWHERE
