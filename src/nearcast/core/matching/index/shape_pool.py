"""Codes of shapes that are not circles around a node, stored once while an area uses them."""

import numpy as np

from nearcast.core.matching.filters.intern_table import InternTable
from nearcast.core.matching.tables import F64, enough, resized


class ShapePool:
    """One array with the codes of all shapes in use."""

    def __init__(self) -> None:
        self.code: F64 = np.zeros(64, np.float64)
        self._shapes: InternTable[bytes] = InternTable()
        self._begin: dict[int, int] = {}
        self._number_at: dict[int, int] = {}
        self._gaps: dict[int, list[int]] = {}
        self._top = 0

    def __len__(self) -> int:
        return len(self._shapes)

    def acquire(self, code: F64) -> int:
        """The start of a shape in `code`, with its use count incremented."""
        known = len(self._shapes)
        number = self._shapes.acquire(code.tobytes())
        if len(self._shapes) == known:
            return self._begin[number]
        gaps = self._gaps.get(len(code))
        if gaps:
            begin = gaps.pop()
        else:
            begin = self._top
            self._top += len(code)
            if self._top > len(self.code):
                self.code = resized(self.code, enough(len(self.code), self._top))
        self.code[begin : begin + len(code)] = code
        self._begin[number] = begin
        self._number_at[begin] = number
        return begin

    def release(self, begin: int) -> None:
        """Decrement the use count of the shape that starts there; its space is reused when free."""
        number = self._number_at[begin]
        length = len(self._shapes.value(number)) // 8
        if self._shapes.release(number):
            del self._begin[number], self._number_at[begin]
            self._gaps.setdefault(length, []).append(begin)
            if not self._shapes:
                self._gaps.clear()
                self._top = 0
