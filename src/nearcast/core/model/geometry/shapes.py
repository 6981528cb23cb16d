"""Shapes: whether an area holds a position, decided by one kernel.

Every fixed or moving shape is encoded into one flat array of numbers, and `shape_holds` decides
on that array; areas asked from Python and the matcher's kernels both call it, so they agree bit
for bit. Polygons live on the cylinder of longitude and latitude: edges are straight there, the
shorter way round, boundaries are inside, and a ring that winds round a pole holds it (seed D's
areas of arbitrary shape, seed B's location filters).

The code begins with its kind:

    circle           0, lat, lon, x, y, z, radius_m
    box              1, south, west, north, east
    polygons         2, polygon count, then for each: ring count, then for each ring:
                     point count, holds_north, lon, lat, lon, lat, ... (closed)
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
    Polygon,
)
from nearcast.core.model.geometry.geodesy import ecef, local_metres, within
from nearcast.core.model.geometry.rings import Ring, held_pole

Code = npt.NDArray[np.float64]

CIRCLE = 0
BOX = 1
POLYGONS = 2
MOVING_CIRCLE = 3
MOVING_POLYGONS = 4

# How far from an edge still counts as on it: about a micrometre, some thousand times the
# rounding of a coordinate.
EDGE_DEGREES = 1e-11
EDGE_M = 1e-6


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
    if isinstance(shape, MovingPolygons):
        return _encode_polygons(MOVING_POLYGONS, shape.polygons)
    if isinstance(shape, Polygon):
        return _encode_polygons(POLYGONS, (shape.rings,))
    return _encode_polygons(POLYGONS, tuple(polygon.rings for polygon in shape.polygons))


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
        return _polygons_hold(code, start, lat, lon)
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
    return _moving_polygons_hold(code, start, east, north)


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


@compiled
def _polygons_hold(code: Code, start: int, lat: float, lon: float) -> bool:
    at = start + 2
    for _ in range(int(code[start + 1])):
        rings = int(code[at])
        at += 1
        inside = False
        for _ in range(rings):
            points = int(code[at])
            side = _ring_side(code, at + 2, points, lat, lon)
            if side < 0:
                return True
            inside ^= (side == 1) ^ (code[at + 1] == 1.0)
            at += 2 + 2 * points
        if inside:
            return True
    return False


@compiled
def _ring_side(code: Code, at: int, points: int, lat: float, lon: float) -> int:
    """Return -1 on the ring, else the parity of its edges crossed on the way to the north pole."""
    at_pole = abs(lat) >= 90.0 - EDGE_DEGREES
    crossings = 0
    lon0 = code[at]
    lat0 = code[at + 1]
    off0 = _degrees_east(lon, lon0)
    for i in range(1, points):
        lon1 = code[at + 2 * i]
        lat1 = code[at + 2 * i + 1]
        off1 = _degrees_east(lon, lon1)
        if at_pole:
            # The pole has every longitude, so a vertex there is the pole.
            if abs(lat - lat1) <= EDGE_DEGREES:
                return -1
        else:
            step = _degrees_east(lon0, lon1)
            if _on_edge(off0, lat0 - lat, step, lat1 - lat0, EDGE_DEGREES):
                return -1
        # Which side of the point's meridian a vertex is on depends on the vertex alone, so edges
        # that meet in it agree. Two sides also differ across the opposite meridian, but there
        # the vertices are more than half a turn apart.
        if (
            (off0 >= 0.0) != (off1 >= 0.0)
            and abs(off0 - off1) < 180.0
            and lat0 + (lat1 - lat0) * (off0 / (off0 - off1)) > lat
        ):
            crossings += 1
        lon0 = lon1
        lat0 = lat1
        off0 = off1
    return crossings & 1


@compiled
def _degrees_east(lon: float, other: float) -> float:
    """Return how far east of `lon` the meridian `other` is, from -180 up to 180 exclusive."""
    off = other - lon
    if off >= 180.0:
        return off - 360.0
    if off < -180.0:
        return off + 360.0
    return off


@compiled
def _on_edge(x0: float, y0: float, dx: float, dy: float, tolerance: float) -> bool:
    """Return whether the origin is on the edge that goes from (x0, y0) by (dx, dy)."""
    if min(x0, x0 + dx) > tolerance or max(x0, x0 + dx) < -tolerance:
        return False
    if min(y0, y0 + dy) > tolerance or max(y0, y0 + dy) < -tolerance:
        return False
    return abs(dx * y0 - dy * x0) <= tolerance * math.hypot(dx, dy)


@compiled
def _moving_polygons_hold(code: Code, start: int, east: float, north: float) -> bool:
    at = start + 2
    for _ in range(int(code[start + 1])):
        rings = int(code[at])
        at += 1
        inside = False
        for _ in range(rings):
            points = int(code[at])
            at += 2
            x0 = code[at] - east
            y0 = code[at + 1] - north
            for i in range(1, points):
                x1 = code[at + 2 * i] - east
                y1 = code[at + 2 * i + 1] - north
                if _on_edge(x0, y0, x1 - x0, y1 - y0, EDGE_M):
                    return True
                if (x0 >= 0.0) != (x1 >= 0.0) and y0 + (y1 - y0) * (x0 / (x0 - x1)) > 0.0:
                    inside = not inside
                x0 = x1
                y0 = y1
            at += 2 * points
        if inside:
            return True
    return False


def _encode_polygons(kind: int, polygons: tuple[tuple[Ring, ...], ...]) -> Code:
    numbers: list[float] = [kind, len(polygons)]
    for rings in polygons:
        numbers.append(len(rings))
        for ring in rings:
            holds_north = kind == POLYGONS and held_pole(ring) == 1
            numbers += (len(ring), float(holds_north))
            for point in ring:
                numbers += point
    return np.array(numbers, dtype=np.float64)
