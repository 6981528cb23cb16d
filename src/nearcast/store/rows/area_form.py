"""The stored form of areas: their JSON, except for boxes.

A box is `[south, west, north, east]`, as every release has written it; in the API it is `[west,
south, east, north]`, as in GeoJSON.
"""

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.area import Area, Box
from nearcast.core.model.geometry.forms.area_json import JsonObject, area_from_json, area_json
from nearcast.core.model.geometry.position import shown

_BOX = "bbox"


def stored_area(area: Area) -> JsonObject:
    """Return the stored form of an area."""
    if isinstance(area, Box):
        return {_BOX: [area.south, area.west, area.north, area.east]}
    return area_json(area)


def area_from_store(value: object) -> Area:
    """Return the area of a stored form; raises `ModelError`."""
    if isinstance(value, dict) and value.keys() == {_BOX} and isinstance(value[_BOX], list):
        sides = value[_BOX]
        if len(sides) != 4:
            raise ModelError(f"a box has four sides, not {shown(sides)}")
        return Box(*sides)
    return area_from_json(value)
