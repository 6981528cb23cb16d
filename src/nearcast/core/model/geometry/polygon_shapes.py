"""Polygons as code: whether they hold a point, and whether an edge of theirs is near one.

Polygons live on the cylinder of longitude and latitude: edges are straight there, the shorter way
round, boundaries are inside, and a ring that winds round a pole holds it. Polygons that move with a
node are in metres east and north of it. The code of both, after its kind:

    where its edge columns begin (0: none), polygon count, then for each polygon: ring count, then
    for each ring: point count, holds_north, x, y, x, y, ... (closed), then the edge columns

Edges are looked up by the column (`edge_columns`) that a point is in, so a decision costs as much
as there are edges north or south of the point, and not as the whole polygon has.
"""

import math

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.model.geometry.edge_columns import (
    COLUMN_COUNT,
    COLUMNS_HEADER,
    HALF_BITS,
    LOWER_HALF,
    MARGIN_DEGREES,
    MARGIN_M,
    WEST,
    WIDTH,
    edge_columns,
)
from nearcast.core.model.geometry.ring_columns import longitude_steps, points_of
from nearcast.core.model.geometry.rings import Ring, held_pole

Code = npt.NDArray[np.float64]

# How far from an edge still counts as on it: about a micrometre, some thousand times the
# rounding of a coordinate.
EDGE_DEGREES = 1e-11
EDGE_M = 1e-6

POLYGONS, MOVING_POLYGONS = 2, 4
"""Kinds of code."""
COLUMNS_AT, POLYGON_COUNT, FIRST_POLYGON = 1, 2, 3
"""Offsets in the code of polygons."""
ON_EDGE = -1


def encode_polygons(kind: int, polygons: tuple[tuple[Ring, ...], ...]) -> Code:
    """Return the code of polygons of that kind."""
    moving = kind == MOVING_POLYGONS
    rings = [ring for polygon in polygons for ring in polygon]
    points, firsts = points_of(rings)
    steps = np.diff(points[:, 0]) if moving else longitude_steps(points[:, 0])
    holds_north = _holding_north(rings, steps, firsts, moving)
    length = FIRST_POLYGON + len(polygons) + 2 * len(rings) + points.size
    code = np.empty(length)
    code[:FIRST_POLYGON] = kind, 0, len(polygons)
    begins = np.empty(len(rings), np.int64)
    tags = np.empty(len(rings), np.int64)
    at, number = FIRST_POLYGON, 0
    for place, polygon in enumerate(polygons):
        code[at] = len(polygon)
        at += 1
        # The parity that a polygon has north of all its edges.
        parity = sum(holds_north[number : number + len(polygon)]) & 1
        for ring in polygon:
            code[at] = len(ring)
            code[at + 1] = holds_north[number]
            first = firsts[number]
            code[at + 2 : at + 2 + 2 * len(ring)] = points[first : first + len(ring)].ravel()
            begins[number] = at + 2
            tags[number] = 2 * place + parity
            at += 2 + 2 * len(ring)
            number += 1
    columns = edge_columns(points, steps, firsts, begins, tags, moving)
    if columns is None:
        return code
    code[COLUMNS_AT] = length
    return np.concatenate((code, columns))


def _holding_north(
    rings: list[Ring], steps: Code, firsts: npt.NDArray[np.int64], moving: bool
) -> list[int]:
    if moving:
        return [0] * len(rings)
    # Steps between one ring and the next are no edges.
    within = steps.copy()
    within[firsts[1:] - 1] = 0.0
    turns = np.rint(np.add.reduceat(within, firsts) / 360.0).astype(np.int64).tolist()
    return [
        int(turn % 2 != 0 and held_pole(ring) == 1) for ring, turn in zip(rings, turns, strict=True)
    ]


