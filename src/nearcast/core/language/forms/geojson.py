"""Geometry literals in JSON: GeoJSON geometries and ``{"bbox": [...]}``."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeGuard

from nearcast.core.language.ast import BBox, Coordinates, Geometry
from nearcast.core.language.errors import LanguageError
from nearcast.core.language.geometry import (
    LEVELS,
    Point,
    clamped_box,
    clamped_point,
    problem_with_box,
    problem_with_point,
    problem_with_points,
)
from nearcast.core.language.limits import MAX_VERTICES

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


def read_geojson(value: Mapping[str, object], path: str = "$") -> Geometry:
    """Return the geometry of a JSON object; raise LanguageError if it is invalid."""
    type_ = value.get("type")
    extra = set(value) - {"type", "bbox", "coordinates", "geometries"}
    if extra:
        raise refused(path, f"a geometry has no member {sorted(map(str, extra))[0][:40]!r}.")
    if type_ == "GeometryCollection":
        parts = value.get("geometries")
        if not is_list(parts) or not parts or "coordinates" in value:
            raise refused(path, "a GeometryCollection has geometries, a list of at least one.")
        if len(parts) > MAX_VERTICES:
            raise refused(path, f"more than {MAX_VERTICES} points.")
        return Geometry(type_, (), tuple(read_part(p, path, i) for i, p in enumerate(parts)))
    if not isinstance(type_, str) or type_ not in LEVELS:
        raise refused(f"{path}.type", f"expected one of {', '.join(LEVELS)} or GeometryCollection.")
    if "coordinates" not in value or "geometries" in value:
        raise refused(path, f"a {type_} has coordinates.")
    reading = JsonCoordinates(type_)
    coordinates = reading.nested(value["coordinates"], LEVELS[type_], f"{path}.coordinates")
    if len(reading.sizes) > 1:
        raise refused(path, "some points have a height and some have none.")
    return Geometry(type_, coordinates)


def read_part(value: object, path: str, index: int) -> Geometry:
    """Return one member of a collection; CQL2 does not nest collections."""
    place = f"{path}.geometries[{index}]"
    if not isinstance(value, Mapping) or value.get("type") == "GeometryCollection":
        raise refused(place, f"expected one of {', '.join(LEVELS)}.")
    return read_geojson(value, place)


def read_box(value: object, path: str) -> BBox:
    """Return the box of four or six numbers."""
    if not is_list(value):
        raise refused(path, "expected a list of numbers: west, south, east, north.")
    if len(value) > 6:
        raise refused(path, "A box has four or six numbers: west, south, east, north.")
    values = clamped_box(tuple(coordinate(v, f"{path}[{i}]") for i, v in enumerate(value)))
    problem = problem_with_box(values)
    if problem:
        raise refused(path, problem)
    return BBox(values)


class JsonCoordinates:
    """Reads and checks the coordinates of one geometry, with errors at their path."""

    def __init__(self, type_: str) -> None:
        self.type = type_
        self.count = 0
        self.sizes: set[int] = set()

    def nested(self, value: object, level: int, path: str) -> Coordinates:
        """Return the coordinates of a list that is `level` levels above the points."""
        if not is_list(value) or not value:
            raise refused(path, "expected a list that is not empty.")
        if level == 0:
            return self.point(value, path)
        if len(value) > MAX_VERTICES:
            raise refused(path, f"the geometry has more than {MAX_VERTICES} points.")
        if level > 1:
            return tuple(self.nested(v, level - 1, f"{path}[{i}]") for i, v in enumerate(value))
        points: list[Point] = []
        for index, item in enumerate(value):
            place = f"{path}[{index}]"
            if not is_list(item):
                raise refused(place, "expected a point: [longitude, latitude].")
            points.append(self.point(item, place))
        problem = problem_with_points(self.type, tuple(points))
        if problem:
            raise refused(path, problem)
        return tuple(points)

    def point(self, value: Sequence[object], path: str) -> Point:
        """Return one point."""
        if len(value) > 3:
            raise refused(path, "A point has two or three numbers.")
        point = clamped_point(tuple(coordinate(v, f"{path}[{i}]") for i, v in enumerate(value)))
        problem = problem_with_point(point)
        if problem is None and self.count >= MAX_VERTICES:
            problem = f"The geometry has more than {MAX_VERTICES} points."
        if problem:
            raise refused(path, problem)
        self.count += 1
        self.sizes.add(len(point))
        return point


def coordinate(value: object, path: str) -> float:
    """Return a number as a float; -0 becomes 0, so that equal positions are written alike."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refused(path, "expected a number.")
    try:
        return float(value) + 0.0
    except OverflowError:
        raise refused(path, "the number is too large.") from None


def write_geojson(geometry: Geometry | BBox) -> dict[str, Json]:
    """Return the JSON object that parses to this geometry."""
    if isinstance(geometry, BBox):
        return {"bbox": list(geometry.values)}
    if geometry.geometries:
        parts: list[Json] = [write_geojson(part) for part in geometry.geometries]
        return {"type": geometry.type, "geometries": parts}
    return {"type": geometry.type, "coordinates": listed(geometry.coordinates)}


def listed(coordinates: Coordinates) -> list[Json]:
    """Return nested tuples as nested lists."""
    return [listed(c) if isinstance(c, tuple) else c for c in coordinates]


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether a value is a JSON array."""
    return isinstance(value, list | tuple)


def refused(path: str, message: str) -> LanguageError:
    """Return an error whose message begins with the path in the JSON value."""
    return LanguageError(f"{path}: {message}")
