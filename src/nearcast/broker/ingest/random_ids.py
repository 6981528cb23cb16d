"""Ids for events and clients that brought none: random, so that they tell no numbers.

A counter, or a generator whose state can be worked out from its numbers, would tell whoever
publishes twice how much others published in between.
"""

import os
from collections.abc import Callable, Iterator
from itertools import chain

RandomBytes = Callable[[int], bytes]
ID_BYTES = 10
"""Among a thousand million ids of 80 bits two are the same once in two million brokers."""
_AT_ONCE = 256


def random_ids(random_bytes: RandomBytes = os.urandom) -> Iterator[str]:
    """Yield ids for ever; simulations give a seeded source, to have the same ones again."""
    return chain.from_iterable(_blocks(random_bytes))


def _blocks(random_bytes: RandomBytes) -> Iterator[list[str]]:
    length = 2 * ID_BYTES
    while True:
        # A system call for each would cost more than all else that is done for a plain event.
        text = random_bytes(ID_BYTES * _AT_ONCE).hex()
        yield [text[start : start + length] for start in range(0, len(text), length)]
