"""Sums of pages as SQLite computes them for its write-ahead log, many at a time.

Two sums run over the 32-bit words of a page: the first adds each even word and the second sum, the
second each odd word and the first sum. They are linear, so with Fibonacci numbers as weights each
sum is a product of vectors modulo 2³². Two neighbouring Fibonacci numbers are never both even, so
any single changed bit changes one of the two.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

MODULUS = 1 << 32
Words = npt.NDArray[np.uint32]
Sums = tuple[int, int]


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
