"""Node queries: nodes by area, by filter or by distance, limited to what a viewer may see.

Areas and distances are looked up in the index of the matcher. Work is bounded: a page checks at
most `LOOKED_AT_MOST` nodes, and names where the next page begins. Invisible nodes are treated as
absent.
"""

from collections.abc import Callable, Iterable
from heapq import nsmallest

from msgspec import Struct

from nearcast.core.engine.queries.node_filter import ContextOf, is_true_of
from nearcast.core.language import Filter
from nearcast.core.matching.matcher import Matcher
from nearcast.core.matching.reference import area_for
from nearcast.core.model.geometry.area import ME, Area, FixedArea
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.ellipsoid import HALF_EARTH_M
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.visibility import SEE_IDENTITY, SEE_WHERE_NAMED

Resolved = FixedArea | Anchored
Everyone = Callable[[], Iterable[str]]
Sees = Callable[[str], int]
"""The visibility mask of a node for the viewer."""
LOOKED_AT_MOST = 1_000
FIRST_REACH_M = 250.0
WIDER = 4.0


class NodeQuery(Struct, frozen=True):
    """A query: nodes in an area, satisfying a filter, nearest to a node."""

    viewer: str
    area: Area | None = None
    where: Filter | None = None
    near: str | None = None
    """A node, or `me`: results are sorted by distance, without further pages."""
    most: int = 100
    after: str = ""
    """The page begins after this name."""


class FoundNode(Struct, frozen=True):
    """A node in a result."""

    node: str
    distance_m: float | None = None


class NodePage(Struct, frozen=True):
    """A page of results."""

    nodes: tuple[FoundNode, ...]
    next: str | None = None
    """The name after which the next page begins; None if this is the last."""
    complete: bool = True
    """False if the search for the nearest hit its limit before enough were found."""


class NodeSearch:
    """Answers node queries."""

    def __init__(self, matcher: Matcher, context_of: ContextOf, sees: Sees) -> None:
        self._matcher = matcher
        self._world = matcher.world
        self._context_of = context_of
        self._sees = sees

    def find(self, query: NodeQuery, everyone: Everyone) -> NodePage:
        """Return a page of matching nodes; `everyone` returns all known names."""
        meant = None
        if query.area is not None:
            meant = area_for(query.area, query.viewer, self._world)
            if meant is None:
                return NodePage(())
        if query.near is not None:
            return self._nearest(query, meant, query.near, everyone)
        names = everyone() if meant is None else self._inside(meant, everyone)
        looked_at = nsmallest(LOOKED_AT_MOST + 1, filter(query.after.__lt__, names))
        found: list[FoundNode] = []
        last = ""
        for name in looked_at[:LOOKED_AT_MOST]:
            if len(found) == query.most:
                return NodePage(tuple(found), last)
            last = name
            if self._is_meant(query, meant, name):
                found.append(FoundNode(name))
        more = len(looked_at) > LOOKED_AT_MOST
        return NodePage(tuple(found), last if more else None)

    def _nearest(
        self,
        query: NodeQuery,
        meant: Resolved | None,
        centre: str,
        everyone: Everyone,
    ) -> NodePage:
        """Return the nearest nodes, searching in ever wider rings."""
        world, viewer = self._world, query.viewer
        named = viewer if centre == ME else centre
        seen = self._sees(named) & SEE_WHERE_NAMED == SEE_WHERE_NAMED
        at = world.position(named) if seen else None
        if at is None:
            return NodePage(())
        found: list[FoundNode] = []
        looked_at, inner_m, reach_m = 0, -1.0, FIRST_REACH_M
        while True:
            names = self._matcher.nodes_within(at.lat, at.lon, reach_m)
            if names is None or reach_m >= HALF_EARTH_M:
                names, reach_m = list(everyone()), HALF_EARTH_M
            for distance, name in sorted(self._ring(at, names, inner_m, reach_m)):
                if len(found) == query.most:
                    return NodePage(tuple(found))
                if looked_at == LOOKED_AT_MOST:
                    return NodePage(tuple(found), complete=False)
                looked_at += 1
                if name != named and self._is_meant(query, meant, name):
                    found.append(FoundNode(name, distance))
            if reach_m >= HALF_EARTH_M or len(found) == query.most:
                return NodePage(tuple(found))
            inner_m, reach_m = reach_m, reach_m * WIDER

    def _ring(
        self, centre: Position, names: Iterable[str], inner_m: float, outer_m: float
    ) -> Iterable[tuple[float, str]]:
        for name in names:
            at = self._world.position(name)
            if at is not None:
                distance = distance_m(centre.lat, centre.lon, at.lat, at.lon)
                if inner_m < distance <= outer_m:
                    yield distance, name

    def _inside(self, meant: Resolved, everyone: Everyone) -> Iterable[str]:
        if isinstance(meant, Anchored):
            _, _, reach_m = bounding_circle(meant.shape)
            lat, lon = meant.anchor.lat, meant.anchor.lon
        else:
            lat, lon, reach_m = bounding_circle(meant)
        names = self._matcher.nodes_within(lat, lon, reach_m)
        return everyone() if names is None else names

    def _is_meant(self, query: NodeQuery, meant: Resolved | None, name: str) -> bool:
        placed = meant is not None or query.near is not None
        needed = SEE_WHERE_NAMED if placed else SEE_IDENTITY
        sees = self._sees(name)
        if sees & needed != needed:
            return False
        at = self._world.position(name)
        if meant is not None and (at is None or not holds(meant, at)):
            return False
        return is_true_of(query.where, name, at, query.viewer, sees, self._world, self._context_of)
