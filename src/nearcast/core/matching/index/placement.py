"""Placement: the cells of subscriptions in the index, and how they follow their nodes.

An entry is indexed under the most selective condition it requires: its subject pattern and, where
its filter demands one, the value of an attribute. A key with few entries keeps them in one flat
cell, which is scanned faster than any grid is probed; beyond FLAT_LIMIT they are spread over the
globe's cells, coarsely at first and more finely the more there are. Kernels return the number of
items done; if that is less than requested, the caller makes room and continues.
"""

import math

import numpy as np

from nearcast.core.compiled import compiled
from nearcast.core.matching.index.cells import (
    CELL,
    CHAIN_NEXT,
    CHAIN_PREVIOUS,
    CLASS,
    COLUMN,
    EMPTY,
    KEY,
    LENGTH,
    NEXT,
    PLACE,
    PREVIOUS,
    ROW,
    START,
    CellArrays,
    append,
    reserve,
    take_out,
)
from nearcast.core.matching.index.globe_grid import WIDE, class_of, code_of
from nearcast.core.matching.index.keys import (
    CELLS,
    COARSEST,
    ENTRIES,
    FINEST,
    FIRST_CELL,
    FLAT_CELL,
    FREE_GRID,
    GRID,
    GRIDS_MADE,
    KEY_PATTERN,
    KEY_SLOTS,
    SLOT,
    drop_key,
    find_key,
    make_key,
)
from nearcast.core.matching.tables import (
    ANCHOR,
    ANCHORED,
    ENTRY,
    F32,
    F64,
    I32,
    LAT,
    LON,
    NEXT_OWN,
    NODE,
    NONE,
    OWN,
    PATTERN,
    PREVIOUS_OWN,
    KeyTable,
    NodeTable,
    PatternTable,
    SubscriptionTable,
)
from nearcast.core.model.geometry.geodesy import ecef

FLAT_LIMIT = 512
CROWD = 32
"""A grid with more entries per cell than this is made finer."""

ANYWHERE = WIDE + 1
"""The class of entries without an area."""
LOST = WIDE + 2
"""The class of entries whose anchor node has no position: never probed."""
FLAT = WIDE + 3
ALL_CLASSES = WIDE + 4

FAR = np.float32(3e30)
"""A coordinate that is within reach of nothing."""

SUBSCRIPTION = 0
"""The column of an entry's body with its subscription."""


@compiled
def file_entries(
    first: int,
    subscription: I32,
    entry_keys: F64,
    reach: F32,
    body: I32,
    numbers: I32,
    a: CellArrays,
    keys: KeyTable,
    patterns: PatternTable,
    nodes: NodeTable,
    subscriptions: SubscriptionTable,
    columns: I32,
) -> int:
    """Add entries from `first` under their keys; return how far it came.

    `entry_keys` has slot, kind and value of each key; `body` has one spare row.
    """
    for i in range(first, len(subscription)):
        s = subscription[i]
        pattern = subscriptions.rows[s, PATTERN]
        slot, kind, value = int(entry_keys[i, 0]), int(entry_keys[i, 1]), entry_keys[i, 2]
        key = find_key(keys, pattern, slot, kind, value)
        if key == NONE:
            key = make_key(keys, patterns, pattern, slot, kind, value)
            if key == NONE:
                return i
        if (
            keys.parts[key, ENTRIES] >= FLAT_LIMIT
            and (keys.parts[key, FLAT_CELL] != EMPTY or is_crowded(keys, key))
            and not keep_order(a, keys, nodes, subscriptions, columns, key, body)
        ):
            return i
        entry = numbers[i]
        anchor = subscriptions.rows[s, ANCHOR]
        if not _file(a, keys, nodes, columns, key, entry, anchor, reach[i], body, i):
            if keys.parts[key, ENTRIES] == 0:
                drop_key(keys, patterns, key)
            return i
        keys.parts[key, ENTRIES] += 1
        if slot != NONE:
            for k in range(KEY_SLOTS):
                if patterns.slots[pattern, k] == slot:
                    patterns.counts[pattern, k] += 1
        subscriptions.next_entry[entry] = subscriptions.rows[s, ENTRY]
        subscriptions.rows[s, ENTRY] = entry
        a.lies[entry, CHAIN_PREVIOUS] = NONE
        a.lies[entry, CHAIN_NEXT] = NONE
        if anchor != NONE:
            after = nodes.heads[anchor, ANCHORED]
            a.lies[entry, CHAIN_NEXT] = after
            if after != NONE:
                a.lies[after, CHAIN_PREVIOUS] = entry
            nodes.heads[anchor, ANCHORED] = entry
    return len(subscription)


