"""The basis of a priority comes back as it was, and one that does not fit is none."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.core.adaptation.form_function import FormFunction, Truths
from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.adaptation.subscriber_priorities import JudgedSubscription, WeightedForm
from nearcast.core.language import Filter, parse
from nearcast.core.model.event import Relevance
from nearcast.store import decoded_basis, encoded_basis
from nearcast.store.state.stored_basis import weighted_filter_bytes
from tests.support.plain import plain_world as plain


@settings(max_examples=50)
@given(plain.weighted(st.none() | plain.filters), st.booleans(), st.none() | st.integers(1, 3))
def test_a_basis_comes_back_as_it_was(
    weighted: tuple[Filter | None, Relevance | None], raises: bool, said: int | None
) -> None:
    where, relevance = weighted
    form = FormFunction(where)
    levels = (1,) * len(form.atoms) if relevance is None else relevance.levels
    judged = JudgedSubscription("s", WeightedForm(form, levels), Truths(1, 0))
    found = decoded_basis(encoded_basis(PriorityBasis((judged,), said, raises)))
    assert found is not None
    assert (found.said, found.raises) == (said, raises)
    (same,) = found.judged
    assert (same.id, same.weighted.levels, same.truths) == ("s", levels, Truths(1, 0))
    # Atoms are counted alike before and after.
    assert same.weighted.form.form == form.form
    assert same.weighted.form.filter == where


def test_a_basis_whose_vector_does_not_fit_is_none() -> None:
    where = weighted_filter_bytes(parse("a = 1 AND b = 2"))
    assert decoded_basis(msgspec.msgpack.encode([[["s", where, (1,), 0, 0]], None, False])) is None
