"""Areas as JSON: GeoJSON polygons, and objects of ours for what GeoJSON cannot say.

    a Polygon or MultiPolygon geometry, or a Feature of one
    {"circle": {"center": [lon, lat] or "me" or NODE, "radius": m, "offset": [east_m, north_m]}}
    {"bbox": [west, south, east, north]}
    {"place": "NAME" or "KIND/NAME" or "here/KIND"}
    {"moving": {"with": "me" or NODE, "polygon": [[[east_m, north_m], ...], ...]}}
    {"moving": {"with": ..., "multipolygon": [[[[east_m, north_m], ...], ...], ...]}}
    {"moving": {"with": ..., "box": {"width": m, "height": m, "offset": [east_m, north_m]}}}

Ids and names are percent-encoded, as in text. An offset goes with a moving centre (seed D's
reference point). `area_json` writes what `area_from_json` reads back as an equal area.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from nearcast.core.excerpts import reason
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.area import (
    Area,
    Around,
    Box,
    Circle,
    MovingPolygons,
    MovingShape,
    MultiPolygon,
    PlaceArea,
    PlaceHere,
    Polygon,
    circle,
    moving_box,
)
from nearcast.core.model.geometry.forms.area_names import parse_place, place_text, unescaped
from nearcast.core.model.geometry.position import position_from_json, shown
from nearcast.core.model.geometry.rings import LARGEST_VERTEX_COUNT, Ring

_GEOMETRIES = ("Polygon", "MultiPolygon")
_OURS = ("circle", "bbox", "place", "moving")

JsonObject = dict[str, object]


def area_from_json(value: object, largest: int = LARGEST_VERTEX_COUNT) -> Area:
    """Return the area, of `largest` points at most, that a parsed JSON object describes."""
    members = _members(value, "an area in JSON")
    if "type" in members:
        return geometry_from_json(members, largest)
    if len(members) != 1:
        raise ModelError(
            f"an area in JSON is a GeoJSON geometry, or has one member of {', '.join(_OURS)}, "
            f"not {shown(sorted(members))}"
        )
    ((word, inner),) = members.items()
    if word == "circle":
        return _circle(_members(inner, "circle"))
    if word == "bbox":
        west, south, east, north = _items(inner, "bbox", "[west, south, east, north]", 4)
        return Box(south, west, north, east)  # type: ignore[arg-type]  # Box checks them
    if word == "place":
        if not isinstance(inner, str):
            raise ModelError(f'a place is "NAME" or "KIND/NAME", not {shown(inner)}')
        return parse_place(inner)
    if word == "moving":
        return _moving(_members(inner, "moving"), largest)
    raise ModelError(
        f"{shown(word)} is not an area{did_you_mean(word, (*_OURS, 'type'))}; "
        f"areas in JSON are GeoJSON or one of {', '.join(_OURS)}"
    )


def geometry_from_json(
    value: object, largest: int = LARGEST_VERTEX_COUNT
) -> Polygon | MultiPolygon:
    """Return the polygon or multipolygon, of `largest` points at most, of a geometry or Feature."""
    members = _members(value, "a GeoJSON geometry")
    kind = members.get("type")
    if kind == "Feature":
        members = _members(members.get("geometry"), "the geometry of a Feature")
        kind = members.get("type")
    if kind == "Polygon":
        return _polygon(members.get("coordinates"), _Budget(largest))
    if kind == "MultiPolygon":
        polygons = _items(members.get("coordinates"), "coordinates", "a list of polygons")
        budget = _Budget(largest)
        return MultiPolygon(tuple(_polygon(rings, budget) for rings in polygons))
    if kind == "Point":
        raise ModelError("a Point has no area; give a circle with a center and a radius")
    if kind == "FeatureCollection":
        raise ModelError("a FeatureCollection is many areas; give one Feature or geometry")
    hint = did_you_mean(kind, _GEOMETRIES) if isinstance(kind, str) else ""
    raise ModelError(f"type {shown(kind)} is not Polygon, MultiPolygon or Feature{hint}")


def area_json(area: Area) -> JsonObject:
    """Return an area as a JSON object, whose arrays of points are tuples."""
    if isinstance(area, Polygon):
        return {"type": "Polygon", "coordinates": area.rings}
    if isinstance(area, MultiPolygon):
        coordinates = [polygon.rings for polygon in area.polygons]
        return {"type": "MultiPolygon", "coordinates": coordinates}
    if isinstance(area, Circle):
        center = [area.center.lon, area.center.lat]
        return {"circle": {"center": center, "radius": area.radius_m}}
    if isinstance(area, Box):
        return {"bbox": [area.west, area.south, area.east, area.north]}
    if isinstance(area, PlaceArea | PlaceHere):
        return {"place": place_text(area)}
    anchor = quote(area.anchor, safe="")
    if isinstance(area.shape, MovingPolygons):
        polygons = area.shape.polygons
        if len(polygons) == 1:
            return {"moving": {"with": anchor, "polygon": polygons[0]}}
        return {"moving": {"with": anchor, "multipolygon": polygons}}
    moving: JsonObject = {"center": anchor, "radius": area.shape.radius_m}
    if area.shape.east_m != 0.0 or area.shape.north_m != 0.0:
        moving["offset"] = [area.shape.east_m, area.shape.north_m]
    return {"circle": moving}


def area_json_text(area: Area) -> str:
    """Return an area as JSON text."""
    return msgspec.json.encode(area_json(area)).decode()


def parse_json(text: str | bytes) -> object:
    """Return parsed JSON, or raise `ModelError` for what is not JSON or too deep."""
    try:
        parsed: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ModelError(f"not valid JSON: {reason(error)}") from None
    return parsed


def _circle(members: Mapping[str, object]) -> Circle | Around:
    _only(members, "circle", ("center", "radius"), ("offset",))
    center, radius, offset = members["center"], members["radius"], members.get("offset", (0, 0))
    where = unescaped(center) if isinstance(center, str) else position_from_json(center)
    return circle(where, radius, offset=offset)  # type: ignore[arg-type]  # circle checks them


def _moving(members: Mapping[str, object], largest: int) -> Around:
    shapes = [word for word in ("polygon", "multipolygon", "box") if word in members]
    if len(shapes) != 1:
        raise ModelError(
            "what moves has one of polygon, multipolygon or box "
            f"(a moving circle is a circle with a node as its center), not {shown(shapes)}"
        )
    _only(members, "moving", ("with", shapes[0]), ())
    anchor = members["with"]
    if not isinstance(anchor, str):
        raise ModelError(f'"with" is "me" or the id of a node, not {shown(anchor)}')
    shape = _moving_shape(shapes[0], members[shapes[0]], largest)
    return Around(unescaped(anchor), shape)


def _moving_shape(word: str, value: object, largest: int) -> MovingShape:
    if word == "box":
        members = _members(value, "box")
        _only(members, "box", ("width", "height"), ("offset",))
        width, height, offset = members["width"], members["height"], members.get("offset", (0, 0))
        return moving_box(width, height, offset)  # type: ignore[arg-type]  # it checks them
    polygons = [value] if word == "polygon" else _items(value, word, "a list of polygons")
    budget = _Budget(largest)
    return MovingPolygons(tuple(_rings(rings, budget) for rings in polygons))


class _Budget:
    """The number of points an area may still have; excess is refused before it is copied."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._spent = 0

    def spend(self, points: int) -> None:
        self._spent += points
        if self._spent > self._largest:
            raise ModelError(f"an area has at most {self._largest} points; simplify it")


