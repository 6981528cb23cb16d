"""Sums of pages, many at a time: SQLite's own for its write-ahead log, and ours for each page.

SQLite's two sums run over the 32-bit words of a frame: the first adds each even word and the second
sum, the second each odd word and the first sum. They are linear, so with Fibonacci numbers as
weights each is a product of vectors modulo 2³². Ours is such a product of all words and one of
their upper halves, modulo 2⁶⁴ with odd weights: any changed bit, or pair of them, changes it.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

MODULUS = 1 << 32
_HALF = np.uint64(32)
Words = npt.NDArray[np.uint32]
LongWords = npt.NDArray[np.uint64]
Sums = tuple[int, int]


def page_sums(table: LongWords) -> LongWords:
    """Return the sum of each row of words."""
    weights = _odd_weights(2 * table.shape[1])
    whole: LongWords = np.einsum("ij,j->i", table, weights[::2])
    # The top bits of two words would cancel each other out.
    upper: LongWords = np.einsum("ij,j->i", table >> _HALF, weights[1::2])
    found: LongWords = whole ^ (upper << _HALF) ^ (upper >> _HALF)
    return found


@cache
def _odd_weights(count: int) -> LongWords:
    """Return weights that differ in all their bits (SplitMix64), made odd."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    odd: LongWords = (state ^ (state >> np.uint64(31))) | np.uint64(1)
    return odd


@cache
def weights(words: int) -> tuple[Words, Words]:
    """Return the weight of each word in the two sums."""
    numbers = fibonacci(words + 1)
    first = [numbers[words - 1 - at] for at in range(words)]
    second = [numbers[words - at] for at in range(words)]
    return np.array(first, np.uint32), np.array(second, np.uint32)


def fibonacci(count: int) -> list[int]:
    """Return the first Fibonacci numbers, modulo 2³²."""
    numbers = [0, 1]
    while len(numbers) < count:
        numbers.append((numbers[-1] + numbers[-2]) % MODULUS)
    return numbers


def sums_of(table: Words) -> Words:
    """Return the two sums of each row of words, each beginning with zero."""
    first, second = weights(table.shape[1])
    columns = [np.einsum("ij,j->i", table, each) for each in (first, second)]
    return np.stack(columns, axis=1)


class SumChain:
    """Sums that go on over several blocks of the same number of words."""

    def __init__(self, words: int) -> None:
        self._low, self._middle, self._high = fibonacci(words + 2)[words - 1 : words + 2]

    def next(self, first: int, second: int, before: Sums) -> Sums:
        """Return the sums after a block, from its own sums and those before it."""
        return (
            (first + self._low * before[0] + self._middle * before[1]) % MODULUS,
            (second + self._middle * before[0] + self._high * before[1]) % MODULUS,
        )