@compiled
def unfile_subscriptions(
    gone: I32,
    freed: I32,
    a: CellArrays,
    keys: KeyTable,
    patterns: PatternTable,
    nodes: NodeTable,
    subscriptions: SubscriptionTable,
) -> int:
    """Remove subscriptions from the index and from their nodes; return the entries freed."""
    n = 0
    for i in range(len(gone)):
        s = gone[i]
        anchor = subscriptions.rows[s, ANCHOR]
        entry = subscriptions.rows[s, ENTRY]
        while entry != NONE:
            if anchor != NONE:
                before, after = a.lies[entry, CHAIN_PREVIOUS], a.lies[entry, CHAIN_NEXT]
                if before == NONE:
                    nodes.heads[anchor, ANCHORED] = after
                else:
                    a.lies[before, CHAIN_NEXT] = after
                if after != NONE:
                    a.lies[after, CHAIN_PREVIOUS] = before
            _take_entry(entry, a, keys, patterns)
            freed[n] = entry
            n += 1
            entry = subscriptions.next_entry[entry]
        subscriptions.rows[s, ENTRY] = NONE
        before, after = subscriptions.rows[s, PREVIOUS_OWN], subscriptions.rows[s, NEXT_OWN]
        if before == NONE:
            nodes.heads[subscriptions.rows[s, NODE], OWN] = after
        else:
            subscriptions.rows[before, NEXT_OWN] = after
        if after != NONE:
            subscriptions.rows[after, PREVIOUS_OWN] = before
    return n


@compiled
def chain_subscriptions(rows: I32, nodes: NodeTable, subscriptions: SubscriptionTable) -> None:
    """Add new subscriptions to the chain of their node."""
    for i in range(len(rows)):
        s = rows[i]
        node = subscriptions.rows[s, NODE]
        after = nodes.heads[node, OWN]
        subscriptions.rows[s, PREVIOUS_OWN] = NONE
        subscriptions.rows[s, NEXT_OWN] = after
        if after != NONE:
            subscriptions.rows[after, PREVIOUS_OWN] = s
        nodes.heads[node, OWN] = s


@compiled
def refile(
    a: CellArrays,
    keys: KeyTable,
    nodes: NodeTable,
    columns: I32,
    entry: int,
    anchor: int,
    body: I32,
) -> bool:
    """Move an entry to the cell where it belongs now; False: no room."""
    cell = a.lies[entry, CELL]
    key = a.cells[cell, KEY]
    reach = a.geo[a.lies[entry, PLACE], 3]
    c, code = _belongs(keys, nodes, columns, key, anchor, reach)
    if (
        c == a.cells[cell, CLASS]
        and code >> 32 == a.cells[cell, ROW]
        and code & 0xFFFFFFFF == a.cells[cell, COLUMN]
    ):
        return True
    if reserve(a, key, c, code) == EMPTY:
        return False
    # Reserving may have moved its block: the place is read only now.
    place = a.lies[entry, PLACE]
    spare = len(body) - 1
    for i in range(a.bodies.shape[1]):
        body[spare, i] = a.bodies[place, i]
    _unfile(a, keys, entry, key)
    return _file(a, keys, nodes, columns, key, entry, anchor, reach, body, spare)


@compiled
def _belongs(
    keys: KeyTable, nodes: NodeTable, columns: I32, key: int, anchor: int, reach_m: float
) -> tuple[int, int]:
    """Return the class and code of the cell in which an entry belongs."""
    if keys.parts[key, GRID] == NONE:
        return FLAT, 0
    if anchor == NONE:
        return ANYWHERE, 0
    if math.isnan(nodes.at[anchor, LAT]):
        return LOST, 0
    c = max(class_of(reach_m), keys.parts[key, FINEST])
    return c, code_of(columns, c, nodes.at[anchor, LAT], nodes.at[anchor, LON])


@compiled
def _file(
    a: CellArrays,
    keys: KeyTable,
    nodes: NodeTable,
    columns: I32,
    key: int,
    entry: int,
    anchor: int,
    reach_m: float,
    body: I32,
    body_row: int,
) -> bool:
    """Put an entry into the cell where it belongs; False: no room."""
    c, code = _belongs(keys, nodes, columns, key, anchor, reach_m)
    cell = reserve(a, key, c, code)
    if cell == EMPTY:
        return False
    place = append(a, cell, entry)
    x = y = z = 0.0
    reach = reach_m
    if anchor == NONE:
        reach = math.inf
    elif math.isnan(nodes.at[anchor, LAT]):
        x = y = z = float(FAR)
    else:
        x, y, z = ecef(nodes.at[anchor, LAT], nodes.at[anchor, LON])
    a.geo[place, 0] = x
    a.geo[place, 1] = y
    a.geo[place, 2] = z
    a.geo[place, 3] = reach
    for i in range(a.bodies.shape[1]):
        a.bodies[place, i] = body[body_row, i]
    if c == FLAT:
        keys.parts[key, FLAT_CELL] = cell
        return True
    keys.classes[keys.parts[key, GRID], c] += 1
    if c < WIDE and a.cells[cell, LENGTH] == 1:
        keys.parts[key, CELLS] += 1
        after = keys.parts[key, FIRST_CELL]
        a.cells[cell, NEXT] = after
        a.cells[cell, PREVIOUS] = EMPTY
        if after != EMPTY:
            a.cells[after, PREVIOUS] = cell
        keys.parts[key, FIRST_CELL] = cell
    return True


