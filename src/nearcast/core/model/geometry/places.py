"""Places: named areas of a kind, such as the cities and neighbourhoods that events are about.

A registry that resolves names to places and returns the places that contain a position, smallest
first. A place is (kind, name, parent); a name shared by several places is made unambiguous by its
kind (`city/Dublin`) or by a place above it after a comma (`Dublin, Ireland`, `city/Dublin,
Ireland`), and otherwise means the one defined first: a new place does not change the meaning for
users of an older one. Names are compared exactly. The version grows with every change, so that
results can be cached.
"""

import math
from bisect import insort
from collections.abc import Iterator

from msgspec import Struct

from nearcast.core.model.errors import ModelError, PlaceError, did_you_mean
from nearcast.core.model.geometry.area import (
    HERE,
    ME,
    Box,
    Circle,
    FixedArea,
    MultiPolygon,
    Polygon,
    area_vertices,
)
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.ellipsoid import MEAN_RADIUS_M
from nearcast.core.model.geometry.geodesy import ecef
from nearcast.core.model.geometry.place_index import PlaceIndex
from nearcast.core.model.geometry.position import Position, shown
from nearcast.core.model.geometry.ring_columns import enclosed_m2, widest_inside
from nearcast.core.model.geometry.rings import longitude_step
from nearcast.core.model.geometry.shapes import Code, encode, shape_holds

LONGEST_NAME = 256
_KEPT_AS = "area_m2"
_NO_POINT = (0.0, 0.0, 0.0, 0.0, 0.0)


class Place(Struct, frozen=True):
    """A named area; `parent` is the name of the place above it, when one was given."""

    kind: str
    name: str
    geometry: FixedArea
    parent: str | None
    area_m2: float
    order: int = 0
    """A name shared by several places means the one with the lowest order."""

    @property
    def key(self) -> tuple[str, str, str | None]:
        """The unique key of a place."""
        return self.kind, self.name, self.parent

    @property
    def label(self) -> str:
        """The name of this place, unique as far as its parent makes it so."""
        above = "" if self.parent is None else f", {self.parent}"
        return f"{self.kind}/{self.name}{above}"


