"""Watched areas: who comes in and who goes out.

A node that is first seen inside is there from the beginning, and nothing is said. It is in as
soon as a fix lies inside and the filter is true of it; out when that is not so any more, or when
all within `MARGIN_M` of a fix lies outside, so that nobody flaps at the edge. A node whose position
is unknown has neither come nor left: what is said next is what became of what was known last. Cost
is that of the areas near a move, not of all; an area that moves with a node, or is a place that is
defined anew, is compared with everyone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.outcome import AreaNotice, EngineStep
from nearcast.core.engine.queries.node_filter import is_true_of
from nearcast.core.language import Filter
from nearcast.core.matching.live import LiveEvents
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
    """Stands for the area: its target, and who defined it."""
    where: Filter | None
    number: int
    """How many were watched before."""
    inside: set[str] = set()


class AreaWatch(EngineDependent):
    """All watched areas by name."""

    def __init__(
        self,
        matcher: Matcher,
        attributes_of: Callable[[str], dict[str, object]],
        everyone: Mapping[str, object],
    ) -> None:
        """Take what nodes have as attributes, and all nodes that there are."""
        self._matcher = matcher
        self._everyone = everyone
        self._attributes_of = attributes_of
        self._areas = LiveEvents(matcher.world.bound_of_target)
        self._watches: dict[str, _Watch] = {}
        self._inside: dict[str, set[str]] = {}
        """The areas that each node is in."""
        self._anchored: dict[str, set[str]] = {}
        self._count = 0
        self._lost: dict[str, int] = {}
        """Nodes that were seen, and are not any more: how many had been watched by then."""

    def __len__(self) -> int:
        return len(self._watches)

    def put(self, name: str, node: str, area: Area, where: Filter | None) -> None:
        """Watch an area for a node; who is inside now was always there."""
        self.remove(name)
        self._count += 1
        watch = _Watch(Event(name, name, node, 0.0, to=area), where, self._count)
        self._watches[name] = watch
        self._areas.put(name, watch.event)
        if (anchor := _anchor(watch.event)) is not None:
            self._anchored.setdefault(anchor, set()).add(name)
        for other in self._everyone:
            if self._is_in(watch, other):
                self._enter(watch, other)

    def watched(self) -> Iterator[AreaWatched]:
        """All that is watched."""
        for name, watch in self._watches.items():
            area = watch.event.to
            assert area is not None
            yield AreaWatched(name, watch.event.publisher, area, watch.where)

    def remove(self, name: str) -> None:
        """Watch an area no longer."""
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
        """Whether nobody watches an area."""
        return not self._watches

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        """Tell who came in and who went out."""
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
        """When it is seen again, it is as at first."""
        self._lost.pop(node, None)
        for name in self._inside.pop(node, ()):
            self._watches[name].inside.discard(node)

    def places_changed(self, reclassed: Sequence[str], step: EngineStep) -> None:
        """Tell for whom an area begins to hold, or ceases to."""
        self.refresh()
        for watch in self._watches.values():
            if isinstance(watch.event.to, PlaceArea | PlaceHere):
                for node in self._everyone:
                    step.outcome.notices += self._look(watch, node, False, step.now)

    def sight_changed(self, viewer: str, other: str, step: EngineStep) -> None:
        """Look again where areas lie that move with nodes."""
        self.refresh()

    def rules_changed(self, step: EngineStep) -> None:
        """Look again where areas lie that move with nodes."""
        self.refresh()

    def _moved(self, node: str, first: bool, now: float) -> list[AreaNotice]:
        """A node has a new fix, its first in a while or not; what that changes."""
        known = self._lost.pop(node, 0) if first else self._count
        if not self._watches:
            return []
        found: list[AreaNotice] = []
        for name in sorted(self._anchored.get(node, ())):
            self._areas.aim_again(name)
            for other in self._everyone:
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
        """The context of a node is another one; what that changes."""
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
        """Nobody knows where a node is."""
        if self._watches:
            self._lost[node] = self._count

    def refresh(self) -> None:
        """Places have changed, or who may see round whom an area lies."""
        for name, watch in self._watches.items():
            if isinstance(watch.event.to, Around | PlaceArea | PlaceHere):
                self._areas.aim_again(name)

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
        """Whether the filter of a watch is true of a node, as far as its definer may see."""
        definer, world = watch.event.publisher, self._matcher.world
        sees, name = world.may_see(definer, node), watch.event.id
        return is_true_of(watch.where, node, at, definer, sees, world, self._attributes_of, name)


def _anchor(event: Event) -> str | None:
    if isinstance(event.to, Around):
        return event.publisher if event.to.anchor == ME else event.to.anchor
    return event.publisher if isinstance(event.to, PlaceHere) else None
