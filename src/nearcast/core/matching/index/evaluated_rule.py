"""Rules that kernels cannot decide alone."""

from typing import NamedTuple

from nearcast.core.adaptation.weighted_filter import selecting_filter, weighted_atoms
from nearcast.core.language import Filter
from nearcast.core.language.filter_atoms import atoms_of
from nearcast.core.model.event import Subscription


class EvaluatedRule(NamedTuple):
    """The filters of a rule that are evaluated one by one, and what they need."""

    where: Filter | None
    atoms: tuple[Filter, ...]
    """Atoms with a relevance."""
    predicates: int
    """The most predicates that one event needs."""
    counts: bool
    """True if a filter counts recent events."""

    @classmethod
    def of(cls, subscription: Subscription) -> "EvaluatedRule":
        """Return the rule of a subscription."""
        where, atoms = selecting_filter(subscription), weighted_atoms(subscription)
        filters = [each for each in (where, *atoms) if each is not None]
        return cls(
            where,
            atoms,
            sum(1 for each in filters for _ in atoms_of(each.root, two_valued=False)),
            any(each.counted_subjects for each in filters),
        )
