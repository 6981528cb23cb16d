"""Bases of priorities from rows of the pipeline.

A copy that the pipeline decided on waits like one that was decided here: with the truth of its
atoms, so that a change of class, role or task gives it another priority.
"""

from nearcast.core.adaptation.form_function import Truths
from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.adaptation.subscriber_priorities import JudgedSubscription
from nearcast.core.model.errors import ModelError
from nearcast.store import StoreError, weighted_form
from nearcast.wire.handover import DeliveryRow, HandoverError, RowUrgency

NOTHING_SAID = RowUrgency()


def bases_of(row: DeliveryRow) -> dict[str, PriorityBasis]:
    """Return what the priorities of a row's copies follow from, by the ids of subscriptions.

    Empty for copies without relevance, and for rows of earlier releases.
    """
    judged = {
        name: JudgedSubscription(
            name, weighted_form(each.filter, each.levels), Truths(each.true_bits, each.false_bits)
        )
        for each in row.judged
        for name in each.subscriptions
    }
    if not judged:
        return {}
    said = row.urgency or NOTHING_SAID
    found: dict[str, PriorityBasis] = {}
    for recipient in row.recipients:
        if all(name in judged for name in recipient.subscriptions):
            own = tuple(judged[name] for name in recipient.subscriptions)
            basis = PriorityBasis(own, said.priority, said.raises)
            found |= dict.fromkeys(recipient.subscriptions, basis)
    return found


def check_judged(row: DeliveryRow) -> None:
    """Raise `HandoverError` unless filters and vectors of a row can be used."""
    for each in row.judged:
        try:
            atoms = len(weighted_form(each.filter, each.levels).levels)
        except (ModelError, StoreError, LookupError, TypeError, ValueError) as error:
            raise HandoverError(f"this is no filter with its relevance: {error}") from None
        if (each.true_bits | each.false_bits) >> atoms:
            raise HandoverError(
                f"a filter with {atoms} atoms has truths {each.true_bits:#x} and "
                f"{each.false_bits:#x}"
            )
