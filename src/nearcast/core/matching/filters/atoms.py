"""Atoms and programs: evaluation of a filter for one (event, subscriber).

A program is a list of instructions (atom, wanted verdict, jump if it holds, jump if not). Negation
is part of the wanted verdict, so unknown is never mistaken for false: an instruction asks for TRUE
or for FALSE, and unknown is neither.
"""

import math

import numpy as np

from nearcast.core.compiled import compiled, melted
from nearcast.core.matching.tables import (
    F64,
    I32,
    LAT,
    LAT_BEFORE,
    LON,
    LON_BEFORE,
    NONE,
    U8,
    AtomTable,
    NodeTable,
    PairTable,
)
from nearcast.core.model.event_batch import BOOLEAN, MISSING, NUMBER
from nearcast.core.model.geometry.geodesy import distance_bounds_m, distance_m
from nearcast.core.model.visibility import SEE_ATTRIBUTES, SEE_POSITION

EQUAL, LESS, AT_MOST, IS_NULL, IS_TRUE = 0, 1, 2, 3, 4
DISTANCE_EQUAL, DISTANCE_LESS, DISTANCE_AT_MOST, APPROACHING, FRIEND, SLOW = 5, 6, 7, 8, 9, 10
"""SLOW: only the reference evaluator can decide. It passes here, and the pair is rechecked."""

EVENT, PUBLISHER, ME = 0, 1, 2
"""Owner of an operand's attribute: operand = slot * 4 + owner. In distances a plain number is the
place: ME, PUBLISHER, EVENT, or POINT + row.
"""
POINT = 3

WANT_FALSE, WANT_TRUE, WANT_NOT_TRUE, WANT_NOT_FALSE = 0, 1, 2, 3
HAS_LIST = 0x7FFFFFFF
"""Paired with a node in the friends table if its context has a friend list."""
ACCEPT, REJECT = 255, 254
UNKNOWN = -1

INLINE = 6
"""Instructions that fit beside an entry of the index, one integer each: the atom, the wanted
verdict (2 bits), the jump if it holds (3 bits) and if not (3 bits).
"""
INLINE_ACCEPT, INLINE_REJECT = 7, 6


@melted
def compare(op: int, kind: int, value: float, wanted_kind: int, wanted: float) -> int:
    """Compare a value with a constant: 1, 0 or UNKNOWN."""
    if op == IS_NULL:
        return 1 if kind == MISSING else 0
    if op == IS_TRUE:
        if kind != BOOLEAN:
            return UNKNOWN
        return 1 if value != 0.0 else 0
    if kind != wanted_kind or kind == MISSING:
        return UNKNOWN
    if op == EQUAL:
        return 1 if value == wanted else 0
    if kind != NUMBER:
        return UNKNOWN
    if op == LESS:
        return 1 if value < wanted else 0
    return 1 if value <= wanted else 0


@melted
def satisfies(verdict: int, wanted: int) -> bool:
    """Return whether a verdict is the one that an instruction wants."""
    if wanted <= WANT_TRUE:
        return verdict == wanted
    return verdict != WANT_NOT_FALSE - wanted


@compiled
def where_is(
    place: int,
    nodes: NodeTable,
    atoms: AtomTable,
    me: int,
    publisher: int,
    lat: float,
    lon: float,
    mask: int,
    borrowed: int,
) -> tuple[float, float]:
    """Return the position of a place named in a filter; NaN if unknown or hidden."""
    if place >= POINT:
        return atoms.points[place - POINT, 0], atoms.points[place - POINT, 1]
    if place == ME:
        return nodes.at[me, LAT], nodes.at[me, LON]
    if place == PUBLISHER:
        if publisher == NONE or not mask & SEE_POSITION:
            return math.nan, math.nan
        return nodes.at[publisher, LAT], nodes.at[publisher, LON]
    if borrowed and not mask & SEE_POSITION:
        return math.nan, math.nan
    return lat, lon


