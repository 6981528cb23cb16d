"""Kernels that order matches: by event and priority, by session; and find duplicates."""

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.matching.tables import I32, I64

Flags = npt.NDArray[np.bool_]
SCATTER = np.uint64(0x9E3779B1)
"""A multiplier that scatters consecutive numbers."""
MOST_PRIORITIES = 32
"""Priorities are numbers up to this one, or matches are sorted in another way."""


@compiled
def are_ordered(event: I32, priority: I32) -> bool:
    """Return True if matches are ordered by event and priority."""
    for k in range(1, len(event)):
        if event[k] < event[k - 1]:
            return False
        if event[k] == event[k - 1] and priority[k] < priority[k - 1]:
            return False
    return True


@compiled
def order_by_priority(event: I32, priority: I32, events: int, order: I64) -> bool:
    """Order matches by event and priority, keeping the order of equal ones.

    False, and nothing is ordered, if a priority is none of 0 to MOST_PRIORITIES.
    """
    levels = 1
    for k in range(len(event)):
        if priority[k] < 0 or priority[k] > MOST_PRIORITIES:
            return False
        levels = max(levels, priority[k] + 1)
    ends = np.zeros(events * levels + 1, np.int64)
    for k in range(len(event)):
        ends[event[k] * levels + priority[k] + 1] += 1
    for place in range(events * levels):
        ends[place + 1] += ends[place]
    for k in range(len(event)):
        place = event[k] * levels + priority[k]
        order[ends[place]] = k
        ends[place] += 1
    return True


@compiled
def _bits_for(count: int) -> int:
    """Return the bits of a slot index for a hash table of `count` sessions."""
    bits = 1
    while 1 << bits < 2 * count:
        bits += 1
    return bits


@compiled
def _slot_of(owner: int, bits: int) -> np.uint64:
    """Return the first slot of a session."""
    scattered = (np.uint32(owner) * SCATTER) & np.uint64(0xFFFFFFFF)
    return scattered >> np.uint64(32 - bits)


@compiled
def _next_slot(slot: np.uint64, bits: int) -> np.uint64:
    """Return the next slot to probe."""
    return (slot + np.uint64(1)) & np.uint64((1 << bits) - 1)


@compiled
def order_by_owner(owners: I32, order: I64) -> None:
    """Order matches by session, keeping the order within each session."""
    bits = _bits_for(len(owners))
    whose = np.full(1 << bits, -1, np.int32)
    """By slot, the first match of its session."""
    group_of = np.empty(len(owners), np.int32)
    counts = np.zeros(len(owners) + 1, np.int64)
    groups = 0
    for k in range(len(owners)):
        slot = _slot_of(owners[k], bits)
        while whose[slot] >= 0 and owners[whose[slot]] != owners[k]:
            slot = _next_slot(slot, bits)
        if whose[slot] < 0:
            whose[slot] = k
            group_of[k] = groups
            groups += 1
        else:
            group_of[k] = group_of[whose[slot]]
        counts[group_of[k] + 1] += 1
    for g in range(groups):
        counts[g + 1] += counts[g]
    for k in range(len(owners)):
        g = group_of[k]
        order[counts[g]] = k
        counts[g] += 1


@compiled
def find_duplicates(event: I32, owners: I32, crowded: Flags) -> bool:
    """Mark events that match two subscriptions of one session; return whether any does.

    The matches of an event are adjacent.
    """
    longest = run = 0
    for k in range(len(event)):
        run = run + 1 if k and event[k - 1] == event[k] else 1
        longest = max(longest, run)
    bits = _bits_for(longest)
    # Slots are not cleared between events: `left_by` tells which event filled one.
    whose = np.zeros(1 << bits, np.int32)
    left_by = np.full(1 << bits, -1, np.int32)
    found = False
    for k in range(len(event)):
        e, owner = event[k], owners[k]
        slot = _slot_of(owner, bits)
        while left_by[slot] == e and whose[slot] != owner:
            slot = _next_slot(slot, bits)
        if left_by[slot] == e:
            crowded[e] = found = True
        left_by[slot], whose[slot] = e, owner
    return found
