"""Scanning: the live events that match subscriptions now, in one pass over shared candidates.

The reverse of matching. Events that a session has seen are passed over before anything is decided
for its subscriptions, so a move costs what is new to those whom it concerns.
"""

import math

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.matching.candidate_scan import load_event, unload_event
from nearcast.core.matching.live.seen_table import SeenArrays, is_seen
from nearcast.core.matching.memory import Memory, Scratch
from nearcast.core.matching.pair_decision import (
    NO_TARGET,
    SHARED,
    area_holds,
    may_see,
    rule_priority,
    sees_place,
    target_holds,
)
from nearcast.core.matching.tables import (
    ANCHOR,
    F64,
    I32,
    LAT,
    LON,
    NODE,
    NONE,
    RULE,
    U8,
    EventArrays,
)
from nearcast.core.model.geometry.geodesy import ecef, within
from nearcast.core.model.visibility import SEE_ALL


@compiled
def news_for(rows: I32, sessions: I32, seen: SeenArrays) -> npt.NDArray[np.bool_]:
    """Return which live events some of the sessions, given by their numbers, have not seen."""
    found = np.zeros(len(rows), np.bool_)
    for i in range(len(rows)):
        for session in sessions:
            if not is_seen(seen, rows[i], session):
                found[i] = True
                break
    return found


@compiled
def decide_live(
    first: int,
    serial: int,
    events: EventArrays,
    rows: I32,
    numbers: I32,
    needs_target: U8,
    patterns: I32,
    fits: U8,
    sessions: I32,
    seen: SeenArrays,
    restricted: bool,
    memory: Memory,
    scratch: Scratch,
) -> tuple[int, int, int]:
    """Decide live events, from the first, for subscriptions: (event reached, written, decided).

    It stops before an event whose pairs may not fit. `serial` numbers the first event. `rows` are
    the events' rows, `patterns` the subscriptions' rows in `fits`, which has for each pattern and
    subject whether it fits; `sessions` the numbers of their sessions (NONE: look at what was seen
    too). With `needs_target` only events with a target are looked at for subscriptions without an
    area.
    """
    nodes, subscriptions, rules = memory.nodes, memory.subscriptions, memory.rules
    kinds, values = scratch.kinds, scratch.values
    centres = _centres(numbers, memory)
    written = decided = 0
    for e in range(first, len(events.subject)):
        if written + len(numbers) > len(scratch.out_event):
            return e, written, decided
        lat, lon = events.lat[e], events.lon[e]
        x = y = z = 0.0
        if not math.isnan(lat):
            x, y, z = ecef(lat, lon)
        publisher, borrowed = events.publisher[e], events.borrowed[e]
        aimed = events.target[e] != NO_TARGET
        loaded = False
        for i in range(len(numbers)):
            if fits[patterns[i], events.subject[e]] == 0 or is_seen(seen, rows[e], sessions[i]):
                continue
            s = numbers[i]
            anchor = subscriptions.rows[s, ANCHOR]
            if needs_target[i] and not aimed and anchor == NONE:
                continue
            decided += 1
            rule = subscriptions.rows[s, RULE]
            is_shared = rules.flags[rule] & SHARED != 0
            is_known = is_shared and rules.stamp[rule] == serial + e
            if is_known and rules.verdict[rule] == NONE:
                continue
            me = subscriptions.rows[s, NODE]
            mask = SEE_ALL
            if restricted:
                mask = may_see(memory.groups, nodes, memory.exceptions, me, publisher)
            if anchor != NONE:
                radius_m = subscriptions.area[s]
                lat0, lon0 = centres[i, 0], centres[i, 1]
                if math.isnan(lat) or math.isnan(lat0):
                    continue
                if radius_m >= 0.0:
                    x0, y0, z0 = centres[i, 2], centres[i, 3], centres[i, 4]
                    if not within(lat0, lon0, x0, y0, z0, lat, lon, x, y, z, radius_m):
                        continue
                elif not area_holds(s, lat, lon, x, y, z, nodes, subscriptions, memory.shapes):
                    continue
                if restricted and not sees_place(
                    s, me, mask, borrowed, nodes, subscriptions, memory.groups, memory.exceptions
                ):
                    continue
            if aimed and not target_holds(e, me, events, nodes):
                continue
            if is_known:
                priority = rules.verdict[rule]
            else:
                if not loaded:
                    load_event(kinds, values, events, e)
                    loaded = True
                priority = rule_priority(
                    rule, rules, memory.atoms, kinds, values, nodes, memory.friends, me, publisher,
                    lat, lon, mask, borrowed,
                )  # fmt: skip
                if is_shared:
                    rules.stamp[rule] = serial + e
                    rules.verdict[rule] = priority
            if priority != NONE:
                scratch.out_event[written] = e
                scratch.out_subscription[written] = s
                scratch.out_priority[written] = priority
                written += 1
        if loaded:
            unload_event(kinds, events, e)
    return len(events.subject), written, decided


@compiled
def _centres(numbers: I32, memory: Memory) -> F64:
    """Return where the areas of subscriptions are anchored, as a position and a point in space."""
    found = np.zeros((len(numbers), 5))
    for i in range(len(numbers)):
        anchor = memory.subscriptions.rows[numbers[i], ANCHOR]
        if anchor != NONE:
            found[i, 0] = lat = memory.nodes.at[anchor, LAT]
            found[i, 1] = lon = memory.nodes.at[anchor, LON]
            if not math.isnan(lat):
                found[i, 2], found[i, 3], found[i, 4] = ecef(lat, lon)
    return found
