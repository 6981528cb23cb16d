"""Deliveries: which session gets which events, as columns.

A row is an event and a subscription that it matched. The rows of one copy (one event for one
session, however many of its subscriptions match) are adjacent, best priority first. Live events,
shared groups, routes and pipeline decisions all have this form. It can be read by event or by
session.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.core.adaptation.form_function import Truths
from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.engine.delivery.match_order import (
    Flags,
    are_ordered,
    find_duplicates,
    order_by_owner,
    order_by_priority,
)
from nearcast.core.matching.atom_truths import TruthColumns, joined_truths
from nearcast.core.matching.matcher import Matches
from nearcast.core.matching.tables import I32, I64
from nearcast.core.model.event import Delivery, Event, Subscription

if TYPE_CHECKING:
    from nearcast.core.engine.delivery.routes import Route


class Recipient:
    """A session, and those of its subscriptions that an event matched."""

    __slots__ = ("host", "numbers", "owner", "subscriptions")

    def __init__(self, subscriptions: tuple[Subscription, ...], numbers: tuple[int, ...]) -> None:
        self.subscriptions = subscriptions
        self.numbers = numbers
        """The numbers of the subscriptions in the matcher."""
        self.owner = subscriptions[0].owner
        self.host: object | None = None
        """A value the host caches with it."""

    @classmethod
    def of(cls, several: Iterable["Recipient"]) -> "Recipient":
        """Return one recipient with all subscriptions of several, which are of one session."""
        parts = list(several)
        return cls(
            tuple(one for each in parts for one in each.subscriptions),
            tuple(number for each in parts for number in each.numbers),
        )

    def __reduce__(self) -> tuple[object, ...]:
        return Recipient, (self.subscriptions, self.numbers)


class Rows(NamedTuple):
    """The columns of deliveries, in delivery order."""

    event: I32
    """The index of the event."""
    subscription: I32
    """The number of the subscription."""
    priority: I32
    starts: Flags
    """True where a copy begins."""
    truths: TruthColumns | None = None
    """The truth of the atoms of subscriptions with relevance; None if none of them has any."""

    def only(self, which: "Flags | I64") -> "Rows":
        """Return the rows selected by a mask, or in the order of an index."""
        return Rows(
            self.event[which], self.subscription[which], self.priority[which], self.starts[which],
            None if self.truths is None else self.truths.only(which),
        )  # fmt: skip

    def joined(self, other: "Rows") -> "Rows":
        """Return both in the order of events; for one event, these rows come first."""
        both = Rows(
            np.concatenate((self.event, other.event)),
            np.concatenate((self.subscription, other.subscription)),
            np.concatenate((self.priority, other.priority)),
            np.concatenate((self.starts, other.starts)),
            joined_truths((self.truths, other.truths), (len(self.event), len(other.event))),
        )
        return both.only(both.event.argsort(kind="stable"))


def sorted_rows(matches: Matches) -> Rows:
    """Return matches ordered by event and priority, each as a copy of its own."""
    event, priority = matches.event, matches.priority
    if not are_ordered(event, priority):
        order: I64 = np.empty(len(event), np.int64)
        if not order_by_priority(event, priority, int(event.max()) + 1, order):
            order = ((event.astype(np.int64) << 32) | priority).argsort(kind="stable")
        matches = matches.only(order)
    starts = np.ones(len(event), np.bool_)
    return Rows(matches.event, matches.subscription, matches.priority, starts, matches.truths)


def merged_copies(rows: Rows, owners: I32) -> Rows:
    """Return the rows with one copy per event and session; `owners` is the session of each row.

    A copy takes the position of its first row, which has the best priority.
    """
    crowded = np.zeros(int(rows.event.max(initial=-1)) + 1, np.bool_)
    if not find_duplicates(rows.event, owners, crowded):
        return rows
    apart = np.flatnonzero(crowded[rows.event])
    keys = (rows.event[apart].astype(np.int64) << 32) | owners[apart]
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    first = firsts[inverse]
    order = first.argsort(kind="stable")
    moved = np.arange(len(rows.event))
    moved[apart] = apart[order]
    found = rows.only(moved)
    found.starts[apart] = order == first[order]
    return found


Share = tuple[Recipient, Sequence[int], Sequence[int]]
"""Copies for one session by the same subscriptions: event indexes, and their priorities."""


class Deliveries:
    """Events and their recipients."""

    __slots__ = (
        "_owners", "_route", "_row_of", "_rows", "bases", "caused_at", "caused_by", "events",
        "recipients", "replayed",
    )  # fmt: skip

    def __init__(
        self,
        events: Sequence[Event],
        rows: Rows,
        owners: I32,
        recipients: Sequence[Recipient] = (),
        replayed: bool = False,
    ) -> None:
        """Take rows, the session of each row, and the recipient of each row by its subscription.

        Without recipients it can be read as columns only.
        """
        self.events = events
        self._rows: Rows | None = rows
        self._owners = owners
        self.recipients = recipients
        """By row, the recipient by that subscription alone; empty if only columns are kept."""
        self._route: Route | None = None
        self._row_of: dict[tuple[int, int], int] | None = None
        self.replayed = replayed
        """True if the events were live before: sessions matched them by subscribing or moving."""
        self.caused_at: float | None = None
        """The time of the input that made a session match a live event."""
        self.caused_by = 0
        """The index of that input."""
        self.bases: Mapping[str, PriorityBasis] | None = None
        """If decided elsewhere: what priorities follow from, by the ids of subscriptions."""

    @classmethod
    def along(cls, route: "Route", events: Sequence[Event]) -> "Deliveries":
        """Return deliveries of all events to every recipient of a route, at the best priority."""
        found = cls.__new__(cls)
        found.events, found.replayed, found.caused_at, found.caused_by = events, False, None, 0
        found._rows, found._owners, found.recipients, found._route = None, NO_OWNERS, (), route
        found._row_of = found.bases = None
        return found

    def __len__(self) -> int:
        """The number of copies."""
        if self._rows is None:
            assert self._route is not None
            return len(self._route.recipients) * len(self.events)
        return int(np.count_nonzero(self._rows.starts))

    @property
    def rows(self) -> Rows:
        """All rows; for a route they are built on first use."""
        if self._rows is None:
            assert self._route is not None
            count, everyone = len(self.events), self._route.recipients
            numbers = [number for each in everyone for number in each.numbers]
            starts = [not i for each in everyone for i in range(len(each.numbers))]
            self._rows = Rows(
                np.repeat(np.arange(count, dtype=np.int32), len(numbers)),
                np.tile(np.array(numbers, np.int32), count),
                np.ones(count * len(numbers), np.int32),
                np.tile(np.array(starts, np.bool_), count),
            )
        return self._rows

    def only(self, keep: Sequence[bool]) -> "Deliveries":
        """Return a subset of the copies; `keep` has one flag per copy."""
        kept = np.repeat(np.array(keep, np.bool_), np.diff(self._edges()))
        recipients = list(compress(self.recipients, kept.tolist()))
        rows = self.rows.only(kept)
        owners = self._owners[kept] if len(self._owners) else NO_OWNERS
        return Deliveries(self.events, rows, owners, recipients, self.replayed)

    def __iter__(self) -> Iterator[Delivery]:
        """Yield copies, event by event."""
        for recipient, place, priority in self.copies():
            first = recipient.subscriptions[0]
            yield Delivery(
                self.events[place],
                first.node,
                tuple(each.id for each in recipient.subscriptions),
                priority,
                first.session,
                self.replayed,
            )

    def by_session(self) -> Iterator[Share]:
        """Yield all copies of each session, in the order of the events."""
        if self._route is not None:
            count = len(self.events)
            everything, best = range(count), (1,) * count
            for recipient in self._route.recipients:
                yield recipient, everything, best
            return
        rows = self.rows
        if len(self.events) == 1:
            for recipient, _, level in self.copies():
                yield recipient, _FIRST, _BEST if level == 1 else (level,)
            return
        order: I64 = np.empty(len(rows.event), np.int64)
        order_by_owner(np.abs(self._owners), order)
        event, number, priority, starts = (column[order] for column in rows[:4])
        # A copy by several subscriptions is yielded separately.
        single = starts & np.append(starts[1:], True)
        begins = starts.copy()
        begins[1:] &= (number[1:] != number[:-1]) | ~single[1:] | ~single[:-1]
        edges = [*np.flatnonzero(begins).tolist(), len(order)]
        rows_of, alone = order.tolist(), single.tolist()
        places, priorities, recipients = event.tolist(), priority.tolist(), self.recipients
        for start, end in pairwise(edges):
            if alone[start]:
                yield recipients[rows_of[start]], places[start:end], priorities[start:end]
            else:
                several = Recipient.of(recipients[row] for row in rows_of[start:end])
                yield several, places[start : start + 1], priorities[start : start + 1]

    def copies(self) -> Iterator[tuple[Recipient, int, int]]:
        """Yield recipient, event index and priority of each copy, event by event."""
        if self._route is not None:
            for place in range(len(self.events)):
                for recipient in self._route.recipients:
                    yield recipient, place, 1
            return
        event, priority = self.rows.event, self.rows.priority
        places, priorities, recipients = event.tolist(), priority.tolist(), self.recipients
        if len(places) == len(self):
            yield from zip(recipients, places, priorities, strict=True)
            return
        for start, end in pairwise(self._edges()):
            some = recipients[start:end]
            recipient = some[0] if len(some) == 1 else Recipient.of(some)
            yield recipient, places[start], priorities[start]

    @property
    def has_truths(self) -> bool:
        """True if the truth of atoms is known: some subscriptions have relevance."""
        return self._rows is not None and self._rows.truths is not None

    def truths(self, place: int, recipient: Recipient) -> dict[int, Truths]:
        """By number, the truth of the atoms of a recipient's subscriptions for one event.

        Only of those with relevance, unless no other event has a recipient with any.
        """
        columns = None if self._rows is None else self._rows.truths
        if self._rows is None or columns is None:
            return {}
        if self._row_of is None:
            pairs = zip(self._rows.event.tolist(), self._rows.subscription.tolist(), strict=True)
            self._row_of = {pair: row for row, pair in enumerate(pairs)}
        rows = ((number, self._row_of.get((place, number))) for number in recipient.numbers)
        return {
            number: Truths(int(columns.true[row]), int(columns.false[row]))
            for number, row in rows
            if row is not None
        }

    def _edges(self) -> list[int]:
        starts = self.rows.starts
        return [*np.flatnonzero(starts).tolist(), len(starts)]


_FIRST, _BEST = (0,), (1,)
NO_OWNERS: I32 = np.zeros(0, np.int32)
NO_DELIVERIES = Deliveries(
    (), Rows(NO_OWNERS, NO_OWNERS, NO_OWNERS, np.zeros(0, np.bool_)), NO_OWNERS
)