@compiled
def polygons_hold(code: Code, start: int, lat: float, lon: float) -> bool:
    """Return whether fixed polygons contain a position."""
    # At a pole a vertex of any longitude counts.
    if code[start + COLUMNS_AT] != 0.0 and abs(lat) < 90.0 - EDGE_DEGREES:
        return _columns_hold(code, start, lat, lon)
    at = start + FIRST_POLYGON
    for _ in range(int(code[start + POLYGON_COUNT])):
        rings = int(code[at])
        at += 1
        inside = False
        for _ in range(rings):
            points = int(code[at])
            side = _ring_side(code, at + 2, points, lat, lon)
            if side == ON_EDGE:
                return True
            inside ^= (side == 1) ^ (code[at + 1] == 1.0)
            at += 2 + 2 * points
        if inside:
            return True
    return False


@compiled
def _columns_hold(code: Code, start: int, lat: float, lon: float) -> bool:
    columns = start + int(code[start + COLUMNS_AT])
    x = lon - code[columns + WEST]
    if x < -MARGIN_DEGREES:
        x += 360.0
    if x > 360.0 - MARGIN_DEGREES:
        x -= 360.0
    first, last = _entries_at(code, columns, x, MARGIN_DEGREES)
    polygon = -1
    inside = False
    for entry in range(first, last):
        packed = int(code[entry])
        tag = packed >> HALF_BITS
        if tag != polygon:
            if inside:
                return True
            polygon = tag
            inside = tag & 1 == 1
        edge = start + (packed & LOWER_HALF)
        lon0, lat0, lon1, lat1 = code[edge], code[edge + 1], code[edge + 2], code[edge + 3]
        off0 = _degrees_east(lon, lon0)
        if _on_edge(off0, lat0 - lat, _degrees_east(lon0, lon1), lat1 - lat0, EDGE_DEGREES):
            return True
        inside ^= _is_crossed(off0, lat0, _degrees_east(lon, lon1), lat1, lat)
    return inside


@compiled
def _entries_at(code: Code, columns: int, x: float, margin: float) -> tuple[int, int]:
    """Return where the edges of the column begin and end that a point is in; (0, 0): in none."""
    width: float = code[columns + WIDTH]
    if x < -margin or x > width + margin:
        return 0, 0
    count = int(code[columns + COLUMN_COUNT])
    return _column_entries(code, columns, min(max(int(x / width * count), 0), count - 1), count)


@compiled
def _column_entries(code: Code, columns: int, column: int, count: int) -> tuple[int, int]:
    firsts = columns + COLUMNS_HEADER
    entries = firsts + count + 1
    return entries + int(code[firsts + column]), entries + int(code[firsts + column + 1])


@compiled
def _ring_side(code: Code, at: int, points: int, lat: float, lon: float) -> int:
    """Return ON_EDGE, or the parity of the ring's edges crossed on the way to the north pole."""
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
                return ON_EDGE
        else:
            step = _degrees_east(lon0, lon1)
            if _on_edge(off0, lat0 - lat, step, lat1 - lat0, EDGE_DEGREES):
                return ON_EDGE
        crossings += _is_crossed(off0, lat0, off1, lat1, lat)
        lon0 = lon1
        lat0 = lat1
        off0 = off1
    return crossings & 1


@compiled
def _is_crossed(off0: float, lat0: float, off1: float, lat1: float, lat: float) -> bool:
    """Return whether the way from a point to the north crosses an edge.

    Which side of the point's meridian a vertex is on depends on the vertex alone, so edges that
    meet in it agree. Two sides also differ across the opposite meridian, but there the vertices are
    more than half a turn apart.
    """
    return (
        (off0 >= 0.0) != (off1 >= 0.0)
        and abs(off0 - off1) < 180.0
        and lat0 + (lat1 - lat0) * (off0 / (off0 - off1)) > lat
    )


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
def moving_polygons_hold(code: Code, start: int, east: float, north: float) -> bool:
    """Return whether moving polygons contain a point, given in metres from their anchor."""
    if code[start + COLUMNS_AT] != 0.0:
        return _moving_columns_hold(code, start, east, north)
    at = start + FIRST_POLYGON
    for _ in range(int(code[start + POLYGON_COUNT])):
        rings = int(code[at])
        at += 1
        inside = False
        for _ in range(rings):
            points = int(code[at])
            at += 2
            for edge in range(at, at + 2 * points - 2, 2):
                side = _moving_edge_side(code, edge, east, north)
                if side == ON_EDGE:
                    return True
                inside ^= side == 1
            at += 2 * points
        if inside:
            return True
    return False


