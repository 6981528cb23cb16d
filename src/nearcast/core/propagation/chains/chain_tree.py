"""How the recipients of one chain pass a message on: to one peer each, or along a tree.

A message carries the recipients that come after its own, in the order of a heap: each passes it
to the first `degree` of them, and gives each of these the ones below it. Degree 1 is a chain. The
first come early and pass on most, the last pass on nothing.
"""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def split_rest(rest: Sequence[T], degree: int) -> list[tuple[T, Sequence[T]]]:
    """Return whom to pass a message to, each with the recipients that come after it."""
    if degree == 1:
        return [(rest[0], rest[1:])] if rest else []
    return [
        (rest[child], _below(rest, child + 1, degree)) for child in range(min(degree, len(rest)))
    ]


def depths(count: int, degree: int) -> list[int]:
    """Return how many times a message was sent when each recipient has it; the first is 1."""
    found = [1] * min(count, 1)
    for place in range(1, count):
        found.append(found[(place - 1) // degree] + 1)
    return found


def _below(rest: Sequence[T], top: int, degree: int) -> list[T]:
    """Return the heap below a place, where place 0 is whoever has the message now."""
    found: list[T] = []
    first, end = degree * top + 1, degree * top + degree + 1
    while first <= len(rest):
        found += rest[first - 1 : end - 1]
        first, end = degree * first + 1, degree * (end - 1) + degree + 1
    return found