@compiled
def evaluate_atom(
    atom: int,
    atoms: AtomTable,
    kinds: U8,
    values: F64,
    nodes: NodeTable,
    friends: PairTable,
    me: int,
    publisher: int,
    lat: float,
    lon: float,
    mask: int,
    borrowed: int,
) -> int:
    """Evaluate any atom but SLOW: 1, 0 or UNKNOWN."""
    op = atoms.parts[atom, 0]
    left = atoms.parts[atom, 1]
    if op <= IS_TRUE:
        slot = left >> 2
        whose = left & 3
        if whose == EVENT:
            kind = kinds[slot]
            value = values[slot]
        elif whose == ME:
            kind = nodes.kinds[slot, me]
            value = nodes.known[slot, me]
        else:
            kind = MISSING
            value = 0.0
            if publisher != NONE and mask & atoms.needs[slot]:
                kind = nodes.kinds[slot, publisher]
                value = nodes.known[slot, publisher]
        return compare(op, kind, value, atoms.parts[atom, 3], atoms.constant[atom])
    if op == FRIEND:
        if publisher == NONE or not mask & SEE_ATTRIBUTES:
            return UNKNOWN
        if lookup(friends, publisher, HAS_LIST) == 0:
            return UNKNOWN
        return lookup(friends, publisher, me)
    right = atoms.parts[atom, 2]
    if op == APPROACHING:
        right = ME
    lat1, lon1 = where_is(left, nodes, atoms, me, publisher, lat, lon, mask, borrowed)
    lat2, lon2 = where_is(right, nodes, atoms, me, publisher, lat, lon, mask, borrowed)
    if math.isnan(lat1) or math.isnan(lat2):
        return UNKNOWN
    limit = atoms.constant[atom]
    if op != APPROACHING:
        low, high = distance_bounds_m(lat1, lon1, lat2, lon2)
        if low > limit:
            return 0
        if high < limit:
            return 0 if op == DISTANCE_EQUAL else 1
    distance = distance_m(lat1, lon1, lat2, lon2)
    if op == APPROACHING:
        # A node with one fix counts as standing still; if neither has two, the result is unknown.
        known = False
        if left == PUBLISHER and not math.isnan(nodes.at[publisher, LAT_BEFORE]):
            lat1, lon1 = nodes.at[publisher, LAT_BEFORE], nodes.at[publisher, LON_BEFORE]
            known = True
        if not math.isnan(nodes.at[me, LAT_BEFORE]):
            lat2, lon2 = nodes.at[me, LAT_BEFORE], nodes.at[me, LON_BEFORE]
            known = True
            if left == ME:
                lat1, lon1 = lat2, lon2
        if not known:
            return UNKNOWN
        return 1 if distance < distance_m(lat1, lon1, lat2, lon2) else 0
    if op == DISTANCE_LESS:
        return 1 if distance < limit else 0
    if op == DISTANCE_AT_MOST:
        return 1 if distance <= limit else 0
    return 1 if distance == limit else 0


@compiled
def run(
    code: I32,
    start: int,
    length: int,
    atoms: AtomTable,
    kinds: U8,
    values: F64,
    nodes: NodeTable,
    friends: PairTable,
    me: int,
    publisher: int,
    lat: float,
    lon: float,
    mask: int,
    borrowed: int,
) -> bool:
    """Return whether a program accepts; SLOW atoms count as holding."""
    i = 0
    while i < length:
        word = code[2 * (start + i)]
        jumps = code[2 * (start + i) + 1]
        atom = word >> 2
        holds = True
        if atoms.parts[atom, 0] != SLOW:
            verdict = evaluate_atom(
                atom, atoms, kinds, values, nodes, friends, me, publisher, lat, lon, mask, borrowed
            )
            holds = satisfies(verdict, word & 3)
        i = jumps >> 8 if holds else jumps & 255
    return i == ACCEPT


@compiled
def lookup(table: PairTable, first: int, second: int) -> int:
    """Return the byte of an ordered pair, 0 if absent."""
    if table.used[0] == 0:
        return 0
    pair = (first << 32) | second
    mask = len(table.pairs) - 1
    i = pair_home(pair, mask)
    while table.pairs[i] != NONE:
        if table.pairs[i] == pair:
            return int(table.bytes[i])
        i = (i + 1) & mask
    return 0


@compiled
def pair_home(pair: int, mask: int) -> int:
    """Return the first slot of a pair in a table of mask + 1 slots."""
    h = np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return int(np.int64(h & np.uint64(mask)))