class Places:
    """The places that exist now."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Place]] = {}
        self._slots: dict[tuple[str, str, str | None], int] = {}
        self._at_slot: dict[int, tuple[Place, Code]] = {}
        self._index = PlaceIndex()
        self._last_order = 0
        self.version = 0
        self.vertices = 0
        """The number of vertices of all places."""

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Place]:
        return iter([place for place, _ in self._at_slot.values()])

    def add(
        self,
        kind: str,
        name: str,
        geometry: FixedArea,
        parent: str | None = None,
        order: int = 0,
    ) -> Place:
        """Define a place, or redefine the one with the same kind, name and parent.

        Without an order it keeps the one it has, or comes after all others.
        """
        _check_name(kind, "kind")
        _check_name(name, "name")
        if parent is not None:
            _check_name(parent, "parent")
        if not isinstance(geometry, Circle | Box | Polygon | MultiPolygon):
            raise ModelError(f"a place is a circle, box or polygon, not {shown(geometry)}")
        size_m2, bound = area_m2(geometry), bounding_circle(geometry)
        for old in self._named(name, kind):
            if old.parent == parent:
                order = order or old.order
                self._forget(old)
        place = Place(kind, name, geometry, parent, size_m2, order or self._last_order + 1)
        self._last_order = max(self._last_order, place.order)
        slot = self._index.add(*bound)
        insort(self._by_name.setdefault(name, []), place, key=lambda each: each.order)
        self._slots[place.key] = slot
        self._at_slot[slot] = (place, encode(geometry))
        self.vertices += area_vertices(geometry)
        self.version += 1
        return place

    def remove(self, kind: str, name: str, parent: str | None = None) -> bool:
        """Remove a place; return whether it existed. Several of that name raise `PlaceError`."""
        named = self._named(name, kind)
        found = [place for place in named if parent is None or place.parent == parent]
        exact = [place for place in found if place.parent == parent]
        if len(found) > 1 and not exact:
            raise PlaceError(_ambiguous(f"{kind}/{name}", found))
        if not found:
            return False
        self._forget((exact or found)[0])
        self.version += 1
        return True

    def get(self, kind: str, name: str, parent: str | None = None) -> Place | None:
        """Return the place with exactly this kind, name and parent, if there is one."""
        slot = self._slots.get((kind, name, parent))
        return None if slot is None else self._at_slot[slot][0]

    def find(self, name: str, kind: str | None = None) -> Place:
        """Return the only place of a name; an unknown or ambiguous name raises `PlaceError`."""
        found = self._meant(name, kind)
        if len(found) > 1:
            raise PlaceError(_ambiguous(name if kind is None else f"{kind}/{name}", found))
        return found[0]

    def find_first(self, name: str, kind: str | None = None) -> Place:
        """Return the place of a name, the first of several; `PlaceError` if there is none."""
        return self._meant(name, kind)[0]

    def _meant(self, name: str, kind: str | None) -> list[Place]:
        """Return the places that a name may mean, in order; `PlaceError` if there is none."""
        found = self._named(name, kind)
        if not found and ", " in name:
            head, _, above = name.rpartition(", ")
            found = [place for place in self._named(head, kind) if self._is_below(place, above)]
        if found:
            return found
        others = self._named(name, None)
        if others:
            kinds = ", ".join(sorted({place.kind for place in others}))
            raise PlaceError(f"no {kind} is called {shown(name)}, but there is a {kinds}")
        hint = did_you_mean(name, self._by_name)
        asked = name if kind is None else f"{kind}/{name}"
        raise PlaceError(f"no place is called {shown(asked)}{hint}")

    def here(self, kind: str, position: Position) -> Place | None:
        """Return the smallest place of a kind that contains a position."""
        return next((place for place in self.containing(position) if place.kind == kind), None)

    def containing(self, position: Position) -> tuple[Place, ...]:
        """Return the places that contain a position, smallest first, ties by name and kind."""
        lat, lon = float(position.lat), float(position.lon)
        x, y, z = ecef(lat, lon)
        held: list[Place] = []
        for slot in self._index.near(lat, lon):
            place, code = self._at_slot[slot]
            if shape_holds(code, 0, lat, lon, x, y, z, 0.0, 0.0):
                held.append(place)
        return tuple(sorted(held, key=_size))

    def parent(self, place: Place) -> Place | None:
        """Return the place above: by the parent's name if given, else the one that contains it.

        Among several places with the parent's name, it is the smallest that contains this one. A
        place that contains another is larger than it and contains a point of it.
        """
        around = [
            other
            for other in self.containing(inner_point(place.geometry))
            if _size(other) > _size(place)
        ]
        if place.parent is None:
            return around[0] if around else None
        for other in around:
            if _is_called(other, place.parent):
                return other
        named = [other for other in self._called(place.parent) if other is not place]
        return named[0] if len(named) == 1 else None

    def ancestors(self, place: Place) -> tuple[Place, ...]:
        """Return the places above, the nearest first."""
        chain: list[Place] = []
        seen = {place.key}
        above = self.parent(place)
        # Parents given by name may form a cycle.
        while above is not None and above.key not in seen:
            seen.add(above.key)
            chain.append(above)
            above = self.parent(above)
        return tuple(chain)

    def statistics(self) -> dict[str, int]:
        """Return the number of places of each kind."""
        counts: dict[str, int] = {}
        for place in self:
            counts[place.kind] = counts.get(place.kind, 0) + 1
        return counts

    def _named(self, name: str, kind: str | None) -> list[Place]:
        named = self._by_name.get(name, [])
        return [place for place in named if kind is None or place.kind == kind]

    def _called(self, text: str) -> list[Place]:
        kind, slash, name = text.partition("/")
        found = self._named(text, None)
        return found or (self._named(name, kind) if slash else [])

    def _is_below(self, place: Place, above: str) -> bool:
        if place.parent == above:
            return True
        return any(_is_called(other, above) for other in self.ancestors(place))

    def _forget(self, place: Place) -> None:
        slot = self._slots.pop(place.key)
        self.vertices -= area_vertices(place.geometry)
        del self._at_slot[slot]
        self._index.remove(slot)
        named = self._by_name[place.name]
        named[:] = [other for other in named if other.key != place.key]
        if not named:
            del self._by_name[place.name]


def area_m2(geometry: FixedArea) -> float:
    """Return the ground area, on a sphere: accurate enough to compare sizes."""
    if isinstance(geometry, Circle):
        angle = min(geometry.radius_m / MEAN_RADIUS_M, math.pi)
        return 2.0 * math.pi * MEAN_RADIUS_M**2 * (1.0 - math.cos(angle))
    if isinstance(geometry, Box):
        width = geometry.east - geometry.west
        width += 360.0 if width < 0.0 else 0.0
        rise = math.sin(math.radians(geometry.north)) - math.sin(math.radians(geometry.south))
        return MEAN_RADIUS_M**2 * math.radians(width) * rise
    if isinstance(geometry, MultiPolygon):
        return sum(area_m2(polygon) for polygon in geometry.polygons)
    kept = vars(geometry)
    if _KEPT_AS not in kept:
        exterior, *holes = map(enclosed_m2, geometry.rings)
        kept[_KEPT_AS] = max(exterior - sum(holes), 0.0)
    found: float = kept[_KEPT_AS]
    return found


def inner_point(geometry: FixedArea) -> Position:
    """Return a position inside an area (for a ring around a pole, on its edge).

    A polygon is crossed at half its height, and the middle of the widest stretch taken.
    """
    if isinstance(geometry, Circle):
        return geometry.center
    if isinstance(geometry, Box):
        width = geometry.east - geometry.west
        width += 360.0 if width < 0.0 else 0.0
        lon = longitude_step(0.0, geometry.west + width / 2.0)
        return Position((geometry.south + geometry.north) / 2.0, lon)
    if isinstance(geometry, MultiPolygon):
        return inner_point(max(geometry.polygons, key=area_m2))
    found = widest_inside(geometry.rings)
    if found is not None and shape_holds(encode(geometry), 0, found[1], found[0], *_NO_POINT):
        return Position(found[1], found[0])
    lon, lat = geometry.rings[0][0]
    return Position(lat, lon)


def _size(place: Place) -> tuple[float, str, str, str]:
    return place.area_m2, place.name, place.kind, place.parent or ""


def _is_called(place: Place, text: str) -> bool:
    return text in (place.name, f"{place.kind}/{place.name}")


def _ambiguous(asked: str, found: list[Place]) -> str:
    choices = " or ".join(sorted({place.label for place in found}))
    return f"{len(found)} places are called {shown(asked)}; name one as {choices}"


def _check_name(value: object, what: str) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_NAME:
        raise ModelError(
            f"a place's {what} is text of 1 to {LONGEST_NAME} characters, not {shown(value)}"
        )
    if value in (HERE, ME):
        raise ModelError(f"{value} is reserved and cannot be a place's {what}")
