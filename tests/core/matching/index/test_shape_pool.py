"""Codes of shapes are kept once, and their room is used again whatever their lengths."""

from random import Random

import numpy as np
import pytest

from nearcast.core.matching.index.shape_pool import ShapePool
from nearcast.core.matching.tables import F64


@pytest.mark.parametrize("seed", range(20))
def test_each_shape_stays_as_it_was_put_while_others_come_and_go(seed: int) -> None:
    chance = Random(seed)
    pool = ShapePool()
    held: list[tuple[int, F64]] = []
    for number in range(400):
        if held and chance.random() < 0.45:
            begin, _ = held.pop(chance.randrange(len(held)))
            pool.release(begin)
        else:
            code = np.full(chance.choice((3, 5, 80, 200)), float(number % 40))
            if held and chance.random() < 0.3:
                code = chance.choice(held)[1]
            held.append((pool.acquire(code), code))
        for begin, code in held:
            assert (pool.code[begin : begin + len(code)] == code).all()
    distinct = {(len(code), float(code[0])) for _, code in held}
    assert len(pool) == len(distinct) == len({begin for begin, _ in held})


def test_shapes_of_ever_new_lengths_take_no_more_room() -> None:
    pool = ShapePool()
    pool.acquire(np.zeros(10))
    for length in range(1_000, 3_000):
        first, second = pool.acquire(np.ones(length)), pool.acquire(np.ones(length + 1))
        pool.release(first)
        pool.release(second)
    assert len(pool.code) < 10_000
