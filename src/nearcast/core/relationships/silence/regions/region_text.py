"""Regions in words, for those who ask why a relationship is as it is."""

import math
from typing import assert_never

from nearcast.core.model.geometry.ellipsoid import ECCENTRICITY_SQUARED, EQUATORIAL_RADIUS_M
from nearcast.core.relationships.silence.regions.region import (
    Ball,
    HalfSpace,
    OutsideBall,
    Point,
    Region,
)

DIGITS = 6
"""Of degrees: a tenth of a metre."""
COMPASS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")


def region_text(region: Region, at: Point) -> str:
    """Return a region of positions in words, as seen by a member at a point.

    A ball is an area, `circle:LAT,LON,METRES`. Of a half-space its border is told: the place where
    it is nearest, and in which direction it lies.
    """
    match region:
        case Ball(centre, radius):
            return _circle(centre, radius)
        case OutsideBall(centre, radius):
            return f"outside {_circle(centre, radius)}"
        case HalfSpace(normal):
            margin = region.margin(at, 0.0)
            border = tuple(each + margin * n for each, n in zip(at, normal, strict=True))
            lat, lon = place(border)
            towards = COMPASS[round(bearing(lat, lon, normal) / 45.0) % len(COMPASS)]
            return f"up to a line through {_degrees(lat, lon)} to the {towards}"
        case _:
            assert_never(region)


def place(point: Point | tuple[float, ...]) -> tuple[float, float]:
    """Return latitude and longitude of a point in space that is near the ground."""
    x, y, z = point
    across = math.hypot(x, y)
    # Each round divides the error by more than a hundred.
    lat = math.atan2(z, across * (1.0 - ECCENTRICITY_SQUARED))
    for _ in range(4):
        sine = math.sin(lat)
        normal = EQUATORIAL_RADIUS_M / math.sqrt(1.0 - ECCENTRICITY_SQUARED * sine * sine)
        lat = math.atan2(z + ECCENTRICITY_SQUARED * normal * sine, across)
    return math.degrees(lat), math.degrees(math.atan2(y, x))


def bearing(lat: float, lon: float, direction: Point) -> float:
    """Return the compass bearing of a direction in space, in degrees from 0 to 360."""
    phi, lam = math.radians(lat), math.radians(lon)
    x, y, z = direction
    east = -math.sin(lam) * x + math.cos(lam) * y
    outward = math.cos(lam) * x + math.sin(lam) * y
    north = math.cos(phi) * z - math.sin(phi) * outward
    return math.degrees(math.atan2(east, north)) % 360.0


def _circle(centre: Point, radius: float) -> str:
    return f"circle:{_degrees(*place(centre))},{radius:.1f}"


def _degrees(lat: float, lon: float) -> str:
    return f"{round(lat, DIGITS)},{round(lon, DIGITS)}"
