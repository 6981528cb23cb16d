"""Exact decision of one event and one subscription."""

import math

from nearcast.core.compiled import compiled, melted
from nearcast.core.matching.filters.atoms import (
    ACCEPT,
    EVENT,
    IS_TRUE,
    compare,
    lookup,
    run,
    satisfies,
)
from nearcast.core.matching.tables import (
    ANCHOR,
    F64,
    LAT,
    LON,
    NODE,
    NONE,
    RULE,
    U8,
    AtomTable,
    EventArrays,
    NodeTable,
    PairTable,
    RuleTable,
    SubscriptionTable,
)
from nearcast.core.model.geometry.geodesy import distance_bounds_m, ecef, within
from nearcast.core.model.geometry.shapes import shape_holds
from nearcast.core.model.visibility import SEE_ALL, SEE_POSITION, SEE_WHERE_NAMED

LONG, PARTIAL, SHARED = 1, 2, 4
"""Flags of a rule. LONG: its own code must be run. PARTIAL: it has SLOW atoms, so the pair must be
rechecked. SHARED: its result, and the truth of each of its atoms, is the same for every subscriber,
so it is run once per event.
"""
RECHECK = 0
"""The priority of a pair that the reference evaluator must decide."""
NO_TARGET, CIRCLE_TARGET, SHAPE_TARGET, NOBODY = 0, 1, 2, 3


@compiled
def may_see(groups: U8, nodes: NodeTable, exceptions: PairTable, viewer: int, other: int) -> int:
    """Return the visibility mask of a node for a viewer."""
    if viewer == other or other == NONE:
        return SEE_ALL
    exception = lookup(exceptions, viewer, other)
    if exception:
        return exception & SEE_ALL
    return int(groups[nodes.group[viewer], nodes.group[other]])


@compiled
def area_holds(
    s: int,
    lat: float,
    lon: float,
    x: float,
    y: float,
    z: float,
    nodes: NodeTable,
    subscriptions: SubscriptionTable,
    shapes: F64,
) -> bool:
    """Return whether a subscription's area contains a position, exactly."""
    anchor = subscriptions.rows[s, ANCHOR]
    if anchor == NONE:
        return True
    if math.isnan(lat) or math.isnan(nodes.at[anchor, LAT]):
        return False
    lat0, lon0 = nodes.at[anchor, LAT], nodes.at[anchor, LON]
    area = subscriptions.area[s]
    if area < 0.0:
        return shape_holds(shapes, int(-1.0 - area), lat, lon, x, y, z, lat0, lon0)
    x0, y0, z0 = ecef(lat0, lon0)
    return within(lat0, lon0, x0, y0, z0, lat, lon, x, y, z, area)


@compiled
def target_holds(e: int, node: int, events: EventArrays, nodes: NodeTable) -> bool:
    """Return whether an event's target contains a node."""
    kind = events.target[e]
    if kind == NO_TARGET:
        return True
    lat = nodes.at[node, LAT]
    lon = nodes.at[node, LON]
    if kind == NOBODY or math.isnan(lat):
        return False
    lat0 = events.target_at[e, 0]
    lon0 = events.target_at[e, 1]
    if kind == CIRCLE_TARGET:
        low, high = distance_bounds_m(lat, lon, lat0, lon0)
        if low > events.target_at[e, 2]:
            return False
        if high < events.target_at[e, 2]:
            return True
    x, y, z = ecef(lat, lon)
    if kind == SHAPE_TARGET:
        return shape_holds(
            events.target_code, events.target_shape[e], lat, lon, x, y, z, lat0, lon0
        )
    x0, y0, z0 = ecef(lat0, lon0)
    return within(lat0, lon0, x0, y0, z0, lat, lon, x, y, z, events.target_at[e, 2])


@compiled
def rule_priority(
    rule: int,
    rules: RuleTable,
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
    """Return 1 if a rule holds, NONE if it does not, RECHECK if it may."""
    start = rules.start[rule]
    length = rules.length[rule]
    if not run(
        rules.code, start, length, atoms, kinds, values,
        nodes, friends, me, publisher, lat, lon, mask, borrowed,
    ):  # fmt: skip
        return NONE
    if rules.flags[rule] & PARTIAL:
        return RECHECK
    return 1


@melted
def rule_truths(
    rule: int,
    rules: RuleTable,
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
) -> tuple[int, int]:
    """Return which atoms of a rule are true and which are false, a bit each."""
    at = rules.start[rule] + rules.length[rule]
    true = false = 0
    for section in range(rules.sections[rule]):
        length = rules.code[2 * at]
        atom = section >> 1
        # The program that asks whether an atom is false follows the one for true.
        if not (section & 1 and true >> atom & 1):
            word = rules.code[2 * at + 2]
            part = word >> 2
            if (
                length == 1
                and atoms.parts[part, 0] <= IS_TRUE
                and atoms.parts[part, 1] & 3 == EVENT
            ):
                # A comparison with an attribute of the event, as most are: no call.
                slot = atoms.parts[part, 1] >> 2
                verdict = compare(
                    atoms.parts[part, 0],
                    kinds[slot],
                    values[slot],
                    atoms.parts[part, 3],
                    atoms.constant[part],
                )
                jumps = rules.code[2 * at + 3]
                taken = jumps >> 8 if satisfies(verdict, word & 3) else jumps & 255
                accepts = taken == ACCEPT
            else:
                accepts = run(
                    rules.code, at + 1, length, atoms, kinds, values,
                    nodes, friends, me, publisher, lat, lon, mask, borrowed,
                )  # fmt: skip
            if accepts and section & 1:
                false |= 1 << atom
            elif accepts:
                true |= 1 << atom
        at += 1 + length
    return true, false


@compiled
def sees_place(
    s: int,
    me: int,
    mask: int,
    borrowed: int,
    nodes: NodeTable,
    subscriptions: SubscriptionTable,
    groups: U8,
    exceptions: PairTable,
) -> bool:
    """Return whether a subscriber may know the event's position and its own area's anchor."""
    if borrowed and not mask & SEE_POSITION:
        return False
    anchor = subscriptions.rows[s, ANCHOR]
    sees = may_see(groups, nodes, exceptions, me, anchor)
    return bool(sees & SEE_WHERE_NAMED == SEE_WHERE_NAMED)


@compiled
def decide(
    s: int,
    e: int,
    publisher: int,
    mask: int,
    restricted: bool,
    borrowed: int,
    lat: float,
    lon: float,
    x: float,
    y: float,
    z: float,
    events: EventArrays,
    nodes: NodeTable,
    subscriptions: SubscriptionTable,
    rules: RuleTable,
    atoms: AtomTable,
    shapes: F64,
    groups: U8,
    exceptions: PairTable,
    friends: PairTable,
    kinds: U8,
    values: F64,
) -> int:
    """Decide a pair whose subject and target are known to match: its priority or NONE."""
    me = subscriptions.rows[s, NODE]
    if subscriptions.rows[s, ANCHOR] != NONE:
        if restricted and not sees_place(
            s, me, mask, borrowed, nodes, subscriptions, groups, exceptions
        ):
            return NONE
        if not area_holds(s, lat, lon, x, y, z, nodes, subscriptions, shapes):
            return NONE
    return rule_priority(
        subscriptions.rows[s, RULE], rules, atoms, kinds, values, nodes, friends,
        me, publisher, lat, lon, mask, borrowed,
    )  # fmt: skip
