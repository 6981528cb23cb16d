"""Codes of shapes that are not circles around a node, stored once while an area uses them."""

from bisect import bisect_left, insort
from hashlib import blake2b

import numpy as np

from nearcast.core.matching.filters.intern_table import InternTable
from nearcast.core.matching.tables import F64, enough, resized

_SHORT = 64
"""Shorter codes are their own keys, longer ones have a digest."""


class ShapePool:
    """One array with the codes of all shapes in use."""

    def __init__(self) -> None:
        self.code: F64 = np.zeros(64, np.float64)
        self._shapes: InternTable[bytes] = InternTable()
        self._begin: dict[int, int] = {}
        self._number_at: dict[int, int] = {}
        self._arrays: dict[int, F64] = {}
        """By number, the array that a shape was first given as."""
        self._number_of: dict[int, int] = {}
        """By identity of these arrays, the number."""
        self._room = _Room()

    def __len__(self) -> int:
        return len(self._shapes)

    def __getstate__(self) -> dict[str, object]:
        """All state; identities of arrays are of this process."""
        return {**vars(self), "_number_of": {}}

    def acquire(self, code: F64) -> int:
        """The start of a shape in `code`, with its use count incremented."""
        number = self._number_of.get(id(code))
        if number is not None:
            return self._begin[self._shapes.acquire_again(number)]
        known = len(self._shapes)
        number = self._shapes.acquire(_key(code))
        if len(self._shapes) == known:
            return self._begin[number]
        begin = self._room.take(len(code))
        if self._room.end > len(self.code):
            self.code = resized(self.code, enough(len(self.code), self._room.end))
        self.code[begin : begin + len(code)] = code
        self._begin[number] = begin
        self._number_at[begin] = number
        self._arrays[number] = code
        self._number_of[id(code)] = number
        return begin

    def release(self, begin: int) -> None:
        """Decrement the use count of the shape that starts there; its space is reused when free."""
        number = self._number_at[begin]
        if self._shapes.release(number):
            code = self._arrays.pop(number)
            self._number_of.pop(id(code), None)
            del self._begin[number], self._number_at[begin]
            self._room.give_back(begin, len(code))


class _Room:
    """The parts of an array that are in use; neighbouring gaps are one."""

    def __init__(self) -> None:
        self.end = 0
        """Where the last part in use ends."""
        self._gaps: list[tuple[int, int]] = []
        """Length and begin of each gap, the shortest first."""
        self._length_at: dict[int, int] = {}
        self._begin_of: dict[int, int] = {}
        """By where a gap ends, where it begins."""

    def take(self, length: int) -> int:
        """Return where a part of that length begins: in the shortest gap that holds it."""
        place = bisect_left(self._gaps, (length, 0))
        if place == len(self._gaps):
            begin, self.end = self.end, self.end + length
            return begin
        room, begin = self._gaps[place]
        self._remove(begin)
        if room > length:
            self._add(begin + length, room - length)
        return begin

    def give_back(self, begin: int, length: int) -> None:
        """Make a part a gap, together with the gaps beside it."""
        if begin in self._begin_of:
            before = self._begin_of[begin]
            length += self._remove(before)
            begin = before
        if begin + length in self._length_at:
            length += self._remove(begin + length)
        if begin + length == self.end:
            self.end = begin
        else:
            self._add(begin, length)

    def _add(self, begin: int, length: int) -> None:
        insort(self._gaps, (length, begin))
        self._length_at[begin] = length
        self._begin_of[begin + length] = begin

    def _remove(self, begin: int) -> int:
        length = self._length_at.pop(begin)
        del self._begin_of[begin + length]
        del self._gaps[bisect_left(self._gaps, (length, begin))]
        return length


def _key(code: F64) -> bytes:
    if len(code) < _SHORT:
        return code.tobytes()
    return blake2b(code.data, digest_size=32).digest()
