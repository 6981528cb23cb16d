"""Kernels of meetings: each fix of a cell against all nodes present there.

Every decision about a pair depends on the fixes of these two alone, so that cells which both know a
pair agree about it whatever other nodes do; only fixes out of order require that all cells drop old
fixes at the same time. Each transition is reported by one cell: near by the home cell of the fix
that caused it, apart by the home cell of the fix that was left or that became too old.
"""

import math

import numpy as np

from nearcast.core.compiled import compiled
from nearcast.core.matching.index.globe_grid import code_of
from nearcast.core.model.geometry.geodesy import distance_m, ecef, within
from nearcast.core.relationships.meeting_cells import B8, F64, I32, I64, MOST_CELLS, reached

APART = 0
NEAR = 1
CLOSER = 2
TIME_PASSED = -1
HALVINGS = 6
"""The number of halvings of the distance that are reported: 100 m to 1.6 m."""

TIME = 0
LAT = 1
LON = 2
X = 3
Y = 4
Z = 5
STATE_COLUMNS = 6

WHEN = 0
HOW_FAR = 1
AT_LAT = 2
AT_LON = 3
VALUE_COLUMNS = 4


@compiled
def ring(distance: float, within_m: float) -> int:
    """Return how often `within_m` can be halved and still contain this distance."""
    count = 0
    limit = within_m / 2.0
    while count < HALVINGS and distance <= limit:
        limit /= 2.0
        count += 1
    return count


@compiled
def put_transition(
    who: I64,
    values: F64,
    n: int,
    cause: int,
    state: int,
    a: int,
    b: int,
    rank: I64,
    time: float,
    distance: float,
    lat: float,
    lon: float,
) -> int:
    """Write one transition, the nodes in order of name; return the number of transitions.

    `cause` is the index of the fix that caused it; `TIME_PASSED` if there is none.
    """
    who[n, 0] = state
    who[n, 1] = a if rank[a] < rank[b] else b
    who[n, 2] = b if rank[a] < rank[b] else a
    who[n, 3] = cause
    values[n, WHEN] = time
    values[n, HOW_FAR] = distance
    values[n, AT_LAT] = lat
    values[n, AT_LON] = lon
    return n + 1


@compiled
def advance(
    columns: I32,
    c: int,
    cell: int,
    within_m: float,
    fresh_s: float,
    start: int,
    slots: I64,
    fixes: F64,
    previous: F64,
    rank: I64,
    present: B8,
    home: B8,
    state: F64,
    who: I64,
    values: F64,
) -> tuple[int, int]:
    """Apply fixes from `start` until the output is full; return the next, and the transitions."""
    n = 0
    codes = np.empty(MOST_CELLS, np.int64)
    everyone = len(present)
    before = np.empty(STATE_COLUMNS)
    now = np.empty(STATE_COLUMNS)
    for i in range(start, len(slots)):
        if n + 2 * everyone > len(who):
            return i, n
        mover = slots[i]
        was_known = present[mover]
        if was_known:
            before[:] = state[mover]
            was_home = home[mover]
        else:
            before[: LON + 1] = previous[i]
            was_home = False
            if not math.isnan(before[TIME]):
                before[X], before[Y], before[Z] = ecef(before[LAT], before[LON])
                was_home = code_of(columns, c, before[LAT], before[LON]) == cell
        had_place = not math.isnan(before[TIME])
        now[: LON + 1] = fixes[i]
        time = now[TIME]
        has_place = not math.isnan(now[LAT])
        is_home = False
        if has_place:
            now[X], now[Y], now[Z] = ecef(now[LAT], now[LON])
            is_home = code_of(columns, c, now[LAT], now[LON]) == cell
        for other in range(everyone):
            if not present[other] or other == mover:
                continue
            theirs = state[other]
            was_near = False
            if had_place and near(before, theirs, within_m, fresh_s):
                end = min(before[TIME], theirs[TIME]) + fresh_s
                if time <= end:
                    was_near = True
                elif was_known:
                    older = mover
                    if theirs[TIME] < before[TIME] or (
                        theirs[TIME] == before[TIME] and rank[other] < rank[mover]
                    ):
                        older = other
                    # The same cell as in `expire`: other cells may have dropped it before.
                    if home[older]:
                        n = put_transition(
                            who, values, n, TIME_PASSED, APART, mover, other, rank, end,
                            distance_m(before[LAT], before[LON], theirs[LAT], theirs[LON]),
                            state[older, LAT], state[older, LON],
                        )  # fmt: skip
            is_near_now = has_place and near(now, theirs, within_m, fresh_s)
            if not was_near and not is_near_now:
                continue
            new_state = -1
            distance = 0.0
            if is_near_now:
                if is_home:
                    distance = distance_m(now[LAT], now[LON], theirs[LAT], theirs[LON])
                    if not was_near:
                        new_state = NEAR
                    elif ring(distance, within_m) > ring(
                        distance_m(before[LAT], before[LON], theirs[LAT], theirs[LON]), within_m
                    ):
                        new_state = CLOSER
            elif was_home:
                new_state = APART
                last = now if has_place else before
                distance = distance_m(last[LAT], last[LON], theirs[LAT], theirs[LON])
            if new_state >= 0:
                last = now if has_place else before
                n = put_transition(
                    who, values, n, i, new_state, mover, other, rank,
                    max(time, theirs[TIME]), distance, last[LAT], last[LON],
                )  # fmt: skip
        present[mover] = False
        if has_place:
            for k in range(reached(columns, c, now[LAT], now[LON], within_m, codes)):
                if codes[k] == cell:
                    present[mover] = True
                    break
        if present[mover]:
            state[mover] = now
            home[mover] = is_home
    return len(slots), n


@compiled
def near(a: F64, b: F64, within_m: float, fresh_s: float) -> bool:
    """Return whether two fixes count as near: close, and not too far apart in time."""
    if max(a[TIME], b[TIME]) > min(a[TIME], b[TIME]) + fresh_s:
        return False
    return within(a[LAT], a[LON], a[X], a[Y], a[Z], b[LAT], b[LON], b[X], b[Y], b[Z], within_m)


@compiled
def expire(
    within_m: float,
    fresh_s: float,
    start: int,
    oldest_first: I64,
    rank: I64,
    present: B8,
    home: B8,
    state: F64,
    who: I64,
    values: F64,
) -> tuple[int, int]:
    """Drop fixes that are too old, from `start`; return the next, and transitions written."""
    n = 0
    everyone = len(present)
    for i in range(start, len(oldest_first)):
        if n + everyone > len(who):
            return i, n
        gone = oldest_first[i]
        mine = state[gone]
        present[gone] = False
        if not home[gone]:
            continue
        for other in range(everyone):
            if present[other] and near(mine, state[other], within_m, fresh_s):
                n = put_transition(
                    who, values, n, TIME_PASSED, APART, gone, other, rank,
                    mine[TIME] + fresh_s,
                    distance_m(mine[LAT], mine[LON], state[other, LAT], state[other, LON]),
                    mine[LAT], mine[LON],
                )  # fmt: skip
    return len(oldest_first), n


@compiled
def place(columns: I32, c: int, cell: int, fixes: F64, state: F64, home: B8) -> None:
    """Compute from fixes their points in space, and whether the cell is their home."""
    for i in range(len(fixes)):
        state[i, : LON + 1] = fixes[i]
        state[i, X], state[i, Y], state[i, Z] = ecef(fixes[i, LAT], fixes[i, LON])
        home[i] = code_of(columns, c, fixes[i, LAT], fixes[i, LON]) == cell
