"""The known world: the reference evaluator's view of the matcher's tables."""

import math
from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from nearcast.core.language import Filter
from nearcast.core.language.evaluation.scope import Value
from nearcast.core.matching.counting.counted_columns import count_sure
from nearcast.core.matching.counting.counted_events import CountedEvents
from nearcast.core.matching.live.live_events import Bound
from nearcast.core.matching.nodes import Nodes
from nearcast.core.matching.reference import (
    EventScope,
    area_for,
    asks_only_the_event,
    would_reach,
)
from nearcast.core.matching.sight import Sight
from nearcast.core.matching.tables import F64, LAT, LAT_BEFORE, NONE
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.geometry.shapes import encode
from nearcast.core.model.subject import subject_matches
from nearcast.core.model.visibility import SEE_ALL, SEE_POSITION


class KnownWorld:
    """Positions and contexts of nodes, places, recent events, and visibility."""

    def __init__(self, nodes: Nodes, sight: Sight, places: Places) -> None:
        self._nodes = nodes
        self._sight = sight
        self.places = places
        self.recent = CountedEvents(_not_aimed, self._judge)
        """Events of the last minutes, for filters that count."""
        self.counted_singly = 0
        """The number of events looked at one by one so far to count them."""

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
        self,
        scope: EventScope,
        subject: str,
        where: Filter | None,
        within: Circle | None,
        most: int | None = None,
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
        found: list[Event] = []
        for other in candidates:
            if len(found) == most:
                break
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
        self,
        scope: EventScope,
        subject: str,
        where: Filter | None,
        within: Circle | None,
        most: int | None = None,
    ) -> int:
        """The number of events that `earlier` returns, mostly without looking at each."""
        if where is not None and not asks_only_the_event(where.root):
            return len(self.earlier(scope, subject, where, within, most))
        recent, question = self.recent, self.recent.answer(subject, where)
        numbers, area, found = question.numbers, _ANYWHERE, 0
        own = recent.numbers_of(scope.event)
        if within is None and scope.countable is None:
            # All that are for everyone, and of the others those that are for this one.
            numbers, found = question.special, question.count_usual(own)
        elif within is not None:
            area = encode(within)
            numbers = recent.numbers_near(question, bounding_circle(within))
        here = self.position(scope.me)
        unsure = np.empty(len(numbers), np.int64)
        sure, left = count_sure(
            numbers,
            recent.columns.base,
            recent.columns.arrays,
            own,
            recent.columns.permitted(scope.countable, numbers),
            area,
            _NOWHERE if here is None else np.array([here.lat, here.lon]),
            within is not None and self._sight.restricted,
            len(numbers) if most is None else max(0, most - found),
            unsure,
        )
        found += sure
        for number in unsure[:left].tolist():
            if most is not None and found >= most:
                break
            self.counted_singly += 1
            found += self._counts(recent.event(number), scope, within is not None)
        return found

    def _counts(self, other: Event, scope: EventScope, within: bool) -> bool:
        """Whether an earlier event counts, if all holds that its columns tell."""
        if not would_reach(other, scope.me, self):
            return False
        if not within or other.at_given:
            return True
        publisher = other.publisher
        if publisher and not self.may_see(scope.me, publisher) & SEE_POSITION:
            return False
        return not self._sight.conceals(other.publisher, other.position)

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


_ANYWHERE: F64 = np.zeros(0)
_NOWHERE: F64 = np.full(2, np.nan)
