"""Areas in a program, and their encoding in messages.

`circle`, `box`, `polygon`, `place` and `here` make the areas of the core; a circle may be centred
on a connected node, and moves with it. Every area argument also accepts text or JSON, which the
broker parses.
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
    """Return a circle around a node, a position or a (lat, lon) pair.

    A node is a connected one, its id, or "me", the node that uses the area; the circle moves with
    it. `offset` is the distance of the centre east and north of a node, in metres. Raises
    `ModelError` for an invalid circle.
    """
    if isinstance(center, str | Position | Sequence):
        return core_circle(center, radius_m, offset=offset)
    return core_circle(center.node, radius_m, offset=offset)


def here(kind: str) -> PlaceHere:
    """Return the smallest place of a kind that contains the node that uses the area."""
    return PlaceHere(kind)


def encode_area(area: AreaLike) -> str:
    """Return an area as text for a message."""
    if isinstance(area, str):
        return area
    if isinstance(area, Mapping):
        return msgspec.json.encode(area).decode()
    return area_text(area)


def geometry_json(geometry: AreaLike) -> bytes:
    """Return the GeoJSON of a place's shape; raises `ModelError` if it is not a polygon."""
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
