"""The cells that a fix is sent to, so that every nearby pair is known in one of them.

A cell decides about fixes in it and up to `within_m` around it. A fix is therefore sent to every
cell within that distance of its position, and of the previous position, which those cells must
drop.
"""

import math

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.matching.index.globe_grid import (
    FIRST_ROW,
    ROWS,
    WIDE,
    cells_within,
    class_of,
    code_of,
    columns_per_row,
)

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
B8 = npt.NDArray[np.bool_]

MOST_CELLS = 64
"""Near a pole a whole ring of cells may be within reach."""


def grid_class(within_m: float, cell_m: float) -> int:
    """Return the class of grid whose cells serve a distance and are about `cell_m` wide."""
    return max(int(class_of(within_m)), int(class_of(cell_m / 2.0)))


def cells_of(c: int, lat: F64, lon: F64) -> I64:
    """Return the cell of each position."""
    return _cells_of(columns_per_row(), c, lat, lon)


def centre_of(c: int, cell: int) -> tuple[float, float]:
    """Return latitude and longitude of a cell's centre."""
    if c >= WIDE:
        return 0.0, 0.0
    row, column = cell >> 32, cell & 0xFFFFFFFF
    across = int(columns_per_row()[FIRST_ROW[c] + row])
    return -90.0 + (row + 0.5) * 180.0 / int(ROWS[c]), -180.0 + (column + 0.5) * 360.0 / across


def sent(
    c: int, within_m: float, lat: F64, lon: F64, previous_lat: F64, previous_lon: F64
) -> tuple[I64, I64]:
    """Return which fix is sent to which cell, as indices of fixes and codes of cells.

    NaN means no position; a fix without one is sent only to the cells of the previous one.
    """
    columns = columns_per_row()
    room = 4 * len(lat) + 2 * MOST_CELLS
    while True:
        which, cells = np.empty(room, np.int64), np.empty(room, np.int64)
        found = _sent(columns, c, within_m, lat, lon, previous_lat, previous_lon, which, cells)
        if found >= 0:
            return which[:found], cells[:found]
        room *= 2


@compiled
def _cells_of(columns: I32, c: int, lat: F64, lon: F64) -> I64:
    found = np.empty(len(lat), np.int64)
    for i in range(len(lat)):
        found[i] = code_of(columns, c, lat[i], lon[i])
    return found


@compiled
def reached(columns: I32, c: int, lat: float, lon: float, within_m: float, codes: I64) -> int:
    """Write the codes of the cells within a distance of a position; return their number."""
    if c >= WIDE:
        codes[0] = 0
        return 1
    return cells_within(columns, c, lat, lon, within_m, codes, MOST_CELLS)


@compiled
def _sent(
    columns: I32,
    c: int,
    within_m: float,
    lat: F64,
    lon: F64,
    previous_lat: F64,
    previous_lon: F64,
    which: I64,
    cells: I64,
) -> int:
    here = np.empty(MOST_CELLS, np.int64)
    before = np.empty(MOST_CELLS, np.int64)
    n = 0
    for i in range(len(lat)):
        if n + 2 * MOST_CELLS > len(which):
            return -1
        now = 0
        if not math.isnan(lat[i]):
            now = reached(columns, c, lat[i], lon[i], within_m, here)
        for k in range(now):
            which[n] = i
            cells[n] = here[k]
            n += 1
        then = 0
        if not math.isnan(previous_lat[i]):
            then = reached(columns, c, previous_lat[i], previous_lon[i], within_m, before)
        for k in range(then):
            is_new = True
            for j in range(now):
                if here[j] == before[k]:
                    is_new = False
                    break
            if is_new:
                which[n] = i
                cells[n] = before[k]
                n += 1
    return n
