"""Scanning: the subscriptions that an event matches.

For each event: collect the cells that can hold a matching subscription, filter their entries by a
rough distance in single precision, then decide the rest exactly. An event with a target may be
matched in reverse, from the nodes in the target and their subscriptions, when these nodes are fewer
than the candidate entries.
"""

import math

import numpy as np

from nearcast.core.compiled import compiled, melted
from nearcast.core.intrinsics import prefetch
from nearcast.core.matching.filters.atoms import (
    INLINE,
    INLINE_ACCEPT,
    IS_TRUE,
    SLOW,
    compare,
    evaluate_atom,
    satisfies,
)
from nearcast.core.matching.index.cells import (
    EMPTY,
    LENGTH,
    START,
    CellArrays,
    find,
    find_tagged,
    tag_of,
)
from nearcast.core.matching.index.globe_grid import CLASSES, REACH_M, WIDE, cells_within
from nearcast.core.matching.index.keys import FLAT_CELL, GRID, KEY_SLOTS, find_key
from nearcast.core.matching.index.placement import ANYWHERE, SUBSCRIPTION
from nearcast.core.matching.index.points import POINT_LEVELS, point_cells
from nearcast.core.matching.memory import Memory, Scratch
from nearcast.core.matching.pair_decision import (
    LONG,
    NO_TARGET,
    NOBODY,
    PARTIAL,
    RECHECK,
    SHARED,
    area_holds,
    decide,
    may_see,
    rule_priority,
    sees_place,
    target_holds,
)
from nearcast.core.matching.tables import (
    F64,
    I32,
    I64,
    NEXT_OWN,
    NODE,
    NONE,
    OWN,
    PATTERN,
    U8,
    EventArrays,
    KeyTable,
    PatternTable,
)
from nearcast.core.model.event_batch import MISSING, STRING
from nearcast.core.model.geometry.ellipsoid import SHORT_M
from nearcast.core.model.geometry.geodesy import ecef
from nearcast.core.model.visibility import SEE_ALL

# Columns of an entry's body, after SUBSCRIPTION: the rule with its flags in the low bits, and the
# program unless the rule is LONG.
RULE_WORD, PROGRAM = 1, 2
BODY_COLUMNS = PROGRAM + INLINE
FLAG_BITS = 3

MAX_CODES = 128
TAG, CODE, NAME = 0, 1, 2
"""Columns of a probe: the tag and the code of a cell, and its key * 64 + class."""

FEW = 64
"""An event with a target and more candidates than this may be matched in reverse."""
FULL, TOO_MANY = -1, -2
SAMPLED = 64
"""Candidates are counted for one event in so many: counting each would cost as much as deciding."""


