"""The matcher's tables: nodes, subscriptions, rules and keys as columns for kernels.

Each table is a NamedTuple of arrays. Kernels never allocate; `resized` gives an array more rows,
and the owner chains a freed row into its table's free list.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
I8 = npt.NDArray[np.int8]

NONE = -1


class NodeTable(NamedTuple):
    """One row per node, and one for the centre of each fixed area."""

    at: F64  # (rows, 4): latitude and longitude now, and at the previous fix; NaN: unknown
    heads: I32  # (rows, 2): OWN, first subscription; ANCHORED, first entry anchored to it
    group: U8  # visibility class
    known: F64  # (context paths, rows): numbers, booleans and string numbers
    kinds: U8  # (context paths, rows)


# Columns of `at` and of `heads`.
LAT, LON, LAT_BEFORE, LON_BEFORE = 0, 1, 2, 3
OWN, ANCHORED = 0, 1

# Columns of a subscription's row.
NODE, RULE, ANCHOR, ENTRY, PATTERN = 0, 1, 2, 3, 4
NEXT_OWN, PREVIOUS_OWN = 5, 6
SUBSCRIPTION_COLUMNS = 7


class SubscriptionTable(NamedTuple):
    """One row per subscription.

    NODE owns it; its area is anchored to ANCHOR (NONE: no area); its entries in the index begin
    with ENTRY and are chained through `next_entry`. A free row has RULE NONE and is chained through
    NEXT_OWN.
    """

    rows: I32
    area: F64  # radius of a circle round ANCHOR, or -1 - where the shape's code begins
    next_entry: I32  # per entry of the index


class RuleTable(NamedTuple):
    """Programs of filters; equal filters are one rule."""

    start: I32  # where its code begins; for a free row, the next free one
    length: U8  # instructions of the filter itself
    sections: U8  # programs that follow it: for each atom with relevance, "is true", "is false"
    flags: U8
    verdict: I8  # for the event `stamp`
    stamp: I64
    judged: I64  # the event for which the truth of its atoms is known
    true: I64  # a bit for each atom that is true
    false: I64
    users: I32
    code: I32  # instructions, two integers each
    slots: I32  # hash table over the code
    state: I64  # see `shared_programs`


class AtomTable(NamedTuple):
    """Distinct predicates: operator, left operand, right operand, kind of constant; constant."""

    parts: I32  # (rows, 4)
    constant: F64
    points: F64  # (rows, 2): fixed points named in filters, lat and lon
    users: I32  # rules that use it
    needs: U8  # per context path: the visibility bits it requires


class KeyTable(NamedTuple):
    """The keys (pattern, attribute, value) under which entries are indexed."""

    parts: I32  # (rows, 9): see `keys`
    value: F64
    classes: I32  # (rows, classes): entries per class of keys that have a grid
    slots: I32  # hash table
    state: I64  # FREE_KEY, KEYS_MADE, KEYS_USED, FREE_GRID, GRIDS_MADE


class PatternTable(NamedTuple):
    """The attributes that serve as keys under a subject pattern."""

    keyless: I32  # the key of entries without a value
    slots: I32  # (rows, KEY_SLOTS): attributes in use as keys, NONE beyond
    counts: I32  # (rows, KEY_SLOTS): entries filed under each


class PairTable(NamedTuple):
    """A hash table from an ordered pair of nodes to a byte."""

    pairs: I64  # NONE: empty
    bytes: U8
    used: I64


class EventArrays(NamedTuple):
    """A batch as columns for kernels."""

    subject: I32
    publisher: I32
    lat: F64
    lon: F64
    borrowed: U8  # the position was taken from the publisher's context
    first: I32  # (events + 1): where each event's attributes begin
    names: I32
    kinds: U8
    values: F64
    slot_of: I32  # of a name in the batch
    string_of: I32  # of a string in the batch
    first_pattern: I32  # (subjects + 1)
    patterns: I32
    target: I32  # 0: none, 1: circle, 2: shape, 3: contains no node
    target_at: F64  # (events, 3): anchor latitude, longitude; reach
    target_shape: I32
    target_code: F64


Scalar = TypeVar("Scalar", bound=np.generic)


def resized(array: npt.NDArray[Scalar], rows: int, axis: int = 0) -> npt.NDArray[Scalar]:
    """Return a copy with more rows, which are zero; the array itself if it has that size."""
    if array.shape[axis] == rows:
        return array
    shape = list(array.shape)
    shape[axis] = rows
    bigger = np.zeros(shape, array.dtype)
    bigger[tuple(slice(0, n) for n in array.shape)] = array
    return bigger


def enough(have: int, wanted: int) -> int:
    """Return a size that is at least `wanted` and grows geometrically."""
    return have if wanted <= have else max(wanted, have + have // 4 + 64)


def nbytes(table: tuple[object, ...]) -> int:
    """Return the bytes of a table's arrays."""
    return sum(array.nbytes for array in table if isinstance(array, np.ndarray))
