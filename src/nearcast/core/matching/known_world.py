"""The known world: the reference evaluator's view of the matcher's tables."""

import math
from collections.abc import Mapping

from msgspec.structs import replace

from nearcast.core.language import Filter
from nearcast.core.language.evaluation.scope import Value
from nearcast.core.matching.counted import CountedEvents, count_held
from nearcast.core.matching.live import Bound
from nearcast.core.matching.nodes import Nodes
from nearcast.core.matching.reference import (
    EventScope,
    area_for,
    asks_only_the_event,
    would_reach,
)
from nearcast.core.matching.sight import Sight
from nearcast.core.matching.tables import LAT, LAT_BEFORE, NONE
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.geometry.shapes import encode
from nearcast.core.model.subject import subject_matches
from nearcast.core.model.visibility import SEE_ALL


class KnownWorld:
    """Positions and contexts of nodes, places, recent events, and visibility."""

    def __init__(self, nodes: Nodes, sight: Sight, places: Places) -> None:
        self._nodes = nodes
        self._sight = sight
        self.places = places
        self.recent = CountedEvents(_not_aimed, self._judge)
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

    def count_earlier(
        self, scope: EventScope, subject: str, where: Filter | None, within: Circle | None
    ) -> int:
        """The number of events that `earlier` returns, mostly without looking at each."""
        if where is not None and not asks_only_the_event(where.root):
            return len(self.earlier(scope, subject, where, within))
        question = self.recent.answer(subject, where)
        countable = scope.countable
        if countable is not None or (within is not None and self._sight.restricted):
            # Which of them may be seen, and where they are said to be, depends on who asks.
            events = map(self.recent.event, question.numbers.tolist())
            return sum(self._counts(each, scope, within) for each in events)
        # All that are for everyone, and of the others those that are for this one.
        code = None if within is None else encode(within)
        found = len(question) if code is None else count_held(code, question.positions)
        special = set(question.special)
        own = {each for each in self.recent.numbers_of(scope.event) if question.has(each)}
        for number in special | own:
            event = self.recent.event(number)
            found -= within is None or (
                event.position is not None and holds(within, event.position)
            )
            found += number in special and self._counts(event, scope, within)
        return found

    def _counts(self, other: Event, scope: EventScope, within: Circle | None) -> bool:
        """Whether an earlier event counts for a subscriber, if its filter holds."""
        event, countable = scope.event, scope.countable
        if (other.id, other.publisher) == (event.id, event.publisher):
            return False
        if countable is not None and not countable.permits(other.subject):
            return False
        if not would_reach(other, scope.me, self):
            return False
        if within is None:
            return True
        if not other.at_given and self._sight.conceals(other.publisher, other.position):
            return False
        at = EventScope(other, scope.me, self).event_position()
        return at is not None and holds(within, at)

    def _judge(self, event: Event, where: Filter) -> bool:
        """Whether a filter that looks at the event alone holds."""
        return where.evaluate_in(EventScope(event, "", self, SEE_ALL)) is True

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
