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

from nearcast.core.model.area import (
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
from nearcast.core.model.area_json import area_from_json, area_json_text, parse_json
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.names import parse_place, place_text, unescaped
from nearcast.core.model.position import parse_number, plain, position, shown
from nearcast.core.model.rings import Ring
from nearcast.core.model.wkt import parse_wkt

LONGEST_TEXT_BYTES = 256 * 1024
_FORMS = (
    "circle:LAT,LON,METRES, circle:me,METRES, circle:NODE,METRES, bbox:SOUTH,WEST,NORTH,EAST, "
    "place:NAME, place:KIND/NAME, place:here/KIND, WKT or GeoJSON"
)


def parse_area(source: str | bytes | Mapping[str, object]) -> Area:
    """Return the area that a text or a parsed JSON object describes, or raise `ModelError`."""
    if isinstance(source, Mapping):
        return area_from_json(source)
    text = _checked_text(source)
    if text.startswith("{"):
        return area_from_json(parse_json(text))
    word, colon, rest = text.partition(":")
    reader = _READERS.get(word.strip().lower()) if colon else None
    if reader is not None:
        return reader(rest.strip())
    shape = re.match(r"[A-Za-z]*", text)
    keyword = shape.group() if shape else ""
    if keyword.upper() in ("POLYGON", "MULTIPOLYGON"):
        return parse_wkt(text)
    if keyword.upper() == "POINT":
        raise ModelError("a point has no area; write circle:LAT,LON,METRES")
    known = [*_READERS, "polygon", "multipolygon"]
    raise ModelError(
        f"{shown(text)} is not an area{did_you_mean(keyword.lower(), known)}; "
        f"an area is one of {_FORMS}"
    )


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


def _parse_circle(text: str) -> Circle | Around:
    fields = text.split(",")
    if len(fields) == 2 or (len(fields) == 3 and fields[2].strip().startswith("offset=")):
        return _parse_moving_circle(fields)
    if len(fields) != 3:
        raise ModelError(
            f"circle:{text} has {len(fields)} fields; write circle:LAT,LON,METRES or "
            "circle:NODE,METRES"
        )
    lat, lon = parse_number(fields[0], "latitude"), parse_number(fields[1], "longitude")
    return Circle(position(lat, lon), parse_number(fields[2], "radius"))


def _parse_moving_circle(fields: list[str]) -> Around:
    anchor = unescaped(fields[0].strip())
    if not anchor:
        raise ModelError("the centre before the comma is missing; write circle:NODE,METRES")
    radius_m = parse_number(fields[1], "radius")
    if len(fields) == 2:
        return Around(anchor, MovingCircle(radius_m))
    metres = fields[2].strip().removeprefix("offset=").split(";")
    if len(metres) != 2:
        raise ModelError(f"{shown(fields[2])} is not offset=EAST;NORTH, two numbers of metres")
    east_m = parse_number(metres[0], "offset east")
    north_m = parse_number(metres[1], "offset north")
    return Around(anchor, MovingCircle(radius_m, east_m, north_m))


def _parse_box(text: str) -> Box:
    fields = text.split(",")
    if len(fields) != 4:
        raise ModelError(
            f"bbox:{text} has {len(fields)} numbers of 4; write bbox:SOUTH,WEST,NORTH,EAST"
        )
    names = ("south", "west", "north", "east")
    return Box(*(parse_number(field, name) for field, name in zip(fields, names, strict=True)))


_READERS: dict[str, Callable[[str], Area]] = {
    "circle": _parse_circle,
    "bbox": _parse_box,
    "place": parse_place,
}


def _rings_text(rings: tuple[Ring, ...]) -> str:
    lines = (", ".join(f"{plain(lon)} {plain(lat)}" for lon, lat in ring) for ring in rings)
    return "(" + ", ".join(f"({line})" for line in lines) + ")"
