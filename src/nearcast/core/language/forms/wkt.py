"""Geometry literals in text: well-known text and ``BBOX(west, south, east, north)``."""

from nearcast.core.language.ast import BBox, Coordinates, Geometry
from nearcast.core.language.errors import LanguageError
from nearcast.core.language.forms.tokens import Reader
from nearcast.core.language.geometry import (
    LEVELS,
    WKT_NAMES,
    Point,
    clamped_box,
    clamped_point,
    degrees,
    problem_with_box,
    problem_with_point,
    problem_with_points,
)
from nearcast.core.language.limits import MAX_VERTICES

KEYWORDS = {type_: name for name, type_ in WKT_NAMES.items()}


def starts_geometry(reader: Reader) -> bool:
    """Return whether a geometry literal is next, and not a property called ``point``."""
    if reader.next.word != "BBOX" and reader.next.word not in WKT_NAMES:
        return False
    return reader.after.text == "(" or reader.after.word in ("Z", "M", "ZM", "EMPTY")


def read_wkt(reader: Reader) -> Geometry | BBox:
    """Consume a geometry literal and return it."""
    name = reader.take()
    if name.word == "BBOX":
        return read_box(reader, name.start)
    type_ = WKT_NAMES[name.word]
    with_height = reader.takes_word("Z")
    if reader.next.word:
        raise reader.error(
            f"Expected ( after {name.word} but found {reader.next.text}; "
            "geometries have points, and Z for heights.",
            reader.next,
        )
    opening = reader.open(name.word)
    if type_ == "GeometryCollection":
        parts: list[Geometry] = []
        while not parts or reader.takes(","):
            parts.append(read_part(reader))
        reader.close(opening)
        return Geometry(type_, (), tuple(parts))
    reading = WktCoordinates(reader, type_, with_height)
    coordinates = reading.nested(LEVELS[type_])
    reader.close(opening)
    if len(reading.sizes) > 1:
        raise reader.error("Some points have a height and some have none.", name)
    return Geometry(type_, coordinates)


def read_part(reader: Reader) -> Geometry:
    """Consume one member of a collection; CQL2 does not nest collections."""
    if not starts_geometry(reader) or reader.next.word in ("BBOX", "GEOMETRYCOLLECTION"):
        raise reader.error(
            "A GEOMETRYCOLLECTION holds geometries such as POINT(-6.26 53.35), "
            f"not {reader.next.named()}.",
            reader.next,
        )
    part = read_wkt(reader)
    assert isinstance(part, Geometry)
    return part


def read_box(reader: Reader, start: int) -> BBox:
    """Consume the brackets and numbers of a box, and return it."""
    opening = reader.open("BBOX")
    values = [reader.signed_number("-6.3")]
    while reader.takes(","):
        values.append(reader.signed_number("53.35"))
    reader.close(opening)
    box = clamped_box(tuple(values))
    problem = problem_with_box(box)
    if problem:
        raise reader.error(problem, start)
    return BBox(box)


class WktCoordinates:
    """Reads and checks the coordinates of one geometry, with errors at their position."""

    def __init__(self, reader: Reader, type_: str, with_height: bool) -> None:
        self.reader = reader
        self.type = type_
        self.with_height = with_height
        self.count = 0
        self.sizes: set[int] = set()

    def nested(self, level: int) -> Coordinates:
        """Read the content of a pair of brackets that is `level` levels above the points."""
        if level == 0:
            return self.point()
        if level == 1:
            return self.points()
        lists: list[Coordinates] = []
        while not lists or self.reader.takes(","):
            opening = self.reader.open(f"each part of a {KEYWORDS[self.type]}")
            lists.append(self.nested(level - 1))
            self.reader.close(opening)
        return tuple(lists)

    def points(self) -> tuple[Point, ...]:
        """Read points separated by commas; those of a MULTIPOINT may be in brackets."""
        start = self.reader.next.start
        points: list[Point] = []
        while not points or self.reader.takes(","):
            opening = self.reader.next
            if self.type == "MultiPoint" and self.reader.takes("("):
                points.append(self.point())
                self.reader.close(opening)
            else:
                points.append(self.point())
        problem = problem_with_points(self.type, tuple(points))
        if problem:
            raise self.reader.error(problem, start)
        return tuple(points)

    def point(self) -> Point:
        """Read one point of two or three numbers."""
        start = self.reader.next.start
        numbers = [self.reader.signed_number("-6.26")]
        while self.reader.next.kind == "number" or self.reader.next.text in ("-", "+"):
            numbers.append(self.reader.signed_number("53.35"))
        point = clamped_point(tuple(numbers))
        problem = problem_with_point(point)
        if problem is None and self.with_height and len(point) == 2:
            problem = "After Z every point has three numbers: longitude, latitude, height."
        if problem is None and self.count >= MAX_VERTICES:
            problem = f"The geometry has more than {MAX_VERTICES} points."
        if problem:
            raise LanguageError(problem, self.reader.text, start)
        self.count += 1
        self.sizes.add(len(point))
        return point


def write_wkt(geometry: Geometry | BBox) -> str:
    """Return the literal that parses to this geometry."""
    if isinstance(geometry, BBox):
        return f"BBOX({', '.join(degrees(v) for v in geometry.values)})"
    name = KEYWORDS[geometry.type]
    if geometry.geometries:
        return f"{name}({', '.join(write_wkt(part) for part in geometry.geometries)})"
    body = write_coordinates(geometry.coordinates, brackets_points=geometry.type == "MultiPoint")
    if geometry.type == "Point":
        body = f"({body})"
    return f"{name}{' Z' if has_height(geometry.coordinates) else ''}{body}"


def write_coordinates(coordinates: Coordinates, brackets_points: bool) -> str:
    """Return points as ``lon lat`` and lists of them in brackets."""
    if not isinstance(coordinates[0], tuple):
        return " ".join(map(degrees, coordinates))
    written = [write_coordinates(part, brackets_points) for part in coordinates]
    if brackets_points:
        written = [f"({point})" for point in written]
    return f"({', '.join(written)})"


def has_height(coordinates: Coordinates) -> bool:
    """Return whether the points have three numbers."""
    while isinstance(coordinates[0], tuple):
        coordinates = coordinates[0]
    return len(coordinates) == 3
