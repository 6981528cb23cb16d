"""Cells: the globe cut into squares of a given width in metres, for groups by position.

Rows have equal height in degrees of latitude; each is cut into as many columns as fit, so that no
cell is wider than the given width. Columns wrap at the antimeridian, and a row at a pole has few.
"""

import math

from msgspec import Struct

from nearcast.core.model.geometry.position import Position, plain

SMALLEST_M = 1.0
LARGEST_M = 1_000_000.0
_HALF_MERIDIAN_M = 20_003_932.0
_ROUND = 2.0 * 1.0051
"""The greatest circumference of a row, for that meridian's radius: parallels bulge."""


class Cell(Struct, frozen=True, gc=False):
    """One square of the grid with sides of `size_m`."""

    size_m: float
    row: int
    column: int

    @property
    def label(self) -> str:
        """Its name."""
        return f"{plain(self.size_m)}:{self.row}:{self.column}"

    @property
    def centre(self) -> Position:
        """Its centre."""
        rows = _rows(self.size_m)
        width = 360.0 / _columns(rows, self.row)
        return Position(
            -90.0 + (self.row + 0.5) * 180.0 / rows, -180.0 + (self.column + 0.5) * width
        )


def cell_of(lat: float, lon: float, size_m: float) -> Cell:
    """Return the cell that contains a position."""
    rows = _rows(size_m)
    row = min(int((lat + 90.0) / 180.0 * rows), rows - 1)
    columns = _columns(rows, row)
    # 180 and -180 are one meridian.
    return Cell(size_m, row, int((lon + 180.0) / 360.0 * columns) % columns)


def _rows(size_m: float) -> int:
    return math.ceil(_HALF_MERIDIAN_M / size_m)


def _columns(rows: int, row: int) -> int:
    """Return the number of cells around a row, by its edge nearer to the equator."""
    south, north = row * 180.0 / rows - 90.0, (row + 1) * 180.0 / rows - 90.0
    widest = 0.0 if south < 0.0 < north else min(abs(south), abs(north))
    return max(1, math.ceil(_ROUND * rows * math.cos(math.radians(widest))))
