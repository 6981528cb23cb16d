"""Cells: growable lists of items, found by (key, class, code), between which items move.

The one index under the matcher: subscriptions are in it by the reach of their areas, nodes by
position, live events by position and by target. A cell is a contiguous block of a pool, so a scan
reads memory in order; an item is moved or removed in constant time. Nothing here allocates: a
kernel that runs out of room reports that before it changes anything, and `grown` provides more.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled, melted
from nearcast.core.matching.tables import F32, I32, I64, enough, resized

EMPTY = -1

TOP, FREE_CELL, CELLS_USED, CELLS_MADE, IN_USE, FREE_BLOCKS = 0, 1, 2, 3, 4, 8
SIZES = 56
"""Blocks hold 1, 2, 3, 4, 6, 8, 12, ... places; `meta` has a free list per size."""

# Columns of a cell's row. Its code is split into row and column of the grid.
KEY, CLASS, ROW, COLUMN, START, LENGTH, SIZE, NEXT, PREVIOUS = 0, 1, 2, 3, 4, 5, 6, 7, 8
CELL_COLUMNS = 9

# Columns of `lies`; the chain is for use by the owner.
CELL, PLACE, IN_CLASS, CHAIN_NEXT, CHAIN_PREVIOUS = 0, 1, 2, 3, 4


class CellArrays(NamedTuple):
    """The arrays of one index, as passed to kernels."""

    meta: I64
    table: I64  # hash table, (slots, 2): a 64-bit tag, and the cell it belongs to or EMPTY
    cells: I32  # free ones are chained in START
    geo: F32  # per place in the pool: x, y, z, reach; or nothing
    items: I32  # per place in the pool: the item there
    bodies: I32  # per place in the pool: data a scan needs to decide, in the owner's columns
    lies: I32  # per item: its CELL, EMPTY if it is in none, its PLACE and class


def new_cells(geo_columns: int, body_columns: int, chained: bool = False) -> CellArrays:
    """Return an empty index whose places have these numbers of coordinates and integers."""
    meta = np.zeros(FREE_BLOCKS + SIZES, np.int64)
    meta[FREE_CELL] = EMPTY
    meta[FREE_BLOCKS:] = EMPTY
    table = np.zeros((64, 2), np.int64)
    table[:, 1] = EMPTY
    return CellArrays(
        meta=meta,
        table=table,
        cells=np.zeros((16, CELL_COLUMNS), np.int32),
        geo=np.zeros((64, geo_columns), np.float32),
        items=np.zeros(64, np.int32),
        bodies=np.zeros((64, body_columns), np.int32),
        lies=np.full((16, 5 if chained else 3), EMPTY, np.int32),
    )


def grown(arrays: CellArrays) -> CellArrays:
    """Return the index with more room wherever it may have run out."""
    made, top = int(arrays.meta[CELLS_MADE]), int(arrays.meta[TOP])
    cells = arrays.cells
    if made + 1 >= len(cells) and arrays.meta[FREE_CELL] == EMPTY:
        cells = resized(cells, enough(len(cells), made + 64))
    table = arrays.table
    if 2 * (int(arrays.meta[CELLS_USED]) + 2) > len(table):
        table = np.zeros((2 * len(table), 2), np.int64)
        table[:, 1] = EMPTY
        _rehash(arrays.table, table)
    largest = int(arrays.cells[:made, LENGTH].max(initial=1))
    pool = len(arrays.items)
    if top + 2 * largest > pool:
        pool = enough(pool, top + 2 * largest + 64)
    return arrays._replace(
        table=table,
        cells=cells,
        geo=resized(arrays.geo, pool),
        items=resized(arrays.items, pool),
        bodies=resized(arrays.bodies, pool),
    )


def is_loose(arrays: CellArrays) -> bool:
    """Return whether more than half of the pool is unused gaps."""
    return bool(arrays.meta[TOP] > 2 * arrays.meta[IN_USE] + 4096)


def packed(arrays: CellArrays) -> CellArrays:
    """Return the index without gaps, in memory no larger than needed."""
    used = arrays.cells[: arrays.meta[CELLS_MADE]]
    alive = np.flatnonzero(used[:, KEY] != EMPTY)
    places = int(_places_needed(arrays, alive))
    pool = enough(0, places + places // 8 + 64)
    new = arrays._replace(
        geo=np.zeros((pool, arrays.geo.shape[1]), np.float32),
        items=np.zeros(pool, np.int32),
        bodies=np.zeros((pool, arrays.bodies.shape[1]), np.int32),
    )
    _pack(arrays, alive, new.geo, new.items, new.bodies)
    arrays.meta[TOP] = places
    arrays.meta[FREE_BLOCKS:] = EMPTY
    return new


def with_items(arrays: CellArrays, count: int) -> CellArrays:
    """Return the index with room for items numbered below `count`."""
    have = len(arrays.lies)
    if count <= have:
        return arrays
    lies: npt.NDArray[np.int32] = np.full(
        (enough(have, count), arrays.lies.shape[1]), EMPTY, np.int32
    )
    lies[:have] = arrays.lies
    return arrays._replace(lies=lies)


@compiled
def places_in(size: int) -> int:
    """Return the number of places in a block of a size."""
    if size == 0:
        return 1
    return (2 + ((size - 1) & 1)) << ((size - 1) >> 1)


@compiled
def size_for(length: int) -> int:
    """Return the smallest block size with room for `length` items."""
    size = 0
    while places_in(size) < length:
        size += 1
    return size


@compiled
def tag_of(key: int, c: int, code: int) -> int:
    """Return a 64-bit hash of a cell's name."""
    h = np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h += np.uint64(key * 64 + c) * np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(29)
    return int(np.int64(h))


