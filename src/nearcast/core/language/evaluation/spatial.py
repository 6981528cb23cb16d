"""Spatial predicates: planar in longitude and latitude, as CQL2 defines them, through shapely.

Heights are ignored. An invalid geometry (rings that cross, a hole outside) makes its
predicates unknown. A box whose west is greater than its east crosses the antimeridian.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

import shapely
from shapely.errors import ShapelyError

from nearcast.core.language.ast import BBox, Coordinates, Geometry
from nearcast.core.language.errors import LanguageError
from nearcast.core.language.evaluation.scope import Value, lat_lon
from nearcast.core.language.forms.geojson import read_geojson

Shape: TypeAlias = shapely.Geometry

PREDICATES: dict[str, Callable[[Shape, Shape], bool]] = {
    "s_intersects": shapely.intersects,
    "s_equals": shapely.equals,
    "s_disjoint": shapely.disjoint,
    "s_touches": shapely.touches,
    "s_within": shapely.within,
    "s_overlaps": shapely.overlaps,
    "s_crosses": shapely.crosses,
    "s_contains": shapely.contains,
}


def spatially_related(op: str, left: Shape | None, right: Shape | None) -> bool | None:
    """Return whether a predicate holds between two shapes, or None if one is unknown."""
    if left is None or right is None:
        return None
    try:
        return bool(PREDICATES[op](left, right))
    except ShapelyError:
        return None


def shape_of_value(value: Value) -> Shape | None:
    """Return the shape of a GeoJSON geometry or a position, or None if it is neither."""
    if isinstance(value, Mapping) and "type" in value:
        try:
            return build(read_geojson(value))
        except LanguageError:
            return None
    place = lat_lon(value)
    return None if place is None else shapely.Point(place[1], place[0])


@lru_cache(maxsize=1024)
def shape_of_literal(geometry: Geometry | BBox) -> Shape | None:
    """Return the shape of a literal, prepared, because it is tested often."""
    shape = box(geometry.values) if isinstance(geometry, BBox) else build(geometry)
    if shape is not None:
        shapely.prepare(shape)
    return shape


def box(values: tuple[float, ...]) -> Shape | None:
    """Return the shape of a box; the union of two if it crosses the antimeridian."""
    half = len(values) // 2
    west, south, east, north = values[0], values[1], values[half], values[half + 1]
    if west <= east:
        return box_or_less(west, south, east, north)
    return shapely.union(
        box_or_less(west, south, 180.0, north), box_or_less(-180.0, south, east, north)
    )


def box_or_less(west: float, south: float, east: float, north: float) -> Shape:
    """Return a box, a line if it has no width or no height, or a point if it has neither."""
    if west == east and south == north:
        return shapely.Point(west, south)
    if west == east or south == north:
        return shapely.LineString([(west, south), (east, north)])
    return shapely.box(west, south, east, north)


def build(geometry: Geometry) -> Shape | None:
    """Return the shape of a geometry, or None if it is invalid."""
    try:
        shape = BUILDERS[geometry.type](geometry)
        return shape if shapely.is_valid(shape) else None
    except (ShapelyError, ValueError):
        return None


def flat(coordinates: Coordinates) -> list[object]:
    """Return coordinates as lists, without heights."""
    if coordinates and not isinstance(coordinates[0], tuple):
        return list(coordinates[:2])
    return [flat(c) for c in coordinates if isinstance(c, tuple)]


def polygon(rings: list[object]) -> Shape:
    """Return a polygon of a shell and its holes."""
    return shapely.Polygon(rings[0], rings[1:])


BUILDERS: dict[str, Callable[[Geometry], Shape | None]] = {
    "Point": lambda g: shapely.Point(flat(g.coordinates)),
    "LineString": lambda g: shapely.LineString(flat(g.coordinates)),
    "Polygon": lambda g: polygon(flat(g.coordinates)),
    "MultiPoint": lambda g: shapely.MultiPoint(flat(g.coordinates)),
    "MultiLineString": lambda g: shapely.MultiLineString(flat(g.coordinates)),
    "MultiPolygon": lambda g: shapely.MultiPolygon(
        [polygon(part) for part in flat(g.coordinates) if isinstance(part, list)]
    ),
    "GeometryCollection": lambda g: shapely.GeometryCollection(
        [BUILDERS[part.type](part) for part in g.geometries]
    ),
}
