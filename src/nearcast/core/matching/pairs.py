"""Pairs of nodes with a value: friends, and exceptions of visibility."""

import numpy as np

from nearcast.core.compiled import compiled
from nearcast.core.matching.filters.atoms import pair_home
from nearcast.core.matching.tables import I64, NONE, U8, PairTable


class NodePairs:
    """A byte per ordered pair of nodes."""

    def __init__(self) -> None:
        self.arrays = _table(16)
        self._seconds: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return int(self.arrays.used[0])

    def seconds(self, first: int) -> set[int]:
        """All nodes that a node is paired with."""
        return self._seconds.get(first, set())

    def put(self, first: int, second: int, byte: int) -> None:
        """Set the byte of a pair; it must not be 0."""
        if 2 * (len(self) + 1) > len(self.arrays.pairs):
            old, self.arrays = self.arrays, _table(2 * len(self.arrays.pairs))
            for i in np.flatnonzero(old.pairs != NONE):
                _put(self.arrays, int(old.pairs[i]), int(old.bytes[i]))
        _put(self.arrays, first << 32 | second, byte)
        self._seconds.setdefault(first, set()).add(second)

    def drop(self, first: int, second: int) -> None:
        """Remove a pair if present."""
        if second not in self._seconds.get(first, ()):
            return
        _drop(self.arrays, first << 32 | second)
        self._seconds[first].discard(second)
        if not self._seconds[first]:
            del self._seconds[first]


def _table(size: int) -> PairTable:
    pairs: I64 = np.full(size, NONE, np.int64)
    values: U8 = np.zeros(size, np.uint8)
    return PairTable(pairs, values, np.zeros(1, np.int64))


@compiled
def _put(table: PairTable, pair: int, byte: int) -> None:
    mask = len(table.pairs) - 1
    i = pair_home(pair, mask)
    while table.pairs[i] != NONE and table.pairs[i] != pair:
        i = (i + 1) & mask
    if table.pairs[i] == NONE:
        table.used[0] += 1
    table.pairs[i] = pair
    table.bytes[i] = byte


@compiled
def _drop(table: PairTable, pair: int) -> None:
    mask = len(table.pairs) - 1
    hole = pair_home(pair, mask)
    while table.pairs[hole] != pair:
        hole = (hole + 1) & mask
    i = hole
    while True:
        i = (i + 1) & mask
        if table.pairs[i] == NONE:
            break
        if ((i - pair_home(table.pairs[i], mask)) & mask) >= ((i - hole) & mask):
            table.pairs[hole] = table.pairs[i]
            table.bytes[hole] = table.bytes[i]
            hole = i
    table.pairs[hole] = NONE
    table.used[0] -= 1
