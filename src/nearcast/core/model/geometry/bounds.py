"""Bounds: a circle guaranteed to contain an area, for coarse indexes.

Promise: every position inside a shape is within the reach, boundaries and rounding included, and
for ordinary shapes the circle is within some percent of the smallest. The farthest point of a
region is on its boundary unless the region contains the centre's antipode; the boundary is sampled,
and points between two samples are bounded by the gap between them.
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
from nearcast.core.model.geometry.ellipsoid import HALF_EARTH_M
from nearcast.core.model.geometry.geodesy import distance_m, ecef
from nearcast.core.model.geometry.ring_columns import longitude_steps, points_of
from nearcast.core.model.geometry.shapes import encode, shape_holds

# No degree of latitude, nor of longitude times the cosine, is longer than this.
LONGEST_DEGREE_M = 111_700.0
# From here on the antipode's neighbourhood, where distances peak, may be inside.
_NEAR_ANTIPODE_M = 19_800_000.0
_SAMPLES = 256
# Boundaries of more edges than this are sampled less often than at every point.
_MANY_EDGES = 1_024
_STRETCHES = 16
_SAME_DEGREES = 1e-9
_CENTRING_STEPS = 24
_KEPT_AS = "bound"

Column = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def bounding_circle(area: FixedArea | MovingShape | Around) -> tuple[float, float, float]:
    """Return (lat, lon, reach_m): the whole area is within reach of that centre.

    A moving shape's reach is around its anchor, and its lat and lon are 0.
    """
    shape = area.shape if isinstance(area, Around) else area
    if isinstance(shape, Circle):
        return shape.center.lat, shape.center.lon, _with_margin(shape.radius_m)
    if isinstance(shape, MovingCircle):
        offset = math.hypot(shape.east_m, shape.north_m)
        return 0.0, 0.0, _with_margin(offset + shape.radius_m)
    if isinstance(shape, Box):
        return _fixed_bound(shape)
    kept = vars(shape)
    if _KEPT_AS not in kept:
        kept[_KEPT_AS] = _polygons_bound(shape)
    bound: tuple[float, float, float] = kept[_KEPT_AS]
    return bound


def _polygons_bound(shape: Polygon | MultiPolygon | MovingPolygons) -> tuple[float, float, float]:
    if not isinstance(shape, MovingPolygons):
        return _fixed_bound(shape)
    points, _ = points_of([ring for rings in shape.polygons for ring in rings])
    return 0.0, 0.0, _with_margin(float(np.hypot(*points.T).max()))


def _fixed_bound(shape: Box | Polygon | MultiPolygon) -> tuple[float, float, float]:
    lats, lons, gaps_m = _boundary(*_edges(shape))
    lat, lon = _centre(lats, lons)
    reach = _farthest_m(lat, lon, lats, lons, gaps_m)
    code = encode(shape)
    far_lat, far_lon = -lat, lon - 180.0 if lon > 0.0 else lon + 180.0
    holds_antipode = shape_holds(code, 0, far_lat, far_lon, *ecef(far_lat, far_lon), 0.0, 0.0)
    if holds_antipode or reach > _NEAR_ANTIPODE_M:
        return lat, lon, HALF_EARTH_M
    return lat, lon, _with_margin(reach)


def _with_margin(reach_m: float) -> float:
    # Distances err by parts in a million, and edges are a micrometre wide.
    return min(reach_m * (1.0 + 1e-5) + 0.01, HALF_EARTH_M)


def _edges(shape: Box | Polygon | MultiPolygon) -> tuple[Column, Column]:
    """Return where the edges of the boundary begin, as (lon, lat), and their steps from there."""
    if isinstance(shape, Box):
        width = shape.east - shape.west
        width += 360.0 if width < 0.0 else 0.0
        south, west, north, east = shape.south, shape.west, shape.north, shape.west + width
        corners = [(west, south), (east, south), (east, north), (west, north), (west, south)]
        line = np.array(corners)
        return line[:-1], np.diff(line, axis=0)
    polygons = (shape,) if isinstance(shape, Polygon) else shape.polygons
    points, firsts = points_of([ring for polygon in polygons for ring in polygon.rings])
    steps = np.stack((longitude_steps(points[:, 0]), np.diff(points[:, 1])), axis=1)
    is_edge = np.ones(len(steps), np.bool_)
    is_edge[firsts[1:] - 1] = False
    return points[:-1][is_edge], steps[is_edge]


def _boundary(starts: Column, steps: Column) -> tuple[Column, Column, Column]:
    """Return sampled latitudes and longitudes, and the gap between each and its neighbours."""
    spans = _spans_m(starts, steps)
    step_m = float(spans.sum()) / _SAMPLES or 1.0
    parts = np.maximum(np.ceil(spans / step_m), 1.0).astype(np.int64)
    if len(parts) > _MANY_EDGES:
        starts, steps, spans, parts = _in_stretches(starts, steps, spans, parts, step_m)
    # Both ends of an edge are among its samples, so that each sample's gap is that of its edge.
    samples = parts + 1
    edge = np.repeat(np.arange(len(parts)), samples)
    nth = np.arange(len(edge)) - np.repeat(np.cumsum(samples) - samples, samples)
    points = starts[edge] + (nth / parts[edge])[:, None] * steps[edge]
    lons = np.remainder(points[:, 0] + 180.0, 360.0) - 180.0
    return np.clip(points[:, 1], -90.0, 90.0), lons, (spans / parts)[edge]


def _in_stretches(
    starts: Column, steps: Column, spans: Column, parts: Counts, step_m: float
) -> tuple[Column, Column, Column, Counts]:
    """Join edges in a row that are much shorter together than two samples are apart.

    Of a stretch only its ends are samples, as of a short edge. Its span is twice as long as its
    farthest point is from where it begins.
    """
    before = np.cumsum(spans) - spans
    is_first = np.empty(len(spans), np.bool_)
    is_first[0] = True
    # From one ring to the next there is a leap, and what is sampled inside stays an edge.
    leaps = np.abs(starts[:-1] + steps[:-1] - starts[1:])
    leaps[:, 0] = np.minimum(leaps[:, 0], np.abs(leaps[:, 0] - 360.0))
    # Jagged boundaries are longer than they look: stretches are shorter than samples are apart.
    is_first[1:] = np.diff((before * (_STRETCHES / step_m)).astype(np.int64)) != 0
    is_first[1:] |= (leaps.max(axis=1) > _SAME_DEGREES) | (parts[1:] > 1) | (parts[:-1] > 1)
    begins = np.flatnonzero(is_first)
    walked = np.cumsum(steps, axis=0)
    counts = np.diff(begins, append=len(steps))
    offsets = walked - np.repeat(walked[begins] - steps[begins], counts, axis=0)
    east, north = np.maximum.reduceat(np.abs(offsets), begins).T
    # Nowhere on it is a degree of longitude longer than at its point nearest to the equator.
    widest = np.maximum.reduceat(_widths(starts, steps), begins)
    span = 2.0 * LONGEST_DEGREE_M * np.hypot(north, east * widest)
    span = np.where(counts > 1, span, spans[begins])
    return starts[begins], np.add.reduceat(steps, begins), span, parts[begins]


def _spans_m(starts: Column, steps: Column) -> Column:
    """Return bounds on the lengths of edges that are straight in longitude and latitude."""
    across = steps[:, 0] * _widths(starts, steps)
    return np.asarray(LONGEST_DEGREE_M * np.hypot(steps[:, 1], across))


def _widths(starts: Column, steps: Column) -> Column:
    """Return the widest that a degree of longitude is on edges, beside one on the equator."""
    lat, next_lat = starts[:, 1], starts[:, 1] + steps[:, 1]
    lowest = np.where(lat * next_lat < 0.0, 0.0, np.minimum(np.abs(lat), np.abs(next_lat)))
    return np.asarray(np.cos(np.radians(lowest)))


def _centre(lats: Column, lons: Column) -> tuple[float, float]:
    """Return a position near the middle.

    It starts from the centre of the points' bounding box in space and moves towards the farthest of
    them in ever smaller steps, which converges to the centre of their smallest ball.
    """
    phi, lam = np.radians(lats), np.radians(lons)
    points = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    x, y, z = _ball_centre(points, (points.min(axis=1) + points.max(axis=1)) / 2.0)
    return math.degrees(math.atan2(z, math.hypot(x, y))), math.degrees(math.atan2(y, x))


@compiled
def _ball_centre(points: Column, middle: Column) -> tuple[float, float, float]:
    x, y, z = middle[0], middle[1], middle[2]
    for step in range(_CENTRING_STEPS):
        farthest, most = 0, -1.0
        for i in range(points.shape[1]):
            dx, dy, dz = points[0, i] - x, points[1, i] - y, points[2, i] - z
            squared = dx * dx + dy * dy + dz * dz
            if squared > most:
                farthest, most = i, squared
        x += (points[0, farthest] - x) / (step + 3.0)
        y += (points[1, farthest] - y) / (step + 3.0)
        z += (points[2, farthest] - z) / (step + 3.0)
    return x, y, z


@compiled
def _farthest_m(lat: float, lon: float, lats: Column, lons: Column, gaps_m: Column) -> float:
    x0, y0, z0 = ecef(lat, lon)
    farthest = 0.0
    for i in range(len(lats)):
        # A point between two samples is at most half their gap from one of them.
        beyond = gaps_m[i] / 2.0
        x, y, z = ecef(lats[i], lons[i])
        chord_m = math.sqrt((x - x0) ** 2 + (y - y0) ** 2 + (z - z0) ** 2)
        # Over ground it is at most half as far again and somewhat more.
        if chord_m * 1.6 + beyond > farthest:
            farthest = max(farthest, distance_m(lat, lon, lats[i], lons[i]) + beyond)
    return farthest
