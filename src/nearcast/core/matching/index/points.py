"""Points: nodes and live events by position, in grids of three sizes.

For a query of any radius there is a grid in which few cells are searched.
"""

import math

import numpy as np

from nearcast.core.compiled import compiled
from nearcast.core.matching.index.cells import CELL, EMPTY, CellArrays, append, reserve, take_out
from nearcast.core.matching.index.globe_grid import cells_within, code_of
from nearcast.core.matching.tables import I32, I64

POINT_LEVELS = 3
POINT_CLASSES = np.array([2, 6, 10])
"""Cells of about half a kilometre, 8 km and 131 km; item = row * POINT_LEVELS + level."""
MAX_POINT_CELLS = 64


@compiled
def point_cells(
    columns: I32, lat: float, lon: float, reach_m: float, codes: I64
) -> tuple[int, int]:
    """Write the codes of the cells within reach of a position; return level and number.

    Uses the finest level that needs at most MAX_POINT_CELLS; (0, -1) if there is none.
    """
    for level in range(POINT_LEVELS):
        count = cells_within(
            columns, POINT_CLASSES[level], lat, lon, reach_m, codes, MAX_POINT_CELLS
        )
        if count >= 0:
            return level, count
    return 0, -1


@compiled
def place_point(
    points: CellArrays,
    columns: I32,
    row: int,
    old_lat: float,
    old_lon: float,
    lat: float,
    lon: float,
) -> bool:
    """Move a point in the grid of every level, or remove it (NaN); False: no room."""
    for level in range(POINT_LEVELS):
        item = row * POINT_LEVELS + level
        if math.isnan(lat):
            if points.lies[item, CELL] != EMPTY:
                take_out(points, item)
            continue
        c = POINT_CLASSES[level]
        code = code_of(columns, c, lat, lon)
        if not math.isnan(old_lat) and code_of(columns, c, old_lat, old_lon) == code:
            continue
        target = reserve(points, level, 0, code)
        if target == EMPTY:
            return False
        if points.lies[item, CELL] != EMPTY:
            take_out(points, item)
            # After an interruption it may have been alone in the very cell it moves to.
            target = reserve(points, level, 0, code)
        append(points, target, item)
    return True
