"""Nodes that may be within reach of a position, from the grid used for matching."""

import numpy as np

from nearcast.core.matching.index.cells import EMPTY, LENGTH, START, CellArrays, find
from nearcast.core.matching.index.points import MAX_POINT_CELLS, POINT_LEVELS, point_cells
from nearcast.core.matching.nodes import Nodes
from nearcast.core.matching.tables import I32


def nodes_within(
    points: CellArrays, columns: I32, nodes: Nodes, lat: float, lon: float, reach_m: float
) -> list[str] | None:
    """Return the nodes in the cells within reach; None if that is too much of the globe."""
    codes = np.zeros(MAX_POINT_CELLS, np.int64)
    level, count = point_cells(columns, lat, lon, reach_m, codes)
    if count < 0:
        return None
    found: list[str] = []
    for code in codes[:count].tolist():
        cell = find(points, level, 0, code)
        if cell != EMPTY:
            start, length = int(points.cells[cell, START]), int(points.cells[cell, LENGTH])
            rows = points.items[start : start + length] // POINT_LEVELS
            found.extend(map(nodes.name, rows.tolist()))
    return found