@compiled
def match_events(
    first: int,
    order: I32,
    serial: int,
    events: EventArrays,
    restricted: bool,
    memory: Memory,
    scratch: Scratch,
) -> tuple[int, int]:
    """Match events of a batch, in order from the first: (index reached, pairs written).

    It stops before an event whose pairs may not fit; the caller makes room and continues.
    `scratch.kinds` is all MISSING before and after. `serial` numbers the first event.
    """
    a, nodes, subscriptions = memory.cells, memory.nodes, memory.subscriptions
    keys, patterns, columns = memory.keys, memory.patterns, memory.columns
    rules, atoms, shapes = memory.rules, memory.atoms, memory.shapes
    groups, exceptions, friends = memory.groups, memory.exceptions, memory.friends
    kinds, values = scratch.kinds, scratch.values
    ranges, survivors = scratch.ranges, scratch.survivors
    probes, codes, code_count = scratch.probes, scratch.codes, scratch.code_count
    out_event, out_subscription = scratch.out_event, scratch.out_subscription
    out_priority, compared = scratch.out_priority, scratch.candidates
    written = 0
    for turn in range(first, len(order)):
        e = order[turn]
        lat, lon = events.lat[e], events.lon[e]
        placed = not math.isnan(lat)
        x = y = z = 0.0
        if placed:
            x, y, z = ecef(lat, lon)
        fx, fy, fz = np.float32(x), np.float32(y), np.float32(z)
        publisher = events.publisher[e]
        borrowed = events.borrowed[e]
        aimed = events.target[e] != NO_TARGET
        stamp = serial + e
        sampled = stamp % SAMPLED == 0
        load_event(kinds, values, events, e)

        # 1. Collect the cells that can hold a matching subscription.
        n_ranges, candidates = _name_cells(
            e, events, a, keys, patterns, columns, kinds, values, ranges, probes, codes, code_count
        )
        if n_ranges == FULL or candidates > len(survivors):
            unload_event(kinds, events, e)
            return turn, written
        if aimed and candidates > FEW:
            # Alternatively: the nodes in the target, if they are fewer.
            more = _match_those_in_target(
                e, stamp, written, candidates, restricted, events, memory, scratch
            )
            if more == FULL:
                unload_event(kinds, events, e)
                return turn, written
            if more != TOO_MANY:
                written = more
                unload_event(kinds, events, e)
                continue

        # 2. Filter the entries of these cells by rough distance.
        found = _sift(fx, fy, fz, n_ranges, a, ranges, survivors)

        # 3. Decide the rest exactly.
        if written + found > len(out_event):
            unload_event(kinds, events, e)
            return turn, written
        for k in range(found):
            i = survivors[k]
            s = a.bodies[i, SUBSCRIPTION]
            if sampled:
                compared[s] += SAMPLED
            rule_word = a.bodies[i, RULE_WORD]
            me = subscriptions.rows[s, NODE] if restricted or aimed else NONE
            mask = SEE_ALL
            if restricted:
                mask = may_see(groups, nodes, exceptions, me, publisher)
            priority = 1
            if rule_word & LONG:
                rule = rule_word >> FLAG_BITS
                if rule_word & SHARED and rules.stamp[rule] == stamp:
                    priority = rules.verdict[rule]
                else:
                    priority = rule_priority(
                        rule, rules, atoms, kinds, values, nodes, friends,
                        subscriptions.rows[s, NODE], publisher, lat, lon, mask, borrowed,
                    )  # fmt: skip
                    if rule_word & SHARED:
                        rules.stamp[rule] = stamp
                        rules.verdict[rule] = priority
                if priority == NONE:
                    continue
            else:
                at = 0
                while at < INLINE:
                    word = a.bodies[i, PROGRAM + at]
                    atom = word >> 8
                    wanted = (word >> 6) & 3
                    op = atoms.parts[atom, 0]
                    holds = True
                    if op <= IS_TRUE and atoms.parts[atom, 1] & 3 == 0:
                        slot = atoms.parts[atom, 1] >> 2
                        verdict = compare(
                            op,
                            kinds[slot],
                            values[slot],
                            atoms.parts[atom, 3],
                            atoms.constant[atom],
                        )
                        holds = satisfies(verdict, wanted)
                    elif op != SLOW:
                        verdict = evaluate_atom(
                            atom, atoms, kinds, values, nodes, friends,
                            subscriptions.rows[s, NODE], publisher, lat, lon, mask, borrowed,
                        )  # fmt: skip
                        holds = satisfies(verdict, wanted)
                    at = (word >> 3) & 7 if holds else word & 7
                if at != INLINE_ACCEPT:
                    continue
                if rule_word & PARTIAL:
                    priority = RECHECK
            if a.geo[i, 3] != np.inf:
                if not placed or (
                    restricted
                    and not sees_place(
                        s, me, mask, borrowed, nodes, subscriptions, groups, exceptions
                    )
                ):
                    continue
                dx = a.geo[i, 0] - fx
                dy = a.geo[i, 1] - fy
                dz = a.geo[i, 2] - fz
                reach_m = float(a.geo[i, 3])
                # Certainly inside, unless near the edge or not a plain circle.
                inner = reach_m * 0.999999 - 2.0 - reach_m**3 * 1.03e-15
                sure = (
                    inner > 0.0
                    and reach_m <= SHORT_M
                    and dx * dx + dy * dy + dz * dz < inner * inner
                )
                if not (sure and subscriptions.area[s] >= 0.0) and not area_holds(
                    s, lat, lon, x, y, z, nodes, subscriptions, shapes
                ):
                    continue
            if aimed and not target_holds(e, me, events, nodes):
                continue
            out_event[written] = e
            out_subscription[written] = s
            out_priority[written] = priority
            written += 1
        unload_event(kinds, events, e)
    return len(order), written