@melted
def find_tagged(a: CellArrays, tag: int, key: int, c: int, code: int) -> int:
    """Return the cell of that name, whose tag is known, or EMPTY."""
    mask = len(a.table) - 1
    i = tag & mask
    while True:
        cell = a.table[i, 1]
        if cell == EMPTY:
            return EMPTY
        if a.table[i, 0] == tag and is_called(a, cell, key, c, code):
            return cell
        i = (i + 1) & mask


@compiled
def find(a: CellArrays, key: int, c: int, code: int) -> int:
    """Return the cell of that name, or EMPTY."""
    return find_tagged(a, tag_of(key, c, code), key, c, code)


@melted
def is_called(a: CellArrays, cell: int, key: int, c: int, code: int) -> bool:
    """Return whether a cell has that name."""
    return (
        a.cells[cell, KEY] == key
        and a.cells[cell, CLASS] == c
        and a.cells[cell, ROW] == code >> 32
        and a.cells[cell, COLUMN] == code & 0xFFFFFFFF
    )


@compiled
def reserve(a: CellArrays, key: int, c: int, code: int) -> int:
    """Return the cell of that name, created if absent, with room for one more; EMPTY: grow."""
    cell = find(a, key, c, code)
    if cell == EMPTY:
        return _make(a, key, c, code)
    if a.cells[cell, LENGTH] == places_in(a.cells[cell, SIZE]) and not _enlarge(a, cell):
        return EMPTY
    return cell


@compiled
def append(a: CellArrays, cell: int, item: int) -> int:
    """Add an item to a reserved cell; return its place, for the caller to fill."""
    place = a.cells[cell, START] + a.cells[cell, LENGTH]
    a.cells[cell, LENGTH] += 1
    a.items[place] = item
    a.lies[item, CELL] = cell
    a.lies[item, PLACE] = place
    a.lies[item, IN_CLASS] = a.cells[cell, CLASS]
    a.meta[IN_USE] += 1
    return place


@compiled
def take_out(a: CellArrays, item: int) -> bool:
    """Remove an item from its cell; True if the cell became empty and was dropped."""
    cell = a.lies[item, CELL]
    place = a.lies[item, PLACE]
    a.cells[cell, LENGTH] -= 1
    last = a.cells[cell, START] + a.cells[cell, LENGTH]
    if place != last:
        _copy(a, last, place)
        moved = a.items[last]
        a.items[place] = moved
        a.lies[moved, PLACE] = place
    a.lies[item, CELL] = EMPTY
    a.meta[IN_USE] -= 1
    if a.cells[cell, LENGTH] > 0:
        return False
    _drop(a, cell)
    return True


@compiled
def _make(a: CellArrays, key: int, c: int, code: int) -> int:
    if 2 * (a.meta[CELLS_USED] + 1) > len(a.table):
        return EMPTY
    cell = a.meta[FREE_CELL]
    if cell == EMPTY and a.meta[CELLS_MADE] == len(a.cells):
        return EMPTY
    start = _block(a, 0)
    if start == EMPTY:
        return EMPTY
    if cell == EMPTY:
        cell = a.meta[CELLS_MADE]
        a.meta[CELLS_MADE] += 1
    else:
        a.meta[FREE_CELL] = a.cells[cell, START]
    a.meta[CELLS_USED] += 1
    a.cells[cell, KEY] = key
    a.cells[cell, CLASS] = c
    a.cells[cell, ROW] = code >> 32
    a.cells[cell, COLUMN] = code & 0xFFFFFFFF
    a.cells[cell, START] = start
    a.cells[cell, LENGTH] = 0
    a.cells[cell, SIZE] = 0
    a.cells[cell, NEXT] = EMPTY
    a.cells[cell, PREVIOUS] = EMPTY
    tag = tag_of(key, c, code)
    mask = len(a.table) - 1
    i = tag & mask
    while a.table[i, 1] != EMPTY:
        i = (i + 1) & mask
    a.table[i, 0] = tag
    a.table[i, 1] = cell
    return cell


