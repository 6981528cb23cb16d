"""Vocabulary: the attributes, strings, points and predicates used by filters in force.

Equal predicates of all filters are one atom. A name that no filter uses has no number, and an
event's attribute of that name is never read. A filter may use more names than kernels have columns
for: predicates beyond the limits here are SLOW, decided by the reference evaluator.
"""

import numpy as np

from nearcast.core.language.ast import Node
from nearcast.core.matching.filters.atoms import (
    EQUAL,
    EVENT,
    FRIEND,
    IS_TRUE,
    ME,
    POINT,
    PUBLISHER,
    SLOW,
)
from nearcast.core.matching.filters.intern_table import InternTable
from nearcast.core.matching.tables import AtomTable, enough, resized
from nearcast.core.model.event_batch import STRING
from nearcast.core.model.visibility import SEE_ATTRIBUTES, SEE_IDENTITY

MOST_SLOTS = 4096
MOST_PATHS = 64
IDENTITY = "node"
"""The context member that is the node's own name."""

Place = int | tuple[float, float]
AtomKey = (
    tuple[int, int, str, int, float | str]  # operator, whose, attribute, kind, constant
    | tuple[int, Place, Place, float]  # operator, from, to, metres
    | tuple[int, Node, bool]  # SLOW, the predicate, two-valued
)
EqualityKey = tuple[int, int, float]
"""Slot, kind and value of an attribute that must be equal: a key for indexing entries."""

ALWAYS = 0
"""The atom that always holds."""


class Vocabulary:
    """Numbers for everything filters use; atoms are counted by the rules that use them."""

    def __init__(self) -> None:
        self.slots: InternTable[str] = InternTable()
        self.paths: InternTable[str] = InternTable()
        self.strings: InternTable[str] = InternTable()
        self.equality_keys: list[EqualityKey | None] = []
        """Per atom: the key for indexing entries if it must hold."""
        self.values_of: list[int] = []
        """Per slot: the number of distinct values that filters compare it with."""
        self.new_paths: list[int] = []
        """Context paths that are newly used, for the owner to fill."""
        self.gone_paths: list[int] = []
        """Context paths that are no longer used, for the owner to clear."""
        self.arrays = AtomTable(
            parts=np.zeros((64, 4), np.int32),
            constant=np.zeros(64, np.float64),
            points=np.zeros((16, 2), np.float64),
            users=np.zeros(64, np.int32),
            needs=np.zeros(MOST_PATHS, np.uint8),
        )
        self._points: InternTable[tuple[float, float]] = InternTable()
        self._numbers: dict[AtomKey, int] = {}
        self._keys: list[AtomKey | None] = []
        self._free: list[int] = []
        self.leaves: dict[tuple[str, str, Node], tuple[int, int]] = {}
        """Plain comparisons as written: the atom, and its wanted verdict."""
        assert self.atom((SLOW, True, False)) == ALWAYS
        self.arrays.users[ALWAYS] = 1

    def __len__(self) -> int:
        return len(self._numbers)

    def atom(self, key: AtomKey) -> int | None:
        """The number of a predicate; None if beyond the limits of kernels: use a SLOW one."""
        number = self._numbers.get(key)
        return self._new_atom(key) if number is None else number

    def release(self, number: int) -> None:
        """Remove an atom that no rule uses any more, and the names only it used."""
        key = self._keys[number]
        assert key is not None
        assert self.arrays.users[number] == 0
        del self._numbers[key]
        self.leaves.clear()
        self._keys[number] = None
        self._free.append(number)
        op, left, right, kind = (int(part) for part in self.arrays.parts[number])
        if op <= IS_TRUE:
            names = self.slots if left & 3 == EVENT else self.paths
            if names.release(left >> 2) and names is self.paths:
                self.gone_paths.append(left >> 2)
            if kind == STRING:
                self.strings.release(int(self.arrays.constant[number]))
            if self.equality_keys[number] is not None:
                self.values_of[left >> 2] -= 1
        elif op not in (SLOW, FRIEND):
            for place in (left, right):
                if place >= POINT:
                    self._points.release(place - POINT)

    def _new_atom(self, key: AtomKey) -> int | None:
        op = key[0]
        if op <= IS_TRUE:
            _, whose, name, kind, constant = key  # type: ignore[misc]
            names, most = (self.slots, MOST_SLOTS) if whose == EVENT else (self.paths, MOST_PATHS)
            if len(names) >= most and names.get(name) is None:
                return None
        number = self._free.pop() if self._free else self._row()
        self._numbers[key] = number
        self._keys[number] = key
        parts, arrays = (op, 0, 0, 0), self.arrays
        self.equality_keys[number] = None
        if op <= IS_TRUE:
            slot = self._name(names, name)
            value = float(self.strings.acquire(str(constant)) if kind == STRING else constant)
            parts = (op, slot * 4 + whose, 0, kind)
            arrays.constant[number] = value
            if op == EQUAL and whose == EVENT:
                self.equality_keys[number] = (slot, kind, value)
                self.values_of[slot] += 1
        elif op != SLOW:
            _, left, right, metres = key  # type: ignore[misc]
            parts = (op, self._place(left), self._place(right), 0)
            arrays.constant[number] = metres
        self.arrays.parts[number] = parts
        self.arrays.users[number] = 0
        return number

    def _row(self) -> int:
        number = len(self._keys)
        self._keys.append(None)
        self.equality_keys.append(None)
        have = len(self.arrays.constant)
        if number >= have:
            size = enough(have, number + 1)
            self.arrays = self.arrays._replace(
                parts=resized(self.arrays.parts, size),
                constant=resized(self.arrays.constant, size),
                users=resized(self.arrays.users, size),
            )
        return number

    def _name(self, names: InternTable[str], name: str) -> int:
        known = len(names)
        number = names.acquire(name)
        if len(names) != known:
            if names is self.paths:
                self.arrays.needs[number] = SEE_IDENTITY if name == IDENTITY else SEE_ATTRIBUTES
                self.new_paths.append(number)
            elif number == len(self.values_of):
                self.values_of.append(0)
        return number

    def _place(self, place: Place) -> int:
        if isinstance(place, int):
            return place
        number = self._points.acquire(place)
        have = len(self.arrays.points)
        if number >= have:
            size = enough(have, number + 1)
            self.arrays = self.arrays._replace(points=resized(self.arrays.points, size))
        self.arrays.points[number] = place
        return POINT + number


WHOSE = {"me": ME, "publisher": PUBLISHER, "event": EVENT}
