"""Copies of events as columns: what goes out for a batch, with no value for each of them.

Made of matches by the same rules as fans and deliveries: a fan is one row with its recipients,
and a delivery, where a session has several wishes or a group takes turns, is a row of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.engine.live_book import Met
from nearcast.core.matching.tables import I32, I64
from nearcast.core.model.event import Delivery
from nearcast.core.model.event_batch import EventBatch

Flags = npt.NDArray[np.bool_]
SPREAD = np.uint64(0x9E3779B1)
"""A multiplier that scatters numbers that follow each other."""


class Copies(NamedTuple):
    """Rows in the order of the events; all recipients of a row get it at one priority."""

    event: I32
    """Which event each row is of."""
    priority: I32
    """The priority of each row."""
    recipients: I32
    """The first recipient of each row, and the end."""
    wishes: I32
    """The first subscription of each recipient, and the end."""
    numbers: I32
    """The numbers of the subscriptions."""


_NONE: I32 = np.zeros(0, np.int32)
_NO_PARTS: I32 = np.zeros(1, np.int32)
NO_COPIES = Copies(_NONE, _NONE, _NO_PARTS, _NO_PARTS, _NONE)


class Draft(NamedTuple):
    """Matches in the order in which they go out."""

    event: I32
    number: I32
    priority: I32
    starts: Flags
    """Where a recipient begins."""
    begins: Flags
    """Where a row begins."""

    def of(self, which: "Flags | npt.NDArray[np.int64]") -> "Draft":
        """Some of it, or all of it in another order."""
        return Draft(
            self.event[which], self.number[which], self.priority[which], self.starts[which],
            self.begins[which],
        )  # fmt: skip

    def joined(self, other: "Draft") -> "Draft":
        """Both, in the order of the events; of one event all are in either."""
        both = Draft(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))
        return both.of(both.event.argsort(kind="stable"))

    def copies(self) -> Copies:
        """What goes out."""
        rows = np.flatnonzero(self.begins)
        places = np.flatnonzero(self.starts)
        return Copies(
            self.event[rows],
            self.priority[rows],
            _ended(np.searchsorted(places, rows), len(places)),
            _ended(places, len(self.number)),
            self.number,
        )


def drafted(event: I32, number: I32, priority: I32) -> Draft:
    """Fans of matches: a row for each event and priority, a recipient for each match.

    The matches of an event lie together.
    """
    order: npt.NDArray[np.int64] = np.empty(len(event), np.int64)
    if not order_runs(event, priority, int(event.max(initial=-1)) + 1, order):
        order = ((event.astype(np.int64) << 32) | priority).argsort(kind="stable")
    event, number, priority = event[order], number[order], priority[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (event[1:] != event[:-1]) | (priority[1:] != priority[:-1])
    return Draft(event, number, priority, np.ones(len(order), np.bool_), begins)


def gathered(draft: Draft, owners: I32) -> Draft:
    """The same with one copy for each session, all events apart that fit two wishes of one.

    `owners` are the sessions of the matches. A copy has the priority of its first wish, which is
    the best, and comes where that does.
    """
    crowded = np.zeros(int(draft.event.max(initial=-1)) + 1, np.bool_)
    if not find_duplicates(draft.event, owners, crowded):
        return draft
    apart = np.flatnonzero(crowded[draft.event])
    keys = (draft.event[apart].astype(np.int64) << 32) | owners[apart]
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    first = firsts[inverse]
    order = first.argsort(kind="stable")
    moved = np.arange(len(draft.event))
    moved[apart] = apart[order]
    found = draft.of(moved)
    found.starts[apart] = found.begins[apart] = order == first[order]
    return found


def one_by_one(
    draft: Draft,
    batch: EventBatch,
    copies: Callable[[Iterable[Met]], Sequence[Delivery]],
    number: Callable[[str], int],
) -> Draft:
    """The same with the deliveries that somebody makes of each event's matches."""
    found: list[tuple[int, int, int]] = []
    starts: list[bool] = []
    ends = np.flatnonzero(np.append(draft.event[1:] != draft.event[:-1], True)) + 1
    start = 0
    for end in ends.tolist():
        place = int(draft.event[start])
        event = batch.event(place)
        met = zip(draft.number[start:end].tolist(), draft.priority[start:end].tolist(), strict=True)
        for copy in copies((event, wanted, level) for wanted, level in met):
            for i, name in enumerate(copy.subscriptions):
                found.append((place, number(name), copy.priority))
                starts.append(i == 0)
        start = end
    which, numbers, priorities = np.array(found, np.int32).T
    begins = np.array(starts, np.bool_)
    return Draft(which, numbers, priorities, begins, begins)


def _ended(starts: "npt.NDArray[np.int64]", end: int) -> I32:
    return np.append(starts, end).astype(np.int32)


@compiled
def order_runs(event: I32, priority: I32, events: int, order: I64) -> bool:
    """Order matches by event, if those of each lie together and are ordered by priority."""
    counts = np.zeros(events + 1, np.int64)
    for k in range(len(event)):
        e = event[k]
        if k and event[k - 1] == e:
            if priority[k] < priority[k - 1]:
                return False
        elif counts[e + 1]:
            return False
        counts[e + 1] += 1
    for e in range(events):
        counts[e + 1] += counts[e]
    for k in range(len(event)):
        e = event[k]
        order[counts[e]] = k
        counts[e] += 1
    return True


@compiled
def _bits_for(count: int) -> int:
    """How many bits number the slots of a table in which so many sessions have room."""
    bits = 1
    while 1 << bits < 2 * count:
        bits += 1
    return bits


@compiled
def _slot_of(owner: int, bits: int) -> np.uint64:
    """Where a session is looked for first."""
    scattered = (np.uint32(owner) * SPREAD) & np.uint64(0xFFFFFFFF)
    return scattered >> np.uint64(32 - bits)


@compiled
def _next_slot(slot: np.uint64, bits: int) -> np.uint64:
    """Where it is looked for next."""
    return (slot + np.uint64(1)) & np.uint64((1 << bits) - 1)


@compiled
def order_by_owner(owners: I32, order: I64) -> None:
    """Order matches by session: those of each together, in the order in which they were."""
    bits = _bits_for(len(owners))
    whose = np.full(1 << bits, -1, np.int32)
    """By slot, the first match of the session that it is for."""
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
    """Mark events that fit two wishes of one session; whether there are any.

    The matches of an event lie together.
    """
    longest = run = 0
    for k in range(len(event)):
        run = run + 1 if k and event[k - 1] == event[k] else 1
        longest = max(longest, run)
    bits = _bits_for(longest)
    # What another event left in a slot is nothing to this one.
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
