"""Nodes of the matcher: rows with position, context, subscriptions and anchored areas.

A row exists while it has users: the node has a position or a context, owns subscriptions or anchors
their areas, or is named by others. The centre of a fixed area is a row without a name.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat

import numpy as np

from nearcast.core.language.evaluation.scope import Value, followed
from nearcast.core.matching.filters.vocabulary import IDENTITY, Vocabulary
from nearcast.core.matching.tables import NONE, NodeTable, enough, resized
from nearcast.core.model.event_batch import BOOLEAN, MISSING, NUMBER, OTHER, STRING

FIXED_GROUP, DEFAULT_GROUP = 0, 1
"""Visibility groups: centres of fixed areas, visible to all; and the default of nodes."""

Newcomer = Callable[[str], tuple[int, Mapping[str, Value]]]
"""Returns the group of a node, and the attributes granted to it."""


class Nodes:
    """Rows for nodes, by name."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._rows: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._attributes: dict[int, Mapping[str, Value]] = {}
        self._granted: dict[int, Mapping[str, Value]] = {}
        self.newcomer: Newcomer | None = None
        self._users: list[int] = []
        self._free: list[int] = []
        self.arrays = NodeTable(
            at=np.full((16, 4), np.nan),
            heads=np.full((16, 2), NONE, np.int32),
            group=np.full(16, DEFAULT_GROUP, np.uint8),
            known=np.zeros((1, 16)),
            kinds=np.zeros((1, 16), np.uint8),
        )

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def capacity(self) -> int:
        """The number of rows ever made: one more than the largest row."""
        return len(self._users)

    def find(self, name: str) -> int:
        """The row of a node, NONE if it has no row."""
        return self._rows.get(name, NONE)

    def find_all(self, names: Iterable[str]) -> list[int]:
        """The rows of nodes, NONE for those without a row."""
        return list(map(self._rows.get, names, repeat(NONE)))

    def name(self, row: int) -> str:
        """The name of a row."""
        return self._names[row]

    def names(self) -> list[str]:
        """The names of all nodes with a row."""
        return list(self._rows)

    def attributes(self, row: int) -> Mapping[str, Value]:
        """The context of a row, including granted attributes."""
        own, granted = self._attributes.get(row, {}), self._granted.get(row)
        return own if granted is None else {**own, **granted}

    def has_context(self, row: int) -> bool:
        """True if a row has a context of its own."""
        return row in self._attributes

    def introduce(self, newcomer: Newcomer | None) -> None:
        """Set the function for group and grants of nodes, and apply it to all nodes."""
        self.newcomer = newcomer
        for row in self._names:
            self._introduce(row)

    def acquire(self, name: str) -> int:
        """The row of a node, with its use count incremented."""
        row = self._rows.get(name)
        if row is None:
            row = self._new()
            self._rows[name] = row
            self._names[row] = name
            if self.newcomer is not None:
                self._introduce(row)
            self._fill(row)
        self._users[row] += 1
        return row

    def acquire_again(self, row: int) -> int:
        """Increment the use count of a row in use."""
        self._users[row] += 1
        return row

    def acquire_point(self, lat: float, lon: float) -> int:
        """A new row for the centre of a fixed area."""
        row = self._new()
        self.arrays.at[row, :2] = lat, lon
        self.arrays.group[row] = FIXED_GROUP
        self._users[row] = 1
        return row

    def release(self, row: int) -> bool:
        """Decrement the use count; True if the row was freed."""
        self._users[row] -= 1
        if self._users[row]:
            return False
        name = self._names.pop(row, None)
        if name is not None:
            self._attributes.pop(row, None)
            self._granted.pop(row, None)
            self._clear(row)
            del self._rows[name]
        assert (self.arrays.heads[row] == NONE).all()
        self.arrays.at[row] = np.nan
        self.arrays.group[row] = DEFAULT_GROUP
        self._free.append(row)
        return True

    def set_attributes(self, row: int, attributes: Mapping[str, Value]) -> None:
        """Replace a node's context."""
        if attributes:
            self._attributes[row] = attributes
        else:
            self._attributes.pop(row, None)
        self._fill(row)

    def fill_paths(self, paths: list[int]) -> None:
        """Fill the columns of newly used context paths, for all nodes."""
        if not paths:
            return
        if max(paths) >= len(self.arrays.kinds):
            size = enough(len(self.arrays.kinds), max(paths) + 1)
            self.arrays = self.arrays._replace(
                known=resized(self.arrays.known, size), kinds=resized(self.arrays.kinds, size)
            )
        for path in paths:
            name = self._vocabulary.paths.value(path)
            rows = self._names if name == IDENTITY else {**self._attributes, **self._granted}
            for row in rows:
                self._set(row, path, name)

    def clear_path(self, path: int) -> None:
        """Clear the column of a context path that no filter uses any more."""
        for row in np.flatnonzero(self.arrays.kinds[path] == STRING):
            self._vocabulary.strings.release(int(self.arrays.known[path, row]))
        self.arrays.kinds[path] = MISSING

    def _introduce(self, row: int) -> None:
        group: int = DEFAULT_GROUP
        granted: Mapping[str, Value] = {}
        if self.newcomer is not None:
            group, granted = self.newcomer(self._names[row])
        self.arrays.group[row] = group
        before = self._granted.pop(row, {})
        if granted:
            self._granted[row] = granted
        if granted != before:
            self._fill(row)

    def _fill(self, row: int) -> None:
        for name, path in self._vocabulary.paths.items():
            self._set(row, path, name)

    def _clear(self, row: int) -> None:
        for path in self._vocabulary.paths.numbers():
            self._put(row, path, None)

    def _set(self, row: int, path: int, name: str) -> None:
        if name == IDENTITY:
            self._put(row, path, self._names[row])
        else:
            self._put(row, path, followed(self.attributes(row), name))

    def _put(self, row: int, path: int, value: Value) -> None:
        kinds, known = self.arrays.kinds, self.arrays.known
        before = int(known[path, row]) if kinds[path, row] == STRING else NONE
        if isinstance(value, str):
            kind, number = STRING, float(self._vocabulary.strings.acquire(value))
        elif isinstance(value, bool):
            kind, number = BOOLEAN, float(value)
        elif isinstance(value, int | float):
            kind, number = NUMBER, float(value)
        else:
            kind, number = (MISSING if value is None else OTHER), 0.0
        kinds[path, row] = kind
        known[path, row] = number
        if before != NONE:
            self._vocabulary.strings.release(before)

    def _new(self) -> int:
        """Return an unused row: no position, no context, the default group."""
        if self._free:
            return self._free.pop()
        row = len(self._users)
        self._users.append(0)
        have = len(self.arrays.group)
        if row >= have:
            self._grow(enough(have, row + 1))
            self.arrays.at[have:] = np.nan
            self.arrays.heads[have:] = NONE
            self.arrays.group[have:] = DEFAULT_GROUP
        return row

    def _grow(self, size: int) -> None:
        a = self.arrays
        self.arrays = NodeTable(
            at=resized(a.at, size),
            heads=resized(a.heads, size),
            group=resized(a.group, size),
            known=resized(a.known, size, axis=1),
            kinds=resized(a.kinds, size, axis=1),
        )
