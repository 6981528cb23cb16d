"""Area anchors: every area as a shape around a node, with its reach.

A circle around a node moves with it. A fixed area is anchored to a row of its own, at its centre. A
named place is resolved when used; `place:here/KIND` depends on its owner's position; both are
resolved again when that changes.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.core.matching.index.shape_pool import ShapePool
from nearcast.core.matching.tables import ANCHOR, NODE, NONE
from nearcast.core.model.errors import PlaceError
from nearcast.core.model.geometry.area import (
    ME,
    Area,
    Around,
    Circle,
    FixedArea,
    MovingCircle,
    PlaceArea,
    PlaceHere,
)
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.geometry.shapes import encode

if TYPE_CHECKING:
    from nearcast.core.matching.index.subscription_index import SubscriptionIndex


class AreaPlacement(Struct, frozen=True, gc=False):
    """An area as table values: its anchor row, its size and its reach."""

    anchor: int
    area: float = 0.0
    """The radius of a circle, or -1 - the start of another shape's code."""
    reach_m: float = math.inf
    named: PlaceArea | PlaceHere | None = None


EVERYWHERE = AreaPlacement(NONE)


class Anchors:
    """The areas of subscriptions, with the rows and shapes they use."""

    def __init__(self, index: "SubscriptionIndex", places: Places) -> None:
        self._index = index
        self.places = places
        self.shapes = ShapePool()
        self._named: dict[int, PlaceArea | PlaceHere] = {}
        self._here: dict[int, set[int]] = {}

    def place(self, area: Area | None, owner: int) -> AreaPlacement:
        """Acquire what an area of a subscription of the owner needs."""
        if area is None:
            return EVERYWHERE
        if isinstance(area, Around):
            nodes = self._index.nodes
            me = area.anchor == ME
            anchor = nodes.acquire_again(owner) if me else nodes.acquire(area.anchor)
            shape = area.shape
            if isinstance(shape, MovingCircle) and shape.east_m == shape.north_m == 0.0:
                return AreaPlacement(anchor, shape.radius_m, shape.radius_m)
            _, _, reach_m = bounding_circle(shape)
            return AreaPlacement(anchor, -1.0 - self.shapes.acquire(encode(shape)), reach_m)
        if isinstance(area, PlaceArea | PlaceHere):
            return self._place_named(area, owner)
        return self._lie_fixed(area, None)

    def note(self, row: int, owner: int, placement: AreaPlacement) -> None:
        """Record a subscription whose area is a named place."""
        if placement.named is not None:
            self._named[row] = placement.named
            if isinstance(placement.named, PlaceHere):
                self._here.setdefault(owner, set()).add(row)

    def release(self, row: int) -> None:
        """Release what a subscription's area used."""
        named = self._named.pop(row, None)
        if isinstance(named, PlaceHere):
            owner = int(self._index.table.rows[row, NODE])
            self._here[owner].discard(row)
            if not self._here[owner]:
                del self._here[owner]
        self._let_go(row)

    def refresh_places(self) -> None:
        """Resolve every named place again."""
        self._refresh(list(self._named))

    def refresh_here(self, nodes: Iterable[int]) -> None:
        """Resolve `place:here/...` again for nodes that have moved."""
        if self._here:
            self._refresh([row for node in nodes for row in self._here.get(node, ())])

    def _refresh(self, rows: list[int]) -> None:
        for row in rows:
            owner = int(self._index.table.rows[row, NODE])
            placement = self._place_named(self._named[row], owner)
            before = int(self._index.table.rows[row, ANCHOR])
            area = float(self._index.table.area[row])
            self._index.refile(row, placement)
            self._give_back(before, area)

    def _place_named(self, area: PlaceArea | PlaceHere, owner: int) -> AreaPlacement:
        geometry: FixedArea | None = None
        if isinstance(area, PlaceHere):
            lat, lon = self._index.nodes.arrays.at[owner, :2].tolist()
            if not math.isnan(lat):
                here = self.places.here(area.kind, Position(lat, lon))
                geometry = None if here is None else here.geometry
        else:
            try:
                geometry = self.places.find_first(area.name, area.kind).geometry
            except PlaceError:
                geometry = None
        if geometry is None:
            # A row without position: the area contains no node until the place exists.
            nowhere = self._index.nodes.acquire_point(math.nan, math.nan)
            return AreaPlacement(nowhere, 0.0, 0.0, area)
        return self._lie_fixed(geometry, area)

    def _lie_fixed(self, area: FixedArea, named: PlaceArea | PlaceHere | None) -> AreaPlacement:
        lat, lon, reach_m = bounding_circle(area)
        anchor = self._index.nodes.acquire_point(lat, lon)
        if isinstance(area, Circle):
            return AreaPlacement(anchor, area.radius_m, area.radius_m, named)
        return AreaPlacement(anchor, -1.0 - self.shapes.acquire(encode(area)), reach_m, named)

    def _let_go(self, row: int) -> None:
        table = self._index.table
        self._give_back(int(table.rows[row, ANCHOR]), float(table.area[row]))

    def _give_back(self, anchor: int, area: float) -> None:
        if anchor != NONE:
            self._index.nodes.release(anchor)
            if area < 0.0:
                self.shapes.release(int(-1.0 - area))
