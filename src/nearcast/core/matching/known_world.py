"""The known world: the reference evaluator's view of the matcher's tables."""

import math
from collections.abc import Mapping

from msgspec.structs import replace

from nearcast.core.language import Filter
from nearcast.core.language.evaluation.scope import Value
from nearcast.core.matching.live import Bound, LiveEvents
from nearcast.core.matching.nodes import Nodes
from nearcast.core.matching.reference import EventScope, area_for, would_reach
from nearcast.core.matching.sight import Sight
from nearcast.core.matching.tables import LAT, LAT_BEFORE, NONE
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.subject import subject_matches


class KnownWorld:
    """Positions and contexts of nodes, places, recent events, and visibility."""

    def __init__(self, nodes: Nodes, sight: Sight, places: Places) -> None:
        self._nodes = nodes
        self._sight = sight
        self.places = places
        self.recent = LiveEvents(_not_aimed)
        """Events of the last minutes, for filters that count."""

    def position(self, node: str) -> Position | None:
        """The position of a node, None if unknown."""
        row = self._nodes.find(node)
        if row == NONE or math.isnan(self._nodes.arrays.at[row, LAT]):
            return None
        lat, lon = self._nodes.arrays.at[row, :2].tolist()
        return Position(lat, lon)

    def previous_position(self, node: str) -> Position | None:
        """The position of a node at its previous fix."""
        row = self._nodes.find(node)
        if row == NONE or math.isnan(self._nodes.arrays.at[row, LAT_BEFORE]):
            return None
        lat, lon = self._nodes.arrays.at[row, 2:].tolist()
        return Position(lat, lon)

    def attributes(self, node: str) -> Mapping[str, Value]:
        """The context of a node."""
        row = self._nodes.find(node)
        return self._sight.granted(node) if row == NONE else self._nodes.attributes(row)

    def may_see(self, viewer: str, other: str) -> int:
        """The visibility mask of a node for a viewer."""
        return self._sight.may_see(viewer, other)

    def earlier(
        self, scope: EventScope, subject: str, where: Filter | None, within: Circle | None
    ) -> list[Event]:
        """Recent events, except the one being decided, that the subscriber would have received.

        By its current rights and position, and by where a target was when the event arrived.
        """
        me, countable, event = scope.me, scope.countable, scope.event
        if within is None:
            candidates = self.recent.about(subject) + self.recent.about(subject, targeted=True)
        else:
            candidates = self.recent.near(bounding_circle(within))
        readable: dict[str, bool] = {}
        found = []
        for other in candidates:
            name = other.subject
            if name not in readable:
                permitted = countable is None or countable.permits(name)
                readable[name] = permitted and subject_matches(subject, name)
            if not readable[name] or (other.id, other.publisher) == (event.id, event.publisher):
                continue
            if not would_reach(other, me, self):
                continue
            if not other.at_given and self._sight.conceals(other.publisher, other.position):
                other = replace(other, position=None)
            scope = EventScope(other, me, self)
            at = scope.event_position()
            if within is not None and (at is None or not holds(within, at)):
                continue
            if where is None or where.evaluate_in(scope) is True:
                found.append(other)
        return found

    def bound_of_target(self, event: Event) -> Bound | None:
        """A circle containing an event's target, None if the target contains no node now."""
        assert event.to is not None
        meant = area_for(event.to, event.publisher, self)
        if meant is None:
            return None
        if isinstance(meant, Anchored):
            _, _, reach_m = bounding_circle(meant.shape)
            return meant.anchor.lat, meant.anchor.lon, reach_m
        return bounding_circle(meant)


def _not_aimed(event: Event) -> Bound | None:
    """Recent events are never looked up by target."""
    return None
