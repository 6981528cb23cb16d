"""Where areas lie: every area as something round a node, found by how far it reaches.

A circle round a node moves with it. A fixed area lies round a row of its own, at its centre.
A named place is what it is now; `place:here/KIND` depends on where its owner is, and both are
looked up again when that changes.
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
    """An area as rows of tables: round which node, how large, how far it reaches."""

    anchor: int
    area: float = 0.0
    """The radius of a circle, or -1 - where the code of another shape begins."""
    reach_m: float = math.inf
    named: PlaceArea | PlaceHere | None = None


EVERYWHERE = AreaPlacement(NONE)


class Anchors:
    """The areas of subscriptions, and what they hold on to."""

    def __init__(self, index: "SubscriptionIndex", places: Places) -> None:
        self._index = index
        self.places = places
        self.shapes = ShapePool()
        self._named: dict[int, PlaceArea | PlaceHere] = {}
        self._here: dict[int, set[int]] = {}

    def place(self, area: Area | None, owner: int) -> AreaPlacement:
        """Take what an area needs, for a subscription of the owner."""
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
        """Remember a subscription whose area is a name."""
        if placement.named is not None:
            self._named[row] = placement.named
            if isinstance(placement.named, PlaceHere):
                self._here.setdefault(owner, set()).add(row)

    def release(self, row: int) -> None:
        """Give back what a subscription's area held on to."""
        named = self._named.pop(row, None)
        if isinstance(named, PlaceHere):
            owner = int(self._index.table.rows[row, NODE])
            self._here[owner].discard(row)
            if not self._here[owner]:
                del self._here[owner]
        self._let_go(row)

    def refresh_places(self) -> None:
        """Look up every named place again."""
        self._refresh(list(self._named))

    def refresh_here(self, nodes: Iterable[int]) -> None:
        """Look up `place:here/...` again for nodes that have moved."""
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
            # A row that is nowhere: the area holds nobody until the place exists.
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