def _polygon(coordinates: object, budget: _Budget) -> Polygon:
    return Polygon(_rings(coordinates, budget))


def _rings(value: object, budget: _Budget) -> tuple[Ring, ...]:
    """Return the lists of a polygon unchecked; the area checks each point."""
    rings: list[Ring] = []
    for ring in _items(value, "a polygon's coordinates", "a list of rings"):
        line = _items(ring, "a ring", "a list of points")
        budget.spend(len(line))
        rings.append(tuple(line))  # type: ignore[arg-type]  # see above
    return tuple(rings)


def _members(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ModelError(f"{what} is an object with members, not {shown(value)}")
    return value


def _items(value: object, what: str, form: str, count: int | None = None) -> Sequence[object]:
    if not isinstance(value, list | tuple) or count not in (None, len(value)):
        raise ModelError(f"{what} must be {form}, not {shown(value)}")
    return value


def _only(
    members: Mapping[str, object], what: str, needed: Sequence[str], optional: Sequence[str]
) -> None:
    for word in needed:
        if word not in members:
            raise ModelError(f'{what} lacks "{word}"; it has {", ".join((*needed, *optional))}')
    for word in members:
        if word not in needed and word not in optional:
            hint = did_you_mean(word, (*needed, *optional))
            raise ModelError(f"{what} has no member {shown(word)}{hint}")
