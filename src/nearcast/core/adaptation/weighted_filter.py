"""What a subscription with relevance selects, and the atoms whose truth decides the priority."""

from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.language import Filter
from nearcast.core.model.event import Subscription


def selecting_filter(subscription: Subscription) -> Filter | None:
    """The filter that events must match: without the atoms of relevance 0."""
    where, relevance = subscription.where, subscription.relevance
    if where is None or relevance is None or all(relevance.levels):
        return where
    return FormFunction(where).restricted([level > 0 for level in relevance.levels])


def weighted_atoms(subscription: Subscription) -> tuple[Filter, ...]:
    """All atoms of a filter with relevance, each as a filter; empty without relevance."""
    if subscription.relevance is None:
        return ()
    form = FormFunction(subscription.where)
    return tuple(map(form.atom_filter, range(len(form.atoms))))
