"""Areas as text: the forms people type and properties carry.

    circle:LAT,LON,METRES        circle:me,METRES        circle:NODE,METRES
    circle:NODE,METRES,offset=EAST;NORTH    (metres from the node to the centre)
    bbox:SOUTH,WEST,NORTH,EAST   place:NAME   place:KIND/NAME   place:here/KIND
    POLYGON((LON LAT, ...))      MULTIPOLYGON(((LON LAT, ...)))     any JSON form

Ids and names are percent-encoded. `parse_area` reads text or parsed JSON and refuses anything
else with what would be right; `area_text` writes what `parse_area` reads back as an equal area.
Reading takes time linear in the text, which is bounded.
"""

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote

from nearcast.core.degrees import LARGEST_LATITUDE, clamped
from nearcast.core.model.errors import MisreadError, ModelError, did_you_mean
from nearcast.core.model.geometry.area import (
    Area,
    Around,
    Box,
    Circle,
    MovingCircle,
    MultiPolygon,
    PlaceArea,
    PlaceHere,
    Polygon,
)
from nearcast.core.model.geometry.forms.area_json import area_from_json, area_json_text, parse_json
from nearcast.core.model.geometry.forms.area_names import parse_place, place_text, unescaped
from nearcast.core.model.geometry.forms.wkt import parse_wkt
from nearcast.core.model.geometry.position import parse_number, plain, position, shown
from nearcast.core.model.geometry.rings import LARGEST_VERTEX_COUNT, Ring

LONGEST_TEXT_BYTES = 256 * 1024
_FORMS = (
    "circle:LAT,LON,METRES, circle:me,METRES, circle:NODE,METRES, bbox:SOUTH,WEST,NORTH,EAST, "
    "place:NAME, place:KIND/NAME, place:here/KIND, WKT or GeoJSON"
)


def parse_area(
    source: str | bytes | Mapping[str, object], largest: int = LARGEST_VERTEX_COUNT
) -> Area:
    """Return the area that a text or a parsed JSON object describes, or raise `ModelError`.

    It may have `largest` points.
    """
    if isinstance(source, Mapping):
        return area_from_json(source, largest)
    text = _checked_text(source)
    if text.startswith("{"):
        return area_from_json(parse_json(text), largest)
    word, colon, rest = text.partition(":")
    reader = _READERS.get(word.strip().lower()) if colon else None
    fields = _Fields(text, len(text) - len(rest.lstrip()) if colon else 0)
    try:
        return _read(text, fields, largest) if reader is None else reader(fields)
    except MisreadError:
        raise
    except ModelError as error:
        raise MisreadError(str(error), text, fields.at) from None


def _read(text: str, fields: "_Fields", largest: int) -> Area:
    """Parse text that is none of the forms with a colon."""
    fields.at = 0
    shape = re.match(r"[A-Za-z]*", text)
    keyword = shape.group() if shape else ""
    if keyword.upper() in ("POLYGON", "MULTIPOLYGON"):
        return parse_wkt(text, largest)
    if keyword.upper() == "POINT":
        raise ModelError("a point has no area; write circle:LAT,LON,METRES")
    known = [*_READERS, "polygon", "multipolygon"]
    why = f"{shown(text)} is not an area{did_you_mean(keyword.lower(), known)}"
    raise ModelError(f"{why}; an area is one of {_FORMS}")


def area_text(area: Area) -> str:
    """Return the shortest text for an area."""
    if isinstance(area, Circle):
        center = f"{plain(area.center.lat)},{plain(area.center.lon)}"
        return f"circle:{center},{plain(area.radius_m)}"
    if isinstance(area, Box):
        sides = (area.south, area.west, area.north, area.east)
        return "bbox:" + ",".join(plain(side) for side in sides)
    if isinstance(area, Polygon):
        return f"POLYGON{_rings_text(area.rings)}"
    if isinstance(area, MultiPolygon):
        polygons = ",".join(_rings_text(polygon.rings) for polygon in area.polygons)
        return f"MULTIPOLYGON({polygons})"
    if isinstance(area, PlaceArea | PlaceHere):
        return f"place:{place_text(area)}"
    if not isinstance(area.shape, MovingCircle):
        return area_json_text(area)
    circle = area.shape
    text = f"circle:{quote(area.anchor, safe='')},{plain(circle.radius_m)}"
    if circle.east_m == 0.0 and circle.north_m == 0.0:
        return text
    return f"{text},offset={plain(circle.east_m)};{plain(circle.north_m)}"


