"""Copies of events as columns: what goes out for a batch, with no value for each of them.

Made of matches by the same rules as fans and deliveries: a fan is one row with its recipients,
and a delivery, where a session has several wishes or a group takes turns, is a row of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.live_book import Met
from nearcast.core.matching.tables import I32
from nearcast.core.model.event import Delivery
from nearcast.core.model.event_batch import EventBatch

Flags = npt.NDArray[np.bool_]


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
    """Fans of matches: a row for each event and priority, a recipient for each match."""
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
    keys = (draft.event.astype(np.int64) << 32) | owners
    places = keys.argsort(kind="stable")
    again = places[1:][keys[places[1:]] == keys[places[:-1]]]
    if not len(again):
        return draft
    crowded = np.zeros(int(draft.event[-1]) + 1, np.bool_)
    crowded[draft.event[again]] = True
    apart = np.flatnonzero(crowded[draft.event])
    _, firsts, inverse = np.unique(keys[apart], return_index=True, return_inverse=True)
    first = firsts[inverse]
    order = first.argsort(kind="stable")
    moved = np.arange(len(keys))
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
