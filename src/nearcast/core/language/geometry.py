"""Checks of geometry literals, in WKT and GeoJSON alike: ranges, closed rings, heights.

A point is (longitude, latitude) in degrees, with or without a height in metres. Crossing rings
are not checked here: such a geometry is accepted, and its predicates are unknown.
"""

import math

from nearcast.core.degrees import LARGEST_LATITUDE, LARGEST_LONGITUDE, clamped

Point = tuple[float, ...]

WKT_NAMES = {
    "POINT": "Point",
    "LINESTRING": "LineString",
    "POLYGON": "Polygon",
    "MULTIPOINT": "MultiPoint",
    "MULTILINESTRING": "MultiLineString",
    "MULTIPOLYGON": "MultiPolygon",
    "GEOMETRYCOLLECTION": "GeometryCollection",
}
# The nesting depth of the points in the coordinates of each type.
LEVELS = {
    "Point": 0,
    "LineString": 1,
    "MultiPoint": 1,
    "Polygon": 2,
    "MultiLineString": 2,
    "MultiPolygon": 3,
}


def clamped_point(point: Point) -> Point:
    """Return a point with longitude and latitude clamped if beyond the limits by rounding."""
    if len(point) < 2:
        return point
    lon, lat, *height = point
    return clamped(lon, LARGEST_LONGITUDE), clamped(lat, LARGEST_LATITUDE), *height


def clamped_box(values: Point) -> Point:
    """Return the corners of a box, clamped likewise."""
    half = len(values) // 2
    return (*clamped_point(values[:half]), *clamped_point(values[half:]))


def problem_with_point(point: Point) -> str | None:
    """Return an error message for one point, or None."""
    if not 2 <= len(point) <= 3:
        return f"A point has two or three numbers, not {len(point)}: longitude, latitude, height."
    if not all(math.isfinite(c) for c in point):
        return "A coordinate must be a finite number."
    lon, lat = point[0], point[1]
    if not -180 <= lon <= 180:
        return f"Longitude {degrees(lon)} is beyond 180; a point is longitude first, then latitude."
    if not -90 <= lat <= 90:
        return f"Latitude {degrees(lat)} is beyond 90; a point is longitude first, then latitude."
    return None


def problem_with_points(type_: str, points: tuple[Point, ...]) -> str | None:
    """Return an error message for a line, a polygon's ring or a MultiPoint, or None."""
    if len({len(point) for point in points}) > 1:
        return "Some points have a height and some have none; give it to all or to none."
    if type_ in ("LineString", "MultiLineString") and len(points) < 2:
        return "A line needs at least two points."
    if type_ in ("Polygon", "MultiPolygon"):
        if points[0] != points[-1]:
            first = " ".join(map(degrees, points[0]))
            return f"The ring is open: its last point must be its first, {first}."
        if len(points) < 4:
            return "A ring needs at least four points, the last being the first."
    return None


def problem_with_box(values: tuple[float, ...]) -> str | None:
    """Return an error message for a bounding box, or None; west > east is allowed."""
    if len(values) not in (4, 6):
        return f"A box has four or six numbers, not {len(values)}: west, south, east, north."
    half = len(values) // 2
    low, high = values[:half], values[half:]
    problem = problem_with_point(low) or problem_with_point(high)
    if problem:
        return problem
    if low[1] > high[1]:
        return f"The south, {degrees(low[1])}, lies above the north, {degrees(high[1])}; swap them."
    if half == 3 and low[2] > high[2]:
        heights = f"{degrees(low[2])}, is above the highest, {degrees(high[2])}"
        return f"The lowest height, {heights}; swap them."
    return None


def degrees(value: float) -> str:
    """Return a coordinate with all its digits and without a trailing ``.0``."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
