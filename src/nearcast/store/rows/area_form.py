"""The stored form of areas: their JSON, except for boxes.

A box is `[south, west, north, east]`, as every release has written it; in the API it is `[west,
south, east, north]`, as in GeoJSON.
"""

from nearcast.core.model.geometry.area import Area, Box
from nearcast.core.model.geometry.forms.area_json import JsonObject, area_from_json, area_json

_BOX = "bbox"


def stored_area(area: Area) -> JsonObject:
    """Return the stored form of an area."""
    if isinstance(area, Box):
        return {_BOX: [area.south, area.west, area.north, area.east]}
    return area_json(area)


def area_from_store(value: object) -> Area:
    """Return the area of a stored form; raises `ModelError`."""
    if isinstance(value, dict) and value.keys() == {_BOX} and isinstance(value[_BOX], list):
        south, west, north, east = value[_BOX]
        return Box(south, west, north, east)
    return area_from_json(value)
