"""Margins: whether a position is farther from an area than a number of metres.

Plane geometry on the ground around the position: for margins of some metres, not of kilometres.
"""

from math import cos, hypot, radians

from nearcast.core.model.geometry.area import (
    Box,
    Circle,
    FixedArea,
    MovingCircle,
)
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.ellipsoid import MEAN_RADIUS_M
from nearcast.core.model.geometry.geodesy import distance_m, local_metres
from nearcast.core.model.geometry.polygon_shapes import has_edge_within
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.geometry.shapes import encode

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
        return not has_edge_within(encode(shape), 0, *here, 1.0, 1.0, margin_m)
    up = radians(1.0) * MEAN_RADIUS_M
    across = up * max(cos(radians(lat)), 1e-9)
    return not has_edge_within(encode(area), 0, lon, lat, across, up, margin_m)


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