@compiled
def _drop(a: CellArrays, cell: int) -> None:
    code = (np.int64(a.cells[cell, ROW]) << 32) | a.cells[cell, COLUMN]
    tag = tag_of(a.cells[cell, KEY], a.cells[cell, CLASS], code)
    mask = len(a.table) - 1
    hole = tag & mask
    while a.table[hole, 1] != cell:
        hole = (hole + 1) & mask
    # Close the gap (linear probing without tombstones): move back entries that may fill it.
    i = hole
    while True:
        i = (i + 1) & mask
        if a.table[i, 1] == EMPTY:
            break
        if ((i - a.table[i, 0]) & mask) >= ((i - hole) & mask):
            a.table[hole, 0] = a.table[i, 0]
            a.table[hole, 1] = a.table[i, 1]
            hole = i
    a.table[hole, 1] = EMPTY
    _free(a, a.cells[cell, START], a.cells[cell, SIZE])
    a.cells[cell, START] = a.meta[FREE_CELL]
    a.cells[cell, KEY] = EMPTY
    a.meta[FREE_CELL] = cell
    a.meta[CELLS_USED] -= 1


@compiled
def _enlarge(a: CellArrays, cell: int) -> bool:
    size = a.cells[cell, SIZE]
    old = a.cells[cell, START]
    new = _block(a, size + 1)
    if new == EMPTY:
        return False
    for i in range(a.cells[cell, LENGTH]):
        _copy(a, old + i, new + i)
        item = a.items[old + i]
        a.items[new + i] = item
        a.lies[item, PLACE] = new + i
    _free(a, old, size)
    a.cells[cell, START] = new
    a.cells[cell, SIZE] = size + 1
    return True


@compiled
def _pack(a: CellArrays, alive: I64, geo: F32, items: I32, bodies: I32) -> None:
    """Copy cells one after another into other arrays."""
    top = 0
    for cell in alive:
        start = a.cells[cell, START]
        length = a.cells[cell, LENGTH]
        for i in range(length):
            for j in range(geo.shape[1]):
                geo[top + i, j] = a.geo[start + i, j]
            for j in range(bodies.shape[1]):
                bodies[top + i, j] = a.bodies[start + i, j]
            items[top + i] = a.items[start + i]
            a.lies[items[top + i], PLACE] = top + i
        a.cells[cell, START] = top
        a.cells[cell, SIZE] = size_for(length)
        top += places_in(size_for(length))


@compiled
def _places_needed(a: CellArrays, alive: I64) -> int:
    places = 0
    for cell in alive:
        places += places_in(size_for(a.cells[cell, LENGTH]))
    return places


@compiled
def _copy(a: CellArrays, source: int, destination: int) -> None:
    for i in range(a.geo.shape[1]):
        a.geo[destination, i] = a.geo[source, i]
    for i in range(a.bodies.shape[1]):
        a.bodies[destination, i] = a.bodies[source, i]


@compiled
def _block(a: CellArrays, size: int) -> int:
    free = a.meta[FREE_BLOCKS + size]
    if free != EMPTY:
        a.meta[FREE_BLOCKS + size] = a.items[free]
        return free
    top = a.meta[TOP]
    if top + places_in(size) > len(a.items):
        return EMPTY
    a.meta[TOP] = top + places_in(size)
    return top


@compiled
def _free(a: CellArrays, start: int, size: int) -> None:
    a.items[start] = a.meta[FREE_BLOCKS + size]
    a.meta[FREE_BLOCKS + size] = start


@compiled
def _rehash(old: I64, new: I64) -> None:
    mask = len(new) - 1
    for i in range(len(old)):
        if old[i, 1] != EMPTY:
            j = old[i, 0] & mask
            while new[j, 1] != EMPTY:
                j = (j + 1) & mask
            new[j, 0] = old[i, 0]
            new[j, 1] = old[i, 1]