@melted
def _name_cells(
    e: int,
    events: EventArrays,
    a: CellArrays,
    keys: KeyTable,
    patterns: PatternTable,
    columns: I32,
    kinds: U8,
    values: F64,
    ranges: I32,
    probes: I64,
    codes: I64,
    code_count: I32,
) -> tuple[int, int]:
    """Write the ranges of cells that can hold a matching subscription.

    Returns the numbers of ranges and of entries in them; (FULL, 0) if there was no room.
    """
    lat, lon = events.lat[e], events.lon[e]
    placed = not math.isnan(lat)
    mask = len(a.table) - 1
    code_count[:] = -1
    n_probes = 0
    n_ranges = 0
    candidates = 0
    if events.target[e] == NOBODY:
        return 0, 0
    subject = events.subject[e]
    for p in range(events.first_pattern[subject], events.first_pattern[subject + 1]):
        pattern = events.patterns[p]
        for k in range(-1, KEY_SLOTS):
            if k == -1:
                key = patterns.keyless[pattern]
            else:
                slot = patterns.slots[pattern, k]
                if slot == NONE or kinds[slot] == MISSING:
                    continue
                key = find_key(keys, pattern, slot, kinds[slot], values[slot])
            if key == NONE:
                continue
            cell = keys.parts[key, FLAT_CELL]
            if cell != EMPTY:
                if n_ranges == len(ranges):
                    return FULL, 0
                ranges[n_ranges, 0] = a.cells[cell, START]
                ranges[n_ranges, 1] = a.cells[cell, LENGTH]
                prefetch(a.geo, a.cells[cell, START])
                candidates += a.cells[cell, LENGTH]
                n_ranges += 1
            grid = keys.parts[key, GRID]
            if grid == NONE:
                continue
            for c in range(ANYWHERE + 1):
                if keys.classes[grid, c] == 0 or (c != ANYWHERE and not placed):
                    continue
                if code_count[c] < 0:
                    code_count[c] = 1
                    codes[c, 0] = 0
                    if c < CLASSES:
                        code_count[c] = cells_within(
                            columns, c, lat, lon, REACH_M[c], codes[c], MAX_CODES
                        )
                if n_probes + code_count[c] > len(probes):
                    return FULL, 0
                for j in range(code_count[c]):
                    tag = tag_of(key, c, codes[c, j])
                    prefetch(a.table, tag & mask)
                    probes[n_probes, TAG] = tag
                    probes[n_probes, CODE] = codes[c, j]
                    probes[n_probes, NAME] = key * 64 + c
                    n_probes += 1
    n_found = 0
    for p in range(n_probes):
        tag = probes[p, TAG]
        slot = tag & mask
        while a.table[slot, 1] != EMPTY:
            if a.table[slot, 0] == tag:
                prefetch(a.cells, a.table[slot, 1])
                probes[n_found, TAG] = tag
                probes[n_found, CODE] = probes[p, CODE]
                probes[n_found, NAME] = probes[p, NAME]
                n_found += 1
                break
            slot = (slot + 1) & mask
    for p in range(n_found):
        name = probes[p, NAME]
        cell = find_tagged(a, probes[p, TAG], name >> 6, name & 63, probes[p, CODE])
        if cell != EMPTY:
            if n_ranges == len(ranges):
                return FULL, 0
            start = a.cells[cell, START]
            for i in range(start, start + a.cells[cell, LENGTH], 4):
                prefetch(a.geo, i)
            ranges[n_ranges, 0] = start
            ranges[n_ranges, 1] = a.cells[cell, LENGTH]
            candidates += a.cells[cell, LENGTH]
            n_ranges += 1
    return n_ranges, candidates


