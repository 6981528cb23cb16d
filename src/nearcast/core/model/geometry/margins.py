"""Margins: whether a position is farther from an area than a number of metres.

Plane geometry on the ground around the position: for margins of some metres, not of kilometres.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import cos, hypot, radians

from nearcast.core.model.geometry.area import (
    Box,
    Circle,
    FixedArea,
    MovingCircle,
    MultiPolygon,
)
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.ellipsoid import MEAN_RADIUS_M
from nearcast.core.model.geometry.geodesy import distance_m, local_metres
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.geometry.rings import Ring, longitude_step

LatLon = tuple[float, float]


def is_beyond(area: FixedArea | Anchored, position: Position, margin_m: float) -> bool:
    """Return whether no part of a resolved area is within a margin of a position."""
    lat, lon = float(position.lat), float(position.lon)
    if isinstance(area, Circle):
        far_m = distance_m(float(area.center.lat), float(area.center.lon), lat, lon)
        return far_m > area.radius_m + margin_m
    if holds(area, position):
        return False
    if isinstance(area, Box):
        return distance_m(lat, lon, *_nearest_in(area, lat, lon)) > margin_m
    if isinstance(area, Anchored):
        here = local_metres(float(area.anchor.lat), float(area.anchor.lon), lat, lon)
        shape = area.shape
        if isinstance(shape, MovingCircle):
            far_m = hypot(here[0] - shape.east_m, here[1] - shape.north_m)
            return far_m > shape.radius_m + margin_m
        rings: Iterable[Sequence[LatLon]] = (
            [(east - here[0], north - here[1]) for east, north in ring]
            for polygon in shape.polygons
            for ring in polygon
        )
    else:
        polygons = area.polygons if isinstance(area, MultiPolygon) else (area,)
        rings = (_seen_from(ring, lat, lon) for polygon in polygons for ring in polygon.rings)
    return all(
        _from_origin_m(start, end) > margin_m for ring in rings for start, end in pairwise(ring)
    )


def _nearest_in(box: Box, lat: float, lon: float) -> LatLon:
    """Return the latitude and longitude in a box that are nearest to a position."""
    wide = (box.east - box.west) % 360.0
    if box.east - box.west == 360.0:
        wide = 360.0
    off = (lon - box.west) % 360.0
    if off > wide:
        off = wide if off - wide < 360.0 - off else 0.0
    east = (box.west + off + 180.0) % 360.0 - 180.0
    return min(max(lat, box.south), box.north), east


def _seen_from(ring: Ring, lat: float, lon: float) -> list[LatLon]:
    """Return the points of a ring in metres east and north of a position, accurate near it.

    Edges are straight in degrees, and so they are here.
    """
    up = radians(1.0) * MEAN_RADIUS_M
    across = up * max(cos(radians(lat)), 1e-9)
    east = longitude_step(lon, ring[0][0])
    points = [(east * across, (ring[0][1] - lat) * up)]
    for (before, _), (after, high) in pairwise(ring):
        east += longitude_step(before, after)
        points.append((east * across, (high - lat) * up))
    return points


def _from_origin_m(start: LatLon, end: LatLon) -> float:
    """Return the distance of a straight edge from the origin."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    squared = dx * dx + dy * dy
    along = 0.0 if squared == 0.0 else -(start[0] * dx + start[1] * dy) / squared
    along = min(1.0, max(0.0, along))
    return hypot(start[0] + along * dx, start[1] + along * dy)
