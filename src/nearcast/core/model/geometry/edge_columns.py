"""Edge columns: the edges of polygons, sorted by the columns of longitude that they cross.

Whether a polygon holds a point depends on the edges that cross the point's meridian alone, so each
point needs those of one column. A ring has as many columns as keep the number of entries in
proportion to its edges: about one for each edge in a coast line, few where every edge goes right
across, and none if they would not help. The table, a part of the polygons' code:

    west, width, column count, for each column and after the last: its first entry,
    then for each entry one number: in its upper half, twice the polygon's number plus the parity
    that the polygon has north of all edges; in its lower half, where the edge's points begin
"""

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

WEST, WIDTH, COLUMN_COUNT, COLUMNS_HEADER = 0, 1, 2, 3

# Shapes with fewer edges are scanned.
_MANY_EDGES = 32
_FEWEST_COLUMNS = 8
_ENTRIES_PER_EDGE = 2.0
HALF_BITS = 32
LOWER_HALF = (1 << HALF_BITS) - 1
# Edges are also in the columns this near: more than what counts as on an edge, and more than what
# rounding may add up to along a ring.
MARGIN_DEGREES = 1e-7
MARGIN_M = 1e-3


def edge_columns(
    points: F64, steps: F64, firsts: I64, begins: I64, tags: I64, moving: bool
) -> F64 | None:
    """Return the table of edges in columns, None if scanning all edges is as good.

    `steps` leads from each point to the next; rings begin at the points `firsts`, at `begins` in
    the code, and have these tags.
    """
    edges = len(points) - len(firsts)
    if edges < _MANY_EDGES:
        return None
    counts = np.diff(firsts, append=len(points))
    is_edge = np.ones(len(steps), np.bool_)
    is_edge[firsts[1:] - 1] = False
    step = steps[is_edge]
    begin = np.repeat(begins - 2 * firsts, counts)[:-1][is_edge] + 2 * np.flatnonzero(is_edge)
    tag = np.repeat(tags, counts)[:-1][is_edge]
    x = points[:-1, 0][is_edge]
    west, width, margin = float(x.min()), float(np.ptp(x)), MARGIN_M
    if moving:
        x = x - west
    else:
        west, width, margin = *_extent(points, steps), MARGIN_DEGREES
        x = np.where(x - west < -margin, x - west + 360.0, x - west)
        x = np.where(x > 360.0 - margin, x - 360.0, x)
    across = float(np.abs(step).sum()) + 2.0 * margin * edges
    count = int(min(edges, _ENTRIES_PER_EDGE * edges * width / across))
    if count < _FEWEST_COLUMNS:
        return None
    low = np.floor((np.minimum(x, x + step) - margin) * (count / width)).astype(np.int64)
    high = np.floor((np.maximum(x, x + step) + margin) * (count / width)).astype(np.int64)
    if moving or width < 360.0:
        low, high = np.clip(low, 0, count - 1), np.clip(high, 0, count - 1)
    high = np.minimum(high, low + count - 1)
    return _filled(west, width, count, low, high, begin, tag)


def _extent(points: F64, steps: F64) -> tuple[float, float]:
    """Return the westernmost meridian and the width in degrees of rings; a full turn if wide."""
    # From one ring to the next it goes the shorter way as well.
    walked = np.concatenate(([0.0], np.cumsum(steps)))
    width = float(np.ptp(walked))
    if width > 359.0:
        return -180.0, 360.0
    return float(points[int(np.argmin(walked)), 0]), width


@compiled
def _filled(
    west: float, width: float, count: int, low: I64, high: I64, begin: I64, tag: I64
) -> F64:
    """Return the table, with the entries of a column in the order of edges."""
    entries = 0
    room = np.zeros(count + 1, np.int64)
    for edge in range(len(low)):
        entries += high[edge] - low[edge] + 1
        for column in range(low[edge], high[edge] + 1):
            room[column % count + 1] += 1
    table = np.empty(COLUMNS_HEADER + count + 1 + entries)
    table[WEST] = west
    table[WIDTH] = width
    table[COLUMN_COUNT] = count
    for column in range(count):
        room[column + 1] += room[column]
    for column in range(count + 1):
        table[COLUMNS_HEADER + column] = room[column]
    first = COLUMNS_HEADER + count + 1
    for edge in range(len(low)):
        for column in range(low[edge], high[edge] + 1):
            table[first + room[column % count]] = tag[edge] << HALF_BITS | begin[edge]
            room[column % count] += 1
    return table