def _checked_text(source: object) -> str:
    if not isinstance(source, str | bytes):
        raise ModelError(f"an area is text or a JSON object, not {shown(source)}")
    # A character is at least one byte, so this bounds the work of encoding too.
    if len(source) > LONGEST_TEXT_BYTES or (
        isinstance(source, str) and len(source.encode("utf-8", "replace")) > LONGEST_TEXT_BYTES
    ):
        raise ModelError(f"an area's text is at most {LONGEST_TEXT_BYTES} bytes, not more")
    if isinstance(source, bytes):
        try:
            source = source.decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError("an area's text must be UTF-8") from None
    text = source.strip()
    if not text:
        raise ModelError(f"an area is empty; write one of {_FORMS}")
    return text


class _Fields:
    """The fields after the colon, between commas, and the offset of the one being read."""

    def __init__(self, text: str, start: int) -> None:
        self.rest = text[start:]
        self.all = self.rest.split(",")
        self._start = start
        self.at = start

    def __len__(self) -> int:
        return len(self.all)

    def take(self, number: int) -> str:
        """Return a field, and set the offset to it."""
        before = sum(len(field) + 1 for field in self.all[:number])
        field = self.all[number]
        self.at = self._start + before + len(field) - len(field.lstrip())
        return field.strip()

    def number(self, number: int, what: str) -> float:
        """Return a field as a number."""
        return parse_number(self.take(number), what)


def _parse_circle(fields: _Fields) -> Circle | Around:
    count = len(fields)
    if count == 2 or (count == 3 and fields.all[2].strip().startswith("offset=")):
        return _parse_moving_circle(fields)
    if count != 3:
        raise ModelError(
            f"{shown(f'circle:{fields.rest}')} has {count} fields; write circle:LAT,LON,METRES "
            "or circle:NODE,METRES"
        )
    lat, lon = fields.number(0, "latitude"), fields.number(1, "longitude")
    radius_m = fields.number(2, "radius")
    fields.take(int(abs(clamped(lat, LARGEST_LATITUDE)) <= LARGEST_LATITUDE))
    center = position(lat, lon)
    fields.take(2)
    return Circle(center, radius_m)


def _parse_moving_circle(fields: _Fields) -> Around:
    anchor = unescaped(fields.take(0))
    if not anchor:
        raise ModelError("the centre before the comma is missing; write circle:NODE,METRES")
    radius_m = fields.number(1, "radius")
    if len(fields) == 2:
        return Around(anchor, MovingCircle(radius_m))
    offset = fields.take(2)
    metres = offset.removeprefix("offset=").split(";")
    if len(metres) != 2:
        raise ModelError(f"{shown(offset)} is not offset=EAST;NORTH, two numbers of metres")
    east_m = parse_number(metres[0], "offset east")
    north_m = parse_number(metres[1], "offset north")
    fields.take(1)
    return Around(anchor, MovingCircle(radius_m, east_m, north_m))


def _parse_box(fields: _Fields) -> Box:
    if len(fields) != 4:
        raise ModelError(
            f"{shown(f'bbox:{fields.rest}')} has {len(fields)} numbers of 4; write "
            "bbox:SOUTH,WEST,NORTH,EAST"
        )
    names = ("south", "west", "north", "east")
    sides = [fields.number(i, name) for i, name in enumerate(names)]
    fields.take(0)
    return Box(*sides)


def _parse_place(fields: _Fields) -> Area:
    return parse_place(fields.rest)


_READERS: dict[str, Callable[[_Fields], Area]] = {
    "circle": _parse_circle,
    "bbox": _parse_box,
    "place": _parse_place,
}


def _rings_text(rings: tuple[Ring, ...]) -> str:
    lines = (", ".join(f"{plain(lon)} {plain(lat)}" for lon, lat in ring) for ring in rings)
    return "(" + ", ".join(f"({line})" for line in lines) + ")"
