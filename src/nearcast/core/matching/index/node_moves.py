"""Moving nodes, and the entries anchored to them, from cell to cell.

Most moves stay within their cell and cost a few writes; the others take one entry out of a cell and
into another. No subscription row is touched.
"""

import math

from nearcast.core.compiled import compiled
from nearcast.core.intrinsics import prefetch
from nearcast.core.matching.index.cells import (
    CELL,
    CHAIN_NEXT,
    IN_CLASS,
    KEY,
    LENGTH,
    PLACE,
)
from nearcast.core.matching.index.globe_grid import code_of
from nearcast.core.matching.index.placement import CROWD, FAR, FLAT, is_crowded, keep_order, refile
from nearcast.core.matching.index.points import place_point
from nearcast.core.matching.memory import Memory
from nearcast.core.matching.tables import (
    ANCHORED,
    F64,
    I32,
    LAT,
    LAT_BEFORE,
    LON,
    LON_BEFORE,
    NONE,
)
from nearcast.core.model.geometry.geodesy import ecef

AHEAD = 12
"""The prefetch distance, in moves."""


@compiled
def move_nodes(
    first: int,
    resumed: bool,
    rows: I32,
    lat: F64,
    lon: F64,
    body: I32,
    memory: Memory,
) -> int:
    """Move nodes from `first` and entries anchored to them; return how far. NaN: no position."""
    a, points, keys, columns = memory.cells, memory.points, memory.keys, memory.columns
    nodes, subscriptions = memory.nodes, memory.subscriptions
    count = len(rows)
    for i in range(first, count):
        # A move mostly waits for memory: prefetch what later ones will need.
        if i + 2 * AHEAD < count:
            prefetch(nodes.at, rows[i + 2 * AHEAD])
            prefetch(nodes.heads, rows[i + 2 * AHEAD])
        if i + AHEAD < count:
            ahead = nodes.heads[rows[i + AHEAD], ANCHORED]
            if ahead != NONE:
                prefetch(a.lies, ahead)
        if i + AHEAD // 2 < count:
            ahead = nodes.heads[rows[i + AHEAD // 2], ANCHORED]
            if ahead != NONE:
                prefetch(a.geo, a.lies[ahead, PLACE])
                ahead = a.lies[ahead, CHAIN_NEXT]
                if ahead != NONE:
                    prefetch(a.lies, ahead)
        node = rows[i]
        if not (resumed and i == first):
            nodes.at[node, LAT_BEFORE] = nodes.at[node, LAT]
            nodes.at[node, LON_BEFORE] = nodes.at[node, LON]
            nodes.at[node, LAT] = lat[i]
            nodes.at[node, LON] = lon[i]
        old_lat = nodes.at[node, LAT_BEFORE]
        old_lon = nodes.at[node, LON_BEFORE]
        steady = not math.isnan(old_lat) and not math.isnan(lat[i])
        if not place_point(points, columns, node, old_lat, old_lon, lat[i], lon[i]):
            return i
        x = y = z = float(FAR)
        if not math.isnan(lat[i]):
            x, y, z = ecef(lat[i], lon[i])
        entry = nodes.heads[node, ANCHORED]
        same_class, same = -1, False
        while entry != NONE:
            c = a.lies[entry, IN_CLASS]
            # Most moves stay in their cell, which is detected without reading the cell.
            if c != FLAT:
                if c != same_class:
                    same_class = c
                    same = steady and code_of(columns, c, old_lat, old_lon) == code_of(
                        columns, c, lat[i], lon[i]
                    )
                if not same:
                    if not refile(a, keys, nodes, columns, entry, node, body):
                        return i
                    cell = a.lies[entry, CELL]
                    if a.cells[cell, LENGTH] > 4 * CROWD and is_crowded(keys, a.cells[cell, KEY]):
                        key = a.cells[cell, KEY]
                        if not keep_order(a, keys, nodes, subscriptions, columns, key, body):
                            return i
            place = a.lies[entry, PLACE]
            a.geo[place, 0] = x
            a.geo[place, 1] = y
            a.geo[place, 2] = z
            entry = a.lies[entry, CHAIN_NEXT]
    return count