@compiled
def _unfile(a: CellArrays, keys: KeyTable, entry: int, key: int) -> None:
    cell = a.lies[entry, CELL]
    c = a.cells[cell, CLASS]
    before, after = a.cells[cell, PREVIOUS], a.cells[cell, NEXT]
    gone = take_out(a, entry)
    if c == FLAT:
        if gone:
            keys.parts[key, FLAT_CELL] = EMPTY
        return
    keys.classes[keys.parts[key, GRID], c] -= 1
    if gone and c < WIDE:
        keys.parts[key, CELLS] -= 1
        if before == EMPTY:
            keys.parts[key, FIRST_CELL] = after
        else:
            a.cells[before, NEXT] = after
        if after != EMPTY:
            a.cells[after, PREVIOUS] = before


@compiled
def keep_order(
    a: CellArrays,
    keys: KeyTable,
    nodes: NodeTable,
    subscriptions: SubscriptionTable,
    columns: I32,
    key: int,
    body: I32,
) -> bool:
    """Spread a key that has outgrown its flat cell, or refine its grid; False: no room.

    If interrupted, entries stay in the flat cell or in coarser cells, where they are still found;
    the next entry continues it.
    """
    if keys.parts[key, GRID] == NONE:
        grid = keys.state[FREE_GRID]
        if grid == NONE:
            grid = keys.state[GRIDS_MADE]
            if grid == len(keys.classes):
                return False
            keys.state[GRIDS_MADE] += 1
        else:
            keys.state[FREE_GRID] = keys.classes[grid, 0]
        keys.classes[grid, :] = 0
        keys.parts[key, GRID] = grid
        keys.parts[key, FINEST] = COARSEST
    while keys.parts[key, FLAT_CELL] != EMPTY:
        if not _empty_cell(
            keys.parts[key, FLAT_CELL], a, keys, nodes, subscriptions, columns, key, body
        ):
            return False
    while is_crowded(keys, key):
        finest = keys.parts[key, FINEST] - 1
        keys.parts[key, FINEST] = finest
        cell = keys.parts[key, FIRST_CELL]
        while cell != EMPTY:
            after = a.cells[cell, NEXT]
            if a.cells[cell, CLASS] == finest + 1 and not _empty_cell(
                cell, a, keys, nodes, subscriptions, columns, key, body
            ):
                keys.parts[key, FINEST] = finest + 1
                return False
            cell = after
    return True


@compiled
def is_crowded(keys: KeyTable, key: int) -> bool:
    """Return whether a key's grid should be finer."""
    grid = keys.parts[key, GRID]
    if grid == NONE or keys.parts[key, FINEST] == 0:
        return False
    placed = 0
    for c in range(WIDE):
        placed += keys.classes[grid, c]
    return placed > CROWD * max(1, keys.parts[key, CELLS])


@compiled
def _empty_cell(
    cell: int,
    a: CellArrays,
    keys: KeyTable,
    nodes: NodeTable,
    subscriptions: SubscriptionTable,
    columns: I32,
    key: int,
    body: I32,
) -> bool:
    """Move all entries of a cell to where they belong now, last first; False: no room."""
    for k in range(a.cells[cell, LENGTH] - 1, -1, -1):
        place = a.cells[cell, START] + k
        entry = a.items[place]
        anchor = subscriptions.rows[a.bodies[place, SUBSCRIPTION], ANCHOR]
        if not refile(a, keys, nodes, columns, entry, anchor, body):
            return False
    return True


@compiled
def _take_entry(entry: int, a: CellArrays, keys: KeyTable, patterns: PatternTable) -> None:
    key = a.cells[a.lies[entry, CELL], KEY]
    _unfile(a, keys, entry, key)
    slot = keys.parts[key, SLOT]
    if slot != NONE:
        pattern = keys.parts[key, KEY_PATTERN]
        for k in range(KEY_SLOTS):
            if patterns.slots[pattern, k] == slot:
                patterns.counts[pattern, k] -= 1
                if patterns.counts[pattern, k] == 0:
                    patterns.slots[pattern, k] = NONE
    keys.parts[key, ENTRIES] -= 1
    if keys.parts[key, ENTRIES] == 0:
        drop_key(keys, patterns, key)
