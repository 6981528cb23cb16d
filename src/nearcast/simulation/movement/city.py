"""An invented city: streets on a grid, and a few places with names.

Small enough for a terminal and large enough that most of it is out of range. East and north are
metres from the centre; a crossing is a (column, row), counted from the south-west.
"""

from collections.abc import Iterator

from msgspec import Struct

from nearcast.core.model.geometry.area import Polygon, polygon
from nearcast.core.model.geometry.position import Position

Crossing = tuple[int, int]

CENTRE = Position(53.35, -6.26)
# Metres per degree of latitude and of longitude there. Such a small city counts as flat.
M_PER_LAT = 111_276.0
M_PER_LON = 66_589.0


class NamedPlace(Struct, frozen=True):
    """A part of the city between four crossings."""

    kind: str
    name: str
    south_west: Crossing
    north_east: Crossing


class City(Struct, frozen=True):
    """Streets every `block_m` metres, `columns` of them northwards and `rows` eastwards."""

    columns: int = 12
    rows: int = 7
    block_m: float = 200.0
    places: tuple[NamedPlace, ...] = (
        NamedPlace("quarter", "Old Market", (2, 3), (5, 5)),
        NamedPlace("quarter", "Harbour", (7, 1), (10, 2)),
        NamedPlace("park", "Mill Park", (8, 4), (10, 6)),
    )

    @property
    def width_m(self) -> float:
        """The distance from the westernmost street to the easternmost."""
        return (self.columns - 1) * self.block_m

    @property
    def height_m(self) -> float:
        """The distance from the southernmost street to the northernmost."""
        return (self.rows - 1) * self.block_m

    def position(self, crossing: Crossing) -> Position:
        """Return the position of a crossing."""
        column, row = crossing
        return spot(
            column * self.block_m - self.width_m / 2.0, row * self.block_m - self.height_m / 2.0
        )

    def route(self, start: Crossing, end: Crossing) -> Iterator[Crossing]:
        """Yield the crossings after `start` on the way to `end`: along its row, then up or down."""
        column, row = start
        while column != end[0]:
            column += 1 if end[0] > column else -1
            yield column, row
        while row != end[1]:
            row += 1 if end[1] > row else -1
            yield column, row

    def ground(self, place: NamedPlace) -> Polygon:
        """Return the polygon of a place."""
        (west, south), (east, north) = place.south_west, place.north_east
        corners = ((west, south), (east, south), (east, north), (west, north))
        found = [self.position(corner) for corner in corners]
        return polygon([(corner.lon, corner.lat) for corner in found])


def spot(east_m: float, north_m: float) -> Position:
    """Return the position at an offset in metres from the city's centre."""
    return Position(CENTRE.lat + north_m / M_PER_LAT, CENTRE.lon + east_m / M_PER_LON)


def metres(position: Position) -> tuple[float, float]:
    """Return the offset of a position from the city's centre, in metres east and north."""
    return (position.lon - CENTRE.lon) * M_PER_LON, (position.lat - CENTRE.lat) * M_PER_LAT
