"""Watched areas: notices when nodes enter or leave.

A node first seen inside counts as inside from the start, without a notice. It enters when a fix is
inside and the filter is true of it; it leaves when the filter is no longer true, or when everything
within `MARGIN_M` of a fix is outside, so that it does not flap at the edge. A node without a
position neither enters nor leaves: the next notice compares its next position with its last known
state. Cost depends on the areas near a move, and on the nodes near an area that moves or is defined
anew, not on all of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.outcome import AreaNotice, EngineStep
from nearcast.core.engine.queries.node_filter import is_true_of
from nearcast.core.language import Filter
from nearcast.core.matching.live.live_events import LiveEvents, LiveObserver
from nearcast.core.matching.matcher import Matcher
from nearcast.core.matching.reference import area_for
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import ME, Area, Around, PlaceArea, PlaceHere
from nearcast.core.model.geometry.area_resolution import holds
from nearcast.core.model.geometry.margins import is_beyond
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import AreaWatched

MARGIN_M = 10.0


class _Watch(Struct):
    event: Event
    """Represents the area: its target, and its owner as publisher."""
    where: Filter | None
    number: int
    """Sequence number of the watch, from 1."""
    inside: set[str] = set()


class AreaWatch(EngineDependent):
    """All watched areas by name."""

    def __init__(
        self,
        matcher: Matcher,
        attributes_of: Callable[[str], dict[str, object]],
        everyone: Mapping[str, object],
    ) -> None:
        """Take the matcher, a function for node attributes, and the known nodes by name."""
        self._matcher = matcher
        self._everyone = everyone
        self._attributes_of = attributes_of
        self._areas = LiveEvents(matcher.world.bound_of_target)
        self._watches: dict[str, _Watch] = {}
        self._inside: dict[str, set[str]] = {}
        """Names of the areas that each node is in."""
        self._anchored: dict[str, set[str]] = {}
        self.looked_at = 0
        """The number of nodes compared so far with areas that moved or were defined."""
        self._count = 0
        self._lost: dict[str, int] = {}
        """Nodes whose position was lost, with the number of watches made by then."""

    def __len__(self) -> int:
        return len(self._watches)

    def observe(self, observer: LiveObserver) -> None:
        """Call an observer with every area that is put or removed: its owner is the publisher."""
        self._areas.observer = observer

    def put(self, name: str, node: str, area: Area, where: Filter | None) -> None:
        """Watch an area for a node; nodes inside now produce no notice."""
        self.remove(name)
        self._count += 1
        watch = _Watch(Event(name, name, node, 0.0, to=area), where, self._count)
        self._watches[name] = watch
        self._areas.put(name, watch.event)
        if (anchor := _anchor(watch.event)) is not None:
            self._anchored.setdefault(anchor, set()).add(name)
        for other in self._near(watch):
            if self._is_in(watch, other):
                self._enter(watch, other)

    def __iter__(self) -> Iterator[AreaWatched]:
        return map(_watched, self._watches.values())

    def get(self, name: str) -> AreaWatched | None:
        """The watched area of a name, if there is one."""
        watch = self._watches.get(name)
        return None if watch is None else _watched(watch)

    def remove(self, name: str) -> None:
        """Stop watching an area."""
        watch = self._watches.pop(name, None)
        if watch is None:
            return
        self._areas.remove(name)
        for node in watch.inside:
            self._inside[node].discard(name)
        if (anchor := _anchor(watch.event)) is not None:
            self._anchored[anchor].discard(name)

    @property
    def ignores_moves(self) -> bool:
        """True if no area is watched."""
        return not self._watches

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        """Report entries and exits that a change of a node causes."""
        node, notices = update.after.node, step.outcome.notices
        if update.after.position is None:
            if update.fixed:
                self._lose(node)
        elif update.fixed:
            notices += self._moved(node, update.before.position is None, step.now)
        if not update.fixed and update.after.attributes != update.before.attributes:
            notices += self._changed(node, step.now)
        if update.reclassed:
            self.refresh()

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Drop the state of a node; when seen again it counts as first seen."""
        self._lost.pop(node, None)
        for name in self._inside.pop(node, ()):
            self._watches[name].inside.discard(node)

    def node_expired(self, node: str, step: EngineStep) -> None:
        """Drop the state of a node likewise."""
        self.node_forgotten(node, step)

    def places_changed(self, reclassed: Sequence[str], step: EngineStep) -> None:
        """Re-index areas that depend on places, and report entries and exits."""
        self.refresh()
        for watch in self._watches.values():
            if isinstance(watch.event.to, PlaceArea | PlaceHere):
                for node in self._near(watch):
                    step.outcome.notices += self._look(watch, node, False, step.now)

    def sight_changed(self, viewer: str, other: str, step: EngineStep) -> None:
        """Re-index areas that move with nodes."""
        self.refresh()

    def rules_changed(self, step: EngineStep) -> None:
        """Re-index areas that move with nodes."""
        self.refresh()

    def _moved(self, node: str, first: bool, now: float) -> list[AreaNotice]:
        """Return notices for a new fix of a node; `first`: it had no position before."""
        known = self._lost.pop(node, 0) if first else self._count
        if not self._watches:
            return []
        found: list[AreaNotice] = []
        for name in sorted(self._anchored.get(node, ())):
            self._areas.aim_again((name,))
            for other in self._near(self._watches[name]):
                found += self._look(self._watches[name], other, False, now)
        at = self._matcher.world.position(node)
        if at is None:
            return found
        names = {event.id for event in self._areas.aimed_at(at.lat, at.lon)}
        for name in sorted(names | self._inside.get(node, set())):
            watch = self._watches[name]
            found += self._look(watch, node, watch.number > known, now)
        return found

    def _changed(self, node: str, now: float) -> list[AreaNotice]:
        """Return notices for changed attributes of a node."""
        at = self._matcher.world.position(node)
        if at is None or not self._watches:
            return []
        names = {event.id for event in self._areas.aimed_at(at.lat, at.lon)}
        watches = [self._watches[name] for name in sorted(names | self._inside.get(node, set()))]
        return [
            seen
            for watch in watches
            if watch.where is not None
            for seen in self._look(watch, node, False, now)
        ]

    def _lose(self, node: str) -> None:
        """Record that the position of a node became unknown."""
        if self._watches:
            self._lost[node] = self._count

    def refresh(self) -> None:
        """Re-index areas that depend on places or on the visibility of their anchor."""
        for name, watch in self._watches.items():
            if isinstance(watch.event.to, Around | PlaceArea | PlaceHere):
                self._areas.aim_again((name,))

    def _near(self, watch: _Watch) -> list[str]:
        """Return the nodes that may be in an area, or were, by name."""
        bound = self._matcher.world.bound_of_target(watch.event)
        near = () if bound is None else self._matcher.nodes_within(*bound)
        found = sorted(self._everyone if near is None else watch.inside.union(near))
        self.looked_at += len(found)
        return found

    def _look(self, watch: _Watch, node: str, first: bool, now: float) -> list[AreaNotice]:
        was_in = node in watch.inside
        if was_in and self._is_out(watch, node):
            watch.inside.discard(node)
            self._inside[node].discard(watch.event.id)
            return [AreaNotice(watch.event.id, node, False, now)]
        if not was_in and self._is_in(watch, node):
            self._enter(watch, node)
            return [] if first else [AreaNotice(watch.event.id, node, True, now)]
        return []

    def _enter(self, watch: _Watch, node: str) -> None:
        watch.inside.add(node)
        self._inside.setdefault(node, set()).add(watch.event.id)

    def _is_in(self, watch: _Watch, node: str) -> bool:
        world = self._matcher.world
        at = world.position(node)
        assert watch.event.to is not None
        meant = area_for(watch.event.to, watch.event.publisher, world)
        if at is None or meant is None or not holds(meant, at):
            return False
        return self._is_meant(watch, node, at)

    def _is_out(self, watch: _Watch, node: str) -> bool:
        world = self._matcher.world
        at = world.position(node)
        assert watch.event.to is not None
        meant = area_for(watch.event.to, watch.event.publisher, world)
        if at is None or meant is None:
            return False
        return is_beyond(meant, at, MARGIN_M) or not self._is_meant(watch, node, at)

    def _is_meant(self, watch: _Watch, node: str, at: Position) -> bool:
        """True if the filter of a watch holds for a node, given what the area's owner may see."""
        definer, world = watch.event.publisher, self._matcher.world
        sees, name = world.may_see(definer, node), watch.event.id
        return is_true_of(watch.where, node, at, definer, sees, world, self._attributes_of, name)


def _watched(watch: _Watch) -> AreaWatched:
    event = watch.event
    assert event.to is not None
    return AreaWatched(event.id, event.publisher, event.to, watch.where)


def _anchor(event: Event) -> str | None:
    if isinstance(event.to, Around):
        return event.publisher if event.to.anchor == ME else event.to.anchor
    return event.publisher if isinstance(event.to, PlaceHere) else None
