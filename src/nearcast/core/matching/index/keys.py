"""Keys: the (subject pattern, attribute, value) of index entries, as a hash table."""

import numpy as np

from nearcast.core.compiled import compiled, melted
from nearcast.core.matching.index.cells import EMPTY
from nearcast.core.matching.tables import NONE, KeyTable, PatternTable

KEY_SLOTS = 8
"""The number of attributes that can serve as keys under one subject pattern."""
KEY_PATTERN, SLOT, KIND, ENTRIES, FLAT_CELL, GRID, FINEST, CELLS, FIRST_CELL = range(9)
"""Columns of a key: FINEST is the smallest class its grid uses, FIRST_CELL begins the chain of that
grid's cells, GRID is its row in `classes` and NONE while it is flat.
"""
KEY_COLUMNS = 9
FREE_KEY, KEYS_MADE, KEYS_USED, FREE_GRID, GRIDS_MADE = 0, 1, 2, 3, 4
COARSEST = 12
"""The class a grid begins with: cells of about 500 km."""


@compiled
def key_home(pattern: int, slot: int, kind: int, value: float, mask: int) -> int:
    """Return the first slot of a key in a table of mask + 1 slots."""
    # Beyond 1e9 keys merely share their first slot; they are compared exactly.
    scaled = int(value * 1048576.0) if abs(value) < 1e9 else 0
    h = np.uint64(scaled) * np.uint64(0x9E3779B97F4A7C15)
    h ^= np.uint64(pattern * 4099 + slot * 5 + kind) * np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(31)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(32)
    return int(np.int64(h & np.uint64(mask)))


@melted
def find_key(keys: KeyTable, pattern: int, slot: int, kind: int, value: float) -> int:
    """Return the key of that name, or NONE."""
    mask = len(keys.slots) - 1
    i = key_home(pattern, slot, kind, value, mask)
    while keys.slots[i] != NONE:
        key = keys.slots[i]
        if (
            keys.parts[key, KEY_PATTERN] == pattern
            and keys.parts[key, SLOT] == slot
            and keys.parts[key, KIND] == kind
            and keys.value[key] == value
        ):
            return key
        i = (i + 1) & mask
    return NONE


@compiled
def make_key(
    keys: KeyTable, patterns: PatternTable, pattern: int, slot: int, kind: int, value: float
) -> int:
    """Create a key of that name; NONE: no room."""
    if 2 * (keys.state[KEYS_USED] + 1) > len(keys.slots):
        return NONE
    key = keys.state[FREE_KEY]
    if key == NONE:
        key = keys.state[KEYS_MADE]
        if key == len(keys.value):
            return NONE
        keys.state[KEYS_MADE] += 1
    else:
        keys.state[FREE_KEY] = keys.parts[key, FLAT_CELL]
    keys.state[KEYS_USED] += 1
    keys.parts[key, KEY_PATTERN] = pattern
    keys.parts[key, SLOT] = slot
    keys.parts[key, KIND] = kind
    keys.parts[key, ENTRIES] = 0
    keys.parts[key, FLAT_CELL] = EMPTY
    keys.parts[key, GRID] = NONE
    keys.parts[key, FINEST] = COARSEST
    keys.parts[key, CELLS] = 0
    keys.parts[key, FIRST_CELL] = EMPTY
    keys.value[key] = value
    if slot == NONE:
        patterns.keyless[pattern] = key
    mask = len(keys.slots) - 1
    i = key_home(pattern, slot, kind, value, mask)
    while keys.slots[i] != NONE:
        i = (i + 1) & mask
    keys.slots[i] = key
    return key


@compiled
def drop_key(keys: KeyTable, patterns: PatternTable, key: int) -> None:
    """Drop a key that has no entries."""
    mask = len(keys.slots) - 1
    hole = _home_of(keys, key, mask)
    while keys.slots[hole] != key:
        hole = (hole + 1) & mask
    i = hole
    while True:
        i = (i + 1) & mask
        other = keys.slots[i]
        if other == NONE:
            break
        if ((i - _home_of(keys, other, mask)) & mask) >= ((i - hole) & mask):
            keys.slots[hole] = other
            hole = i
    keys.slots[hole] = NONE
    if keys.parts[key, SLOT] == NONE:
        patterns.keyless[keys.parts[key, KEY_PATTERN]] = NONE
    grid = keys.parts[key, GRID]
    if grid != NONE:
        keys.classes[grid, 0] = keys.state[FREE_GRID]
        keys.state[FREE_GRID] = grid
    keys.parts[key, FLAT_CELL] = keys.state[FREE_KEY]
    keys.parts[key, KEY_PATTERN] = NONE
    keys.state[FREE_KEY] = key
    keys.state[KEYS_USED] -= 1


@compiled
def _home_of(keys: KeyTable, key: int, mask: int) -> int:
    return key_home(
        keys.parts[key, KEY_PATTERN],
        keys.parts[key, SLOT],
        keys.parts[key, KIND],
        keys.value[key],
        mask,
    )
