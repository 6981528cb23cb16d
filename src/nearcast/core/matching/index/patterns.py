"""Subject patterns: those that match a subject (MQTT's `+` and `#`).

Equal patterns are stored once, with a use count. The result for a subject is cached until the set
of patterns changes.
"""

from collections.abc import Sequence

import numpy as np

from nearcast.core.matching.filters.intern_table import InternTable
from nearcast.core.matching.tables import I32

REMEMBERED = 65_536
REMEMBERED_ALL = 4_096
LONGEST_REMEMBERED = 64
LONGEST_SUBJECT = 512


class Patterns:
    """A set of subject patterns with use counts, numbered, as a tree of levels."""

    def __init__(self) -> None:
        self._numbers: InternTable[str] = InternTable()
        self._root: _Level = _Level()
        self._remembered: dict[str, tuple[int, ...]] = {}
        self._remembered_all: dict[tuple[str, ...], tuple[I32, I32]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def capacity(self) -> int:
        """One more than the largest number allocated so far."""
        return self._numbers.capacity

    def acquire(self, pattern: str) -> int:
        """The number of a pattern, with its use count incremented."""
        number = self._numbers.get(pattern)
        if number is not None:
            return self._numbers.acquire_again(number)
        number = self._numbers.acquire(pattern)
        level = self._root
        for name in pattern.split("/"):
            level = level.below.setdefault(name, _Level())
        level.number = number
        self._forget()
        return number

    def release(self, number: int) -> None:
        """Decrement the use count; a pattern without users is removed."""
        pattern = self._numbers.value(number)
        if not self._numbers.release(number):
            return
        self._forget()
        path = [self._root]
        names = pattern.split("/")
        for name in names:
            path.append(path[-1].below[name])
        path[-1].number = None
        for name, level, parent in zip(reversed(names), reversed(path), path[-2::-1], strict=False):
            if level.below or level.number is not None:
                break
            del parent.below[name]

    def matching(self, subject: str) -> tuple[int, ...]:
        """The numbers of all patterns that match a subject."""
        found = self._remembered.get(subject)
        if found is None:
            found = tuple(self._search(subject))
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            if len(subject) <= LONGEST_SUBJECT:
                self._remembered[subject] = found
        return found

    def matching_all(self, subjects: Sequence[str]) -> tuple[I32, I32]:
        """For each subject the numbers of matching patterns: start offsets, and all numbers."""
        key = tuple(subjects)
        found = self._remembered_all.get(key)
        if found is None:
            first = [0]
            numbers: list[int] = []
            for subject in key:
                numbers += self.matching(subject)
                first.append(len(numbers))
            found = np.array(first, np.int32), np.array(numbers, np.int32)
            if len(self._remembered_all) >= REMEMBERED_ALL:
                self._remembered_all.clear()
            if len(key) <= LONGEST_REMEMBERED:
                self._remembered_all[key] = found
        return found

    def pattern(self, number: int) -> str:
        """The text of a pattern."""
        return self._numbers.value(number)

    def _forget(self) -> None:
        self._remembered.clear()
        self._remembered_all.clear()

    def _search(self, subject: str) -> list[int]:
        names = subject.split("/")
        hidden = subject.startswith("$")
        found: list[int] = []
        front = [self._root]
        for depth, name in enumerate(names):
            wild = depth > 0 or not hidden
            ahead = []
            for level in front:
                below = level.below
                if wild:
                    _note(below.get("#"), found)
                    if (any_one := below.get("+")) is not None:
                        ahead.append(any_one)
                if (same := below.get(name)) is not None and name not in ("+", "#"):
                    ahead.append(same)
            front = ahead
            if not front:
                return found
        for level in front:
            _note(level, found)
            _note(level.below.get("#"), found)
        return found


class _Level:
    __slots__ = ("below", "number")

    def __init__(self) -> None:
        self.below: dict[str, _Level] = {}
        self.number: int | None = None


def _note(level: _Level | None, found: list[int]) -> None:
    if level is not None and level.number is not None:
        found.append(level.number)