@compiled
def _moving_columns_hold(code: Code, start: int, east: float, north: float) -> bool:
    columns = start + int(code[start + COLUMNS_AT])
    first, last = _entries_at(code, columns, east - code[columns + WEST], MARGIN_M)
    polygon = -1
    inside = False
    for entry in range(first, last):
        packed = int(code[entry])
        tag = packed >> HALF_BITS
        if tag != polygon:
            if inside:
                return True
            polygon = tag
        side = _moving_edge_side(code, start + (packed & LOWER_HALF), east, north)
        if side == ON_EDGE:
            return True
        inside ^= side == 1
    return inside


@compiled
def _moving_edge_side(code: Code, edge: int, east: float, north: float) -> int:
    """Return ON_EDGE, or 1 if the way from a point to the north crosses the edge, else 0."""
    x0, y0 = code[edge] - east, code[edge + 1] - north
    x1, y1 = code[edge + 2] - east, code[edge + 3] - north
    if _on_edge(x0, y0, x1 - x0, y1 - y0, EDGE_M):
        return ON_EDGE
    if (x0 >= 0.0) != (x1 >= 0.0) and y0 + (y1 - y0) * (x0 / (x0 - x1)) > 0.0:
        return 1
    return 0


@compiled
def has_edge_within(
    code: Code, start: int, x: float, y: float, across: float, up: float, margin_m: float
) -> bool:
    """Return whether an edge of polygons is within some metres of a point.

    A unit of the code is `across` metres to the east there and `up` metres to the north, and edges
    are straight in that plane. Moving polygons are in metres, others in degrees.
    """
    moving = int(code[start]) == MOVING_POLYGONS
    if code[start + COLUMNS_AT] != 0.0:
        columns = start + int(code[start + COLUMNS_AT])
        width: float = code[columns + WIDTH]
        count = int(code[columns + COLUMN_COUNT])
        reach = margin_m / across + (MARGIN_M if moving else MARGIN_DEGREES)
        off = x - code[columns + WEST]
        if not moving and off < -reach:
            off += 360.0
        if not moving and off > 360.0 - reach:
            off -= 360.0
        if width < 360.0 and (off < -reach or off > width + reach):
            return False
        if 4.0 * reach < width:
            for near in range(
                math.floor((off - reach) / width * count),
                math.floor((off + reach) / width * count) + 1,
            ):
                column = near % count if not moving and width == 360.0 else near
                if 0 <= column < count:
                    first, last = _column_entries(code, columns, column, count)
                    for entry in range(first, last):
                        edge = start + (int(code[entry]) & LOWER_HALF)
                        if _edge_m(code, edge, x, y, across, up, moving) <= margin_m:
                            return True
            return False
    at = start + FIRST_POLYGON
    for _ in range(int(code[start + POLYGON_COUNT])):
        rings = int(code[at])
        at += 1
        for _ in range(rings):
            points = int(code[at])
            at += 2
            for edge in range(at, at + 2 * points - 2, 2):
                if _edge_m(code, edge, x, y, across, up, moving) <= margin_m:
                    return True
            at += 2 * points
    return False


@compiled
def _edge_m(
    code: Code, edge: int, x: float, y: float, across: float, up: float, moving: bool
) -> float:
    """Return the distance in metres of a point from an edge."""
    if moving:
        off, step = code[edge] - x, code[edge + 2] - code[edge]
    else:
        off, step = _degrees_east(x, code[edge]), _degrees_east(code[edge], code[edge + 2])
    x0, y0 = off * across, (code[edge + 1] - y) * up
    dx, dy = step * across, (code[edge + 3] - code[edge + 1]) * up
    squared = dx * dx + dy * dy
    along = 0.0 if squared == 0.0 else -(x0 * dx + y0 * dy) / squared
    along = min(1.0, max(0.0, along))
    return math.hypot(x0 + along * dx, y0 + along * dy)
