"""Random ids for events and clients without one; they reveal no counts.

A counter, or a generator whose state can be derived from its output, would reveal to a client that
publishes twice how much others published in between.
"""

import os
from collections.abc import Callable, Iterator
from itertools import chain

RandomBytes = Callable[[int], bytes]
ID_BYTES = 10
"""With 80 bits, two of 10^9 ids collide in about one of two million brokers."""
_AT_ONCE = 256


def random_ids(random_bytes: RandomBytes = os.urandom) -> Iterator[str]:
    """Yield ids without end; simulations pass a seeded source, for reproducible ids."""
    return chain.from_iterable(_blocks(random_bytes))


def _blocks(random_bytes: RandomBytes) -> Iterator[list[str]]:
    length = 2 * ID_BYTES
    while True:
        # A system call per id would cost more than all other work for a plain event.
        text = random_bytes(ID_BYTES * _AT_ONCE).hex()
        yield [text[start : start + length] for start in range(0, len(text), length)]