@melted
def _sift(
    fx: np.float32,
    fy: np.float32,
    fz: np.float32,
    n_ranges: int,
    a: CellArrays,
    ranges: I32,
    survivors: I32,
) -> int:
    """Write the entries whose reach may contain a point in space; return their number."""
    n_survivors = 0
    for r in range(n_ranges):
        start = ranges[r, 0]
        for i in range(start, start + ranges[r, 1]):
            dx = a.geo[i, 0] - fx
            dy = a.geo[i, 1] - fy
            dz = a.geo[i, 2] - fz
            reach = a.geo[i, 3] * np.float32(1.000001) + np.float32(2.0)
            if dx * dx + dy * dy + dz * dz <= reach * reach:
                prefetch(a.bodies, i)
                survivors[n_survivors] = i
                n_survivors += 1
    return n_survivors


@compiled
def _match_those_in_target(
    e: int,
    stamp: int,
    written: int,
    candidates: int,
    restricted: bool,
    events: EventArrays,
    memory: Memory,
    scratch: Scratch,
) -> int:
    """Match an event in reverse: the subscriptions of the nodes in its target.

    Returns the number of pairs written now; TOO_MANY if the nodes there are too many compared with
    the candidate entries; FULL if the pairs do not fit.
    """
    points, nodes, subscriptions = memory.points, memory.nodes, memory.subscriptions
    codes, pattern_stamp = scratch.codes[WIDE], scratch.pattern_stamp
    level, n_codes = point_cells(
        memory.columns,
        events.target_at[e, 0],
        events.target_at[e, 1],
        events.target_at[e, 2],
        codes,
    )
    if n_codes < 0:
        return TOO_MANY
    people = 0
    for j in range(n_codes):
        cell = find(points, level, 0, codes[j])
        if cell != EMPTY:
            people += points.cells[cell, LENGTH]
    if 4 * people >= candidates:
        return TOO_MANY
    subject = events.subject[e]
    for p in range(events.first_pattern[subject], events.first_pattern[subject + 1]):
        pattern_stamp[events.patterns[p]] = stamp
    lat, lon = events.lat[e], events.lon[e]
    x = y = z = 0.0
    if not math.isnan(lat):
        x, y, z = ecef(lat, lon)
    publisher = events.publisher[e]
    for j in range(n_codes):
        cell = find(points, level, 0, codes[j])
        if cell == EMPTY:
            continue
        start = points.cells[cell, START]
        for i in range(start, start + points.cells[cell, LENGTH]):
            node = points.items[i] // POINT_LEVELS
            if not target_holds(e, node, events, nodes):
                continue
            s = nodes.heads[node, OWN]
            while s != NONE:
                if pattern_stamp[subscriptions.rows[s, PATTERN]] == stamp:
                    mask = SEE_ALL
                    if restricted:
                        mask = may_see(memory.groups, nodes, memory.exceptions, node, publisher)
                    priority = decide(
                        s, e, publisher, mask, restricted, events.borrowed[e], lat, lon, x, y, z,
                        events, nodes, subscriptions, memory.rules, memory.atoms, memory.shapes,
                        memory.groups, memory.exceptions, memory.friends, scratch.kinds,
                        scratch.values,
                    )  # fmt: skip
                    if priority != NONE:
                        if written == len(scratch.out_event):
                            return FULL
                        scratch.out_event[written] = e
                        scratch.out_subscription[written] = s
                        scratch.out_priority[written] = priority
                        written += 1
                s = subscriptions.rows[s, NEXT_OWN]
    return written


@melted
def load_event(kinds: U8, values: F64, events: EventArrays, e: int) -> None:
    """Write the attributes of an event that filters read, by slot."""
    for i in range(events.first[e], events.first[e + 1]):
        slot = events.slot_of[events.names[i]]
        if slot != NONE:
            kinds[slot] = events.kinds[i]
            if events.kinds[i] == STRING:
                values[slot] = events.string_of[int(events.values[i])]
            else:
                values[slot] = events.values[i]


@melted
def unload_event(kinds: U8, events: EventArrays, e: int) -> None:
    """Make the attributes of an event MISSING again."""
    for i in range(events.first[e], events.first[e + 1]):
        slot = events.slot_of[events.names[i]]
        if slot != NONE:
            kinds[slot] = MISSING
