"""Areas: where, as values (the proximities of seed D, the location filters of seed B).

An area is fixed (circle, box, polygons), moves with a node (seed D's naval, with the shape's
reference point as an offset in metres), or is a named place. Every value checks itself when it
is built, so an area that exists can be decided: its numbers are finite, its rings closed, and
each of its edges has one shorter way round. Coordinates of rings are (lon, lat), as in GeoJSON.
Polygons have a dictionary, in which what was computed of them (their code, their bound) is kept.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import force_setattr

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.ellipsoid import HALF_EARTH_M
from nearcast.core.model.geometry.position import Position, number, plain, position, shown
from nearcast.core.model.geometry.rings import (
    Ring,
    checked_moving_rings,
    checked_rings,
    offset_m,
)

ME = "me"
HERE = "here"


class Circle(Struct, frozen=True, gc=False):
    """All positions within `radius_m` of a fixed centre."""

    center: Position
    radius_m: float

    def __post_init__(self) -> None:
        force_setattr(self, "center", position(self.center.lat, self.center.lon))
        force_setattr(self, "radius_m", _radius(self.radius_m))


class Box(Struct, frozen=True, gc=False):
    """A range of latitudes and longitudes; with `west` > `east` it crosses the antimeridian."""

    south: float
    west: float
    north: float
    east: float

    def __post_init__(self) -> None:
        southwest = position(self.south, self.west)
        northeast = position(self.north, self.east)
        if southwest.lat > northeast.lat:
            raise ModelError(
                f"a box's south ({plain(self.south)}) is above its north ({plain(self.north)}); "
                "the order is SOUTH,WEST,NORTH,EAST"
            )
        force_setattr(self, "south", southwest.lat)
        force_setattr(self, "west", southwest.lon)
        force_setattr(self, "north", northeast.lat)
        force_setattr(self, "east", northeast.lon)


class Polygon(Struct, frozen=True, dict=True):
    """The inside of the first ring without its holes, the other rings; edges are inside."""

    rings: tuple[Ring, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "rings", checked_rings(self.rings))


class MultiPolygon(Struct, frozen=True, dict=True):
    """The union of the polygons."""

    polygons: tuple[Polygon, ...]

    def __post_init__(self) -> None:
        if not self.polygons:
            raise ModelError("a multipolygon needs at least one polygon")


class MovingCircle(Struct, frozen=True, gc=False):
    """A circle that moves with its anchor; its centre is `east_m`, `north_m` off the anchor."""

    radius_m: float
    east_m: float = 0.0
    north_m: float = 0.0

    def __post_init__(self) -> None:
        force_setattr(self, "radius_m", _radius(self.radius_m))
        east_m, north_m = offset_m((self.east_m, self.north_m))
        force_setattr(self, "east_m", east_m)
        force_setattr(self, "north_m", north_m)


class MovingPolygons(Struct, frozen=True, dict=True):
    """Polygons that move with their anchor: rings of (east_m, north_m) off it, as `Polygon`."""

    polygons: tuple[tuple[Ring, ...], ...]

    def __post_init__(self) -> None:
        if not self.polygons:
            raise ModelError("a moving polygon needs at least one ring")
        checked = tuple(checked_moving_rings(rings) for rings in self.polygons)
        force_setattr(self, "polygons", checked)


MovingShape = MovingCircle | MovingPolygons


class Around(Struct, frozen=True, gc=False):
    """A shape that moves with `anchor`: "me", the caller, or the id of a node."""

    anchor: str
    shape: MovingShape

    def __post_init__(self) -> None:
        force_setattr(self, "anchor", node_anchor(self.anchor))


class PlaceArea(Struct, frozen=True, gc=False):
    """A named place, with a kind where the name alone is ambiguous."""

    name: str
    kind: str | None = None

    def __post_init__(self) -> None:
        if not self.name or self.kind == "" or HERE in (self.name, self.kind):
            raise ModelError(
                "a place needs a name, and here is reserved: place:NAME, place:KIND/NAME or "
                "place:here/KIND"
            )


class PlaceHere(Struct, frozen=True, gc=False):
    """The smallest place of a kind that contains the caller."""

    kind: str

    def __post_init__(self) -> None:
        if not self.kind:
            raise ModelError("place:here needs a kind: place:here/KIND, such as place:here/city")


FixedArea = Circle | Box | Polygon | MultiPolygon
Area = FixedArea | Around | PlaceArea | PlaceHere


def vertex_count(area: Area | MovingShape) -> int:
    """Return how many points the rings of an area have: what it costs to read and to keep.

    Circles, boxes and named places have none of their own.
    """
    shape = area.shape if isinstance(area, Around) else area
    if isinstance(shape, Polygon):
        return sum(map(len, shape.rings))
    if isinstance(shape, MultiPolygon):
        return sum(map(vertex_count, shape.polygons))
    if isinstance(shape, MovingPolygons):
        return sum(len(ring) for rings in shape.polygons for ring in rings)
    return 0


def circle(
    center: Position | Sequence[float] | str, radius_m: float, *, offset: Sequence[float] = (0, 0)
) -> Circle | Around:
    """Return a circle around a position, a (lat, lon) pair, "me" or the id of a node.

    `offset` is the distance of the centre east and north of a node, in metres.
    """
    if isinstance(center, str):
        return Around(center, MovingCircle(radius_m, *offset_m(offset)))
    if offset_m(offset) != (0.0, 0.0):
        raise ModelError("an offset goes with a moving centre; give a fixed circle its own centre")
    if isinstance(center, Position):
        return Circle(center, radius_m)
    if not isinstance(center, Sequence) or len(center) != 2:
        raise ModelError(f"a circle's centre is (lat, lon), 'me' or a node, not {shown(center)}")
    return Circle(position(*center), radius_m)


def box(south: float, west: float, north: float, east: float) -> Box:
    """Return the box between two parallels and two meridians, from west eastwards to east."""
    return Box(south, west, north, east)


def polygon(exterior: Sequence[Sequence[float]], *holes: Sequence[Sequence[float]]) -> Polygon:
    """Return a polygon of (lon, lat) rings; a ring that was left open is closed."""
    rings = [tuple(tuple(point) for point in ring) for ring in (exterior, *holes)]
    closed = tuple(ring if not ring or ring[0] == ring[-1] else (*ring, ring[0]) for ring in rings)
    return Polygon(closed)  # type: ignore[arg-type]  # Polygon checks that points are pairs


def place(name: str, kind: str | None = None) -> PlaceArea | PlaceHere:
    """Return a named place; `place("here", "city")` is the city that contains the caller."""
    if name == HERE:
        return PlaceHere(kind or "")
    return PlaceArea(name, kind)


def moving_box(width_m: float, height_m: float, offset: Sequence[float] = (0, 0)) -> MovingPolygons:
    """Return a box of `width_m` east to west, its centre `offset` metres off the anchor."""
    half_width = _extent(width_m, "width") / 2.0
    half_height = _extent(height_m, "height") / 2.0
    east, north = offset_m(offset)
    corners = ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0))
    ring = tuple((east + x * half_width, north + y * half_height) for x, y in corners)
    return MovingPolygons(((ring,),))


def area_vertices(area: Area) -> int:
    """Return the number of vertices of an area; 0 for circles, boxes and named places."""
    if isinstance(area, Polygon):
        return sum(map(len, area.rings))
    if isinstance(area, MultiPolygon):
        return sum(map(area_vertices, area.polygons))
    if isinstance(area, Around) and isinstance(area.shape, MovingPolygons):
        return sum(len(ring) for rings in area.shape.polygons for ring in rings)
    return 0


def node_anchor(anchor: object) -> str:
    """Return the node that an anchor names: parts of a node share its position."""
    if not isinstance(anchor, str):
        raise ModelError(f"an anchor is 'me' or the id of a node, not {shown(anchor)}")
    node = anchor.partition("~")[0]
    if not node or node == HERE:
        raise ModelError(f"an anchor is 'me' or the id of a node, not {shown(anchor)}")
    return node


def _radius(value: object) -> float:
    radius = number(value, "radius")
    if radius < 0.0:
        raise ModelError(f"radius {plain(radius)} is negative; a radius is 0 or more metres")
    if radius > HALF_EARTH_M:
        raise ModelError(
            f"radius {plain(radius)} is more than half-way round the Earth; "
            f"a radius is at most {plain(HALF_EARTH_M)} metres"
        )
    return radius


def _extent(value: object, what: str) -> float:
    extent = number(value, what)
    if extent <= 0.0:
        raise ModelError(f"{what} {plain(extent)} is not above 0 metres")
    return extent
