"""Resolution of areas: places and nodes looked up, so that containment can be decided.

Pure: positions of nodes and existing places are passed in. An area that cannot be resolved now (a
node without a position, no such place here) contains no position and resolves to None; it is
resolved with the next position or place. Only an unknown name when the area is defined is an error:
`check` raises it.
"""

from collections.abc import Callable

from msgspec import Struct

from nearcast.core.model.errors import PlaceError
from nearcast.core.model.geometry.area import (
    ME,
    Area,
    Around,
    FixedArea,
    MovingShape,
    PlaceArea,
    PlaceHere,
)
from nearcast.core.model.geometry.geodesy import ecef
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.geometry.shapes import Code, encode, shape_holds


class Anchored(Struct, frozen=True):
    """A moving shape at the current position of its anchor."""

    anchor: Position
    shape: MovingShape


def check(area: Area, places: Places) -> None:
    """Raise `PlaceError` if the area names a place that is unknown now."""
    if isinstance(area, PlaceArea):
        places.find_first(area.name, area.kind)


def resolve(
    area: Area,
    *,
    caller: Position | None,
    position_of: Callable[[str], Position | None],
    places: Places,
) -> FixedArea | Anchored | None:
    """Return the area for the caller now, or None if it contains no position."""
    if isinstance(area, Around):
        anchor = caller if area.anchor == ME else position_of(area.anchor)
        return None if anchor is None else Anchored(anchor, area.shape)
    if isinstance(area, PlaceHere):
        here = None if caller is None else places.here(area.kind, caller)
        return None if here is None else here.geometry
    if isinstance(area, PlaceArea):
        try:
            return places.find_first(area.name, area.kind).geometry
        except PlaceError:
            return None
    return area


def holds(area: FixedArea | Anchored | None, position: Position) -> bool:
    """Return whether a resolved area contains a position."""
    if area is None:
        return False
    if isinstance(area, Anchored):
        lat, lon = float(position.lat), float(position.lon)
        x, y, z = ecef(lat, lon)
        anchor = area.anchor
        code = encode(area.shape)
        return shape_holds(code, 0, lat, lon, x, y, z, float(anchor.lat), float(anchor.lon))
    return code_holds(encode(area), position)


def code_holds(code: Code, position: Position) -> bool:
    """Return whether a fixed area, by its code, contains a position."""
    lat, lon = float(position.lat), float(position.lon)
    x, y, z = ecef(lat, lon)
    return shape_holds(code, 0, lat, lon, x, y, z, 0.0, 0.0)
