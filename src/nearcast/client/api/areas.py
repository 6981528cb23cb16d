"""Where, in a program: areas as values, and what any of them is in a message.

`circle`, `box`, `polygon`, `place` and `here` make the areas of the core; a circle may be drawn
round a connected node, and moves with it. Wherever an area is wanted, its text or its JSON will
do, and is left to the broker to read.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from nearcast.core.model import Area, Around, Circle, PlaceHere, Position, area_json, area_text
from nearcast.core.model import circle as core_circle
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.area import MultiPolygon, Polygon
from nearcast.core.model.geometry.position import plain, position

AreaLike = Area | str | Mapping[str, object]
"""An area, its text such as `circle:me,500`, or its JSON."""

PositionLike = Position | Sequence[float]
"""A position, or a pair of latitude and longitude."""


class HasNode(Protocol):
    """Something that is a node, such as a connection."""

    @property
    def node(self) -> str:
        """The node's id."""


def circle(
    center: HasNode | PositionLike | str, radius_m: float, *, offset: Sequence[float] = (0, 0)
) -> Circle | Around:
    """Return a circle round a node, a position or a (lat, lon) pair.

    A node is a connected one, its id, or "me", who is whoever says it; the circle moves with it.
    `offset` is how far east and north of a node the centre lies, in metres. Raises `ModelError`
    for a circle that cannot be.
    """
    if isinstance(center, str | Position | Sequence):
        return core_circle(center, radius_m, offset=offset)
    return core_circle(center.node, radius_m, offset=offset)


def here(kind: str) -> PlaceHere:
    """Return the smallest place of a kind that holds whoever says it, wherever that is."""
    return PlaceHere(kind)


def encode_area(area: AreaLike) -> str:
    """Return an area as the text that a message carries."""
    if isinstance(area, str):
        return area
    if isinstance(area, Mapping):
        return msgspec.json.encode(area).decode()
    return area_text(area)


def geometry_json(geometry: AreaLike) -> bytes:
    """Return the GeoJSON of a place's shape, or raise `ModelError` if it has none."""
    if isinstance(geometry, str):
        return geometry.encode()
    if isinstance(geometry, Mapping):
        return msgspec.json.encode(geometry)
    if not isinstance(geometry, Polygon | MultiPolygon):
        raise ModelError("a place is a polygon, several of them, or GeoJSON")
    return msgspec.json.encode(area_json(geometry))


def encode_position(where: PositionLike | str) -> str:
    """Return a position as `LAT,LON`, or raise `ModelError`."""
    if isinstance(where, str):
        return where
    if isinstance(where, Position):
        lat, lon = where.lat, where.lon
    elif len(where) == 2:
        lat, lon = where
    else:
        raise ModelError(f"a position is latitude and longitude, not {len(where)} numbers")
    found = position(lat, lon)
    return f"{plain(found.lat)},{plain(found.lon)}"
