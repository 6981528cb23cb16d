"""Pairs of strings by number, in one buffer, for hosts that read thousands at once.

A replaced pair is appended; the old one stays until old bytes exceed half of the buffer. The
strings of a pair are adjacent, so that reading both takes two memory accesses: the span, then the
bytes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.intrinsics import copy_16, prefetch
from nearcast.core.matching.tables import I32, U8, Scalar, enough, resized

START, MIDDLE, END = 0, 1, 2
AHEAD = 16
"""The prefetch distance, in pairs."""
ROOM = 16
"""Padding at the end of buffers, because strings are copied in blocks of this size."""


class Texts(NamedTuple):
    """Concatenated texts: text k is `data[ends[k]]` to `data[ends[k + 1] - 1]`."""

    ends: I32
    data: U8


class StringPairTable:
    """Two UTF-8 strings per number."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Number pairs from 0."""
        self.length = 0
        """Bytes of all strings, replaced ones included."""
        self._old = 0
        self._spans: I32 = np.zeros((0, 4), np.int32)
        self._data: U8 = np.zeros(ROOM, np.uint8)
        self._write(range(len(pairs)), pairs)

    def put(self, number: int, pair: tuple[str, str]) -> None:
        """Set the pair of a number."""
        if number < len(self._spans):
            self._old += int(self._spans[number, END] - self._spans[number, START])
        self._write((number,), (pair,))
        if self._old > 4096 + self.length // 2:
            self._tidy()

    def taken(self, numbers: I32, firsts: I32) -> tuple[Texts, Texts]:
        """The first strings of the numbers at `firsts`, and the second strings of all numbers."""
        ends = np.empty(len(firsts) + 1, np.int32), np.empty(len(numbers) + 1, np.int32)
        lengths = measure(self._spans, numbers, firsts, *ends)
        assert max(lengths) < 1 << 31, "what is taken at once is less than 2 GiB"
        first, second = (np.empty(length + ROOM, np.uint8) for length in lengths)
        copy(self._spans, self._data, numbers, firsts, first, second)
        return Texts(ends[0], first[: lengths[0]]), Texts(ends[1], second[: lengths[1]])

    def _write(self, numbers: Sequence[int], pairs: Sequence[tuple[str, str]]) -> None:
        texts = [word.encode() for pair in pairs for word in pair]
        begin = self.length
        ends = begin + np.cumsum([0, *map(len, texts)], dtype=np.int64)
        self.length = int(ends[-1])
        assert self.length < 1 << 31, "all words together take less than 2 GiB"
        self._data = _grown(self._data, self.length + ROOM)
        self._data[begin : self.length] = np.frombuffer(b"".join(texts), np.uint8)
        self._spans = _grown(self._spans, max(numbers, default=-1) + 1)
        places = list(numbers)
        self._spans[places, START] = ends[:-1:2]
        self._spans[places, MIDDLE] = ends[1::2]
        self._spans[places, END] = ends[2::2]

    def _tidy(self) -> None:
        """Compact the buffer."""
        data = self._data.tobytes()
        pairs = [
            (data[start:middle].decode(), data[middle:end].decode())
            for start, middle, end, _ in self._spans.tolist()
        ]
        self.length = self._old = 0
        self._write(range(len(pairs)), pairs)


@compiled
def measure(
    spans: I32, numbers: I32, firsts: I32, first_ends: I32, second_ends: I32
) -> tuple[int, int]:
    """Compute the end of each text; return the total bytes of first and of second strings."""
    first = second = 0
    second_ends[0] = first_ends[0] = 0
    for k in range(len(numbers)):
        number = numbers[k]
        second += spans[number, END] - spans[number, MIDDLE]
        second_ends[k + 1] = second
    for k in range(len(firsts)):
        number = numbers[firsts[k]]
        first += spans[number, MIDDLE] - spans[number, START]
        first_ends[k + 1] = first
    return first, second


@compiled
def copy(spans: I32, data: U8, numbers: I32, firsts: I32, first: U8, second: U8) -> None:
    """Copy strings to the output buffers; all byte arrays have ROOM bytes of padding."""
    at = to = turn = 0
    for k in range(len(numbers)):
        if k + AHEAD < len(numbers):
            prefetch(data, spans[numbers[k + AHEAD], START])
        number = numbers[k]
        start, middle, end = spans[number, START], spans[number, MIDDLE], spans[number, END]
        if turn < len(firsts) and firsts[turn] == k:
            turn += 1
            for i in range(0, middle - start, ROOM):
                copy_16(first, at + i, data, start + i)
            at += middle - start
        for i in range(0, end - middle, ROOM):
            copy_16(second, to + i, data, middle + i)
        to += end - middle


def _grown(array: npt.NDArray[Scalar], most: int) -> npt.NDArray[Scalar]:
    return resized(array, enough(len(array), most))
