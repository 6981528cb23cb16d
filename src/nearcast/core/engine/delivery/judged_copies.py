"""Judged copies: of which rows of deliveries the truth of atoms is needed again.

A copy that only subscriptions with relevance matched can get another priority while it waits. What
that follows from is taken while the subscriptions that matched are still those of the decision.
"""

from typing import NamedTuple

import numpy as np

from nearcast.core.adaptation.relevance import Levels
from nearcast.core.adaptation.subscriber_priorities import SubscriberPriorities
from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.language import Filter
from nearcast.core.matching.tables import I64

Weighting = tuple[Filter | None, Levels]
"""A filter, and the relevance of its atoms."""


class JudgedCopies(NamedTuple):
    """Rows of copies that only subscriptions with relevance matched."""

    row: I64
    weighting: I64
    """For each of these rows, which filter and vector it was judged by."""
    weightings: tuple[Weighting, ...]
    true: I64
    false: I64


def judged_copies(deliveries: Deliveries, priorities: SubscriberPriorities) -> JudgedCopies | None:
    """Find the judged copies of deliveries; None if there are none.

    Of deliveries that are columns only, the subscriptions must still have their numbers.
    """
    if not deliveries.has_truths:
        return None
    rows = deliveries.rows
    assert rows.truths is not None
    if deliveries.recipients:
        number, weightings = _of_recipients(deliveries)
    else:
        number, weightings = _of_numbers(deliveries, priorities)
    starts = np.flatnonzero(rows.starts)
    all_weighted = np.logical_and.reduceat(number >= 0, starts)
    row = np.flatnonzero(np.repeat(all_weighted, np.diff(starts, append=len(number))))
    if not len(row):
        return None
    truths = rows.truths.only(row)
    return JudgedCopies(row, number[row], weightings, truths.true, truths.false)


def _of_recipients(deliveries: Deliveries) -> tuple[I64, tuple[Weighting, ...]]:
    """The number of each row's weighting, -1 without relevance; and the weightings."""
    known: dict[Weighting, int] = {}
    number_of: dict[int, int] = {}
    """By the identity of a subscription: filters are compared only once for each."""
    found = np.empty(len(deliveries.recipients), np.int64)
    for row, recipient in enumerate(deliveries.recipients):
        (wanted,) = recipient.subscriptions
        number = number_of.get(id(wanted))
        if number is None:
            number = -1
            if wanted.relevance is not None:
                weighting = wanted.where, wanted.relevance.levels
                number = known.setdefault(weighting, len(known))
            number_of[id(wanted)] = number
        found[row] = number
    return found, tuple(known)


def _of_numbers(
    deliveries: Deliveries, priorities: SubscriberPriorities
) -> tuple[I64, tuple[Weighting, ...]]:
    numbers = deliveries.rows.subscription
    found = np.full(len(numbers), -1, np.int64)
    weighted = priorities.weighted_rows(numbers)
    different, which = np.unique(numbers[weighted], return_inverse=True)
    known: dict[Weighting, int] = {}
    of_number: list[int] = []
    for number in different.tolist():
        form = priorities.of(number)
        assert form is not None
        of_number.append(known.setdefault((form.form.filter, form.levels), len(known)))
    found[weighted] = np.array(of_number, np.int64)[which]
    return found, tuple(known)
