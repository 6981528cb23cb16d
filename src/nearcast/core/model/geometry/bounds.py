"""Bounds: a circle guaranteed to contain an area, for coarse indexes.

Promise: every position inside a shape is within the reach, boundaries and rounding included, and
for ordinary shapes the circle is within some percent of the smallest. The farthest point of a
region is on its boundary unless the region contains the centre's antipode; the boundary is sampled,
and points between two samples are bounded by the gap between them.
"""

import math
from itertools import pairwise

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
from nearcast.core.model.geometry.ellipsoid import HALF_EARTH_M
from nearcast.core.model.geometry.geodesy import distance_m, ecef
from nearcast.core.model.geometry.rings import Ring, longitude_step
from nearcast.core.model.geometry.shapes import encode, shape_holds

# No degree of latitude, nor of longitude times the cosine, is longer than this.
LONGEST_DEGREE_M = 111_700.0
# From here on the antipode's neighbourhood, where distances peak, may be inside.
_NEAR_ANTIPODE_M = 19_800_000.0
_SAMPLES = 256
_CENTRING_STEPS = 24

Column = npt.NDArray[np.float64]


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
    if isinstance(shape, MovingPolygons):
        points = (point for rings in shape.polygons for ring in rings for point in ring)
        return 0.0, 0.0, _with_margin(max(math.hypot(*point) for point in points))
    return _fixed_bound(shape)


def _fixed_bound(shape: FixedArea) -> tuple[float, float, float]:
    lats, lons, gaps_m = _boundary(_outlines(shape))
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


def _outlines(shape: FixedArea) -> list[list[tuple[float, float]]]:
    """Return the boundary as lines of (lon, lat) whose longitudes continue past 180."""
    if isinstance(shape, Box):
        west = shape.west
        width = shape.east - west if shape.east >= west else shape.east - west + 360.0
        east = west + width
        south, north = shape.south, shape.north
        return [[(west, south), (east, south), (east, north), (west, north), (west, south)]]
    if isinstance(shape, Polygon):
        return [_unwound(ring) for ring in shape.rings]
    assert not isinstance(shape, Circle)
    return [_unwound(ring) for polygon in shape.polygons for ring in polygon.rings]


def _unwound(ring: Ring) -> list[tuple[float, float]]:
    line = [ring[0]]
    for (lon, _), (next_lon, next_lat) in pairwise(ring):
        line.append((line[-1][0] + longitude_step(lon, next_lon), next_lat))
    return line


def _boundary(outlines: list[list[tuple[float, float]]]) -> tuple[Column, Column, Column]:
    """Return sampled latitudes and longitudes, and the gap between each and its neighbours."""
    starts = np.array([point for line in outlines for point in line[:-1]], dtype=np.float64)
    steps = np.concatenate([np.diff(np.array(line), axis=0) for line in outlines])
    spans = _spans_m(starts, steps)
    step_m = float(spans.sum()) / _SAMPLES or 1.0
    parts = np.maximum(np.ceil(spans / step_m), 1.0).astype(np.int64)
    # Both ends of an edge are among its samples, so that each sample's gap is that of its edge.
    samples = parts + 1
    edge = np.repeat(np.arange(len(parts)), samples)
    nth = np.arange(len(edge)) - np.repeat(np.cumsum(samples) - samples, samples)
    points = starts[edge] + (nth / parts[edge])[:, None] * steps[edge]
    lons = np.remainder(points[:, 0] + 180.0, 360.0) - 180.0
    return np.clip(points[:, 1], -90.0, 90.0), lons, (spans / parts)[edge]


def _spans_m(starts: Column, steps: Column) -> Column:
    """Return bounds on the lengths of edges that are straight in longitude and latitude."""
    lat, next_lat = starts[:, 1], starts[:, 1] + steps[:, 1]
    lowest = np.where(lat * next_lat < 0.0, 0.0, np.minimum(np.abs(lat), np.abs(next_lat)))
    across = steps[:, 0] * np.cos(np.radians(lowest))
    return np.asarray(LONGEST_DEGREE_M * np.hypot(steps[:, 1], across))


def _centre(lats: Column, lons: Column) -> tuple[float, float]:
    """Return a position near the middle.

    It starts from the centre of the points' bounding box in space and moves towards the farthest of
    them in ever smaller steps, which converges to the centre of their smallest ball.
    """
    phi, lam = np.radians(lats), np.radians(lons)
    points = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    middle = (points.min(axis=1) + points.max(axis=1)) / 2.0
    for step in range(_CENTRING_STEPS):
        off = points - middle[:, None]
        farthest = int(np.argmax(np.einsum("ij,ij->j", off, off)))
        middle = middle + off[:, farthest] / (step + 3.0)
    x, y, z = (float(part) for part in middle)
    return math.degrees(math.atan2(z, math.hypot(x, y))), math.degrees(math.atan2(y, x))


@compiled
def _farthest_m(lat: float, lon: float, lats: Column, lons: Column, gaps_m: Column) -> float:
    farthest = 0.0
    for i in range(len(lats)):
        # A point between two samples is at most half their gap from one of them.
        beyond = distance_m(lat, lon, lats[i], lons[i]) + gaps_m[i] / 2.0
        farthest = max(farthest, beyond)
    return farthest
