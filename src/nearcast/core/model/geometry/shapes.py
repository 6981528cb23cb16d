"""Shapes: whether an area holds a position, decided by one kernel.

Every fixed or moving shape is encoded into one flat array of numbers, and `shape_holds` decides
on that array; areas asked from Python and the matcher's kernels both call it, so they agree bit
for bit (seed D's areas of arbitrary shape, seed B's location filters). The code of polygons is made
once and kept with them.

The code begins with its kind:

    circle           0, lat, lon, x, y, z, radius_m
    box              1, south, west, north, east
    polygons         2, see `polygon_shapes`
    moving circle    3, east_m, north_m, radius_m
    moving polygons  4, as polygons, but metres east and north of the anchor
"""

import math

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.model.geometry.area import (
    Around,
    Box,
    Circle,
    FixedArea,
    MovingCircle,
    MovingPolygons,
    MovingShape,
    MultiPolygon,
    Polygon,
)
from nearcast.core.model.geometry.geodesy import ecef, local_metres, within
from nearcast.core.model.geometry.polygon_shapes import (
    MOVING_POLYGONS,
    POLYGONS,
    encode_polygons,
    moving_polygons_hold,
    polygons_hold,
)

Code = npt.NDArray[np.float64]

CIRCLE = 0
BOX = 1
MOVING_CIRCLE = 3

_KEPT_AS = "code"


def encode(area: FixedArea | MovingShape | Around) -> Code:
    """Return the code of a shape; for `Around`, that of its moving shape."""
    shape = area.shape if isinstance(area, Around) else area
    if isinstance(shape, Circle):
        lat, lon = shape.center.lat, shape.center.lon
        return np.array([CIRCLE, lat, lon, *ecef(lat, lon), shape.radius_m], dtype=np.float64)
    if isinstance(shape, Box):
        sides = (shape.south, shape.west, shape.north, shape.east)
        return np.array([BOX, *sides], dtype=np.float64)
    if isinstance(shape, MovingCircle):
        offset_and_radius = (shape.east_m, shape.north_m, shape.radius_m)
        return np.array([MOVING_CIRCLE, *offset_and_radius], dtype=np.float64)
    kept = vars(shape)
    if _KEPT_AS not in kept:
        kept[_KEPT_AS] = _encode_polygons(shape)
    code: Code = kept[_KEPT_AS]
    return code


def _encode_polygons(shape: Polygon | MultiPolygon | MovingPolygons) -> Code:
    if isinstance(shape, MovingPolygons):
        return encode_polygons(MOVING_POLYGONS, shape.polygons)
    polygons = (shape,) if isinstance(shape, Polygon) else shape.polygons
    return encode_polygons(POLYGONS, tuple(each.rings for each in polygons))


@compiled
def shape_holds(
    code: Code,
    start: int,
    lat: float,
    lon: float,
    x: float,
    y: float,
    z: float,
    anchor_lat: float,
    anchor_lon: float,
) -> bool:
    """Return whether the shape encoded from `code[start]` contains a position.

    `x, y, z` are the position's `ecef`; only moving shapes use the anchor.
    """
    kind = int(code[start])
    if kind == CIRCLE:
        return within(
            code[start + 1],
            code[start + 2],
            code[start + 3],
            code[start + 4],
            code[start + 5],
            lat,
            lon,
            x,
            y,
            z,
            code[start + 6],
        )
    if kind == BOX:
        return _box_holds(code, start, lat, lon)
    if kind == POLYGONS:
        return polygons_hold(code, start, lat, lon)
    if kind == MOVING_CIRCLE:
        east0 = code[start + 1]
        north0 = code[start + 2]
        radius_m: float = code[start + 3]
        if east0 == 0.0 and north0 == 0.0:
            ax, ay, az = ecef(anchor_lat, anchor_lon)
            return within(anchor_lat, anchor_lon, ax, ay, az, lat, lon, x, y, z, radius_m)
        east, north = local_metres(anchor_lat, anchor_lon, lat, lon)
        return math.hypot(east - east0, north - north0) <= radius_m
    east, north = local_metres(anchor_lat, anchor_lon, lat, lon)
    return moving_polygons_hold(code, start, east, north)


@compiled
def _box_holds(code: Code, start: int, lat: float, lon: float) -> bool:
    if lat < code[start + 1] or lat > code[start + 3]:
        return False
    if abs(lat) == 90.0:
        return True
    west: float = code[start + 2]
    east: float = code[start + 4]
    if west > east:
        return lon >= west or lon <= east
    if west <= lon <= east:
        return True
    return (lon == -180.0 and east == 180.0) or (lon == 180.0 and west == -180.0)
