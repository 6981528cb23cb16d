"""Priorities from relevance, context and truth: kernels beside plain Python, seed C's tables."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.adaptation.form_function import FormFunction, Truths
from nearcast.core.adaptation.priority_matrix import (
    PriorityMatrix,
    delay_matrix,
    restriction_matrix,
)
from nearcast.core.adaptation.priority_rules import NEVER, priority_of
from nearcast.core.adaptation.subscriber_priorities import SubscriberPriorities
from nearcast.core.language import Filter, Node, Operation, Property, parse

UNITS = parse(
    "(unittype = 'infantry' OR unittype = 'armor' OR unittype = 'artillery') AND size <= 100"
)
VECTOR = (3, 2, 1, 3)


def truths_of(form: FormFunction, event: dict[str, object]) -> Truths:
    verdicts = [form.atom_filter(atom).evaluate(event) for atom in range(len(form.atoms))]  # type: ignore[arg-type]
    return Truths(
        sum(1 << i for i, each in enumerate(verdicts) if each is True),
        sum(1 << i for i, each in enumerate(verdicts) if each is False),
    )


def decided(event: dict[str, object], context: int, matrix: PriorityMatrix) -> int:
    form = FormFunction(UNITS)
    return priority_of(form, VECTOR, matrix.row(context), truths_of(form, event))


def test_seed_c_table_4_7() -> None:
    rows = [
        ("artillery", 85, 2, 2), ("artillery", 85, 3, 1), ("armor", 10, 1, 2),
        ("artillery", 32, 1, 3), ("artillery", 26, 1, 3), ("infantry", 78, 1, 1),
    ]  # fmt: skip
    for unit, size, context, priority in rows:
        event: dict[str, object] = {"unittype": unit, "size": size}
        assert decided(event, context, delay_matrix(3)) == priority
    # The paper's last row says 2, which its own Table 4-6 contradicts; restriction gives 2.
    armor: dict[str, object] = {"unittype": "armor", "size": 16}
    assert decided(armor, 2, delay_matrix(3)) == 1
    assert decided(armor, 2, restriction_matrix(3)) == 2


def test_matrices_of_seed_c() -> None:
    assert delay_matrix(3).rows == ((3, 2, 1), (2, 1, 1), (1, 1, 1))
    assert restriction_matrix(3).rows == ((-1, -1, 1), (-1, 2, 1), (1, 1, 1))


def test_restriction_withholds_what_matters_little() -> None:
    artillery: dict[str, object] = {"unittype": "artillery", "size": 32}
    assert decided(artillery, 1, restriction_matrix(3)) == NEVER
    assert decided(artillery, 3, restriction_matrix(3)) == 1


def test_what_the_whole_filter_does_not_match_has_no_priority() -> None:
    form = FormFunction(parse("kind = 'fire' AND level > 5"))
    # Alone, the more relevant atom holds; the filter does not.
    truths = truths_of(form, {"kind": "fire", "level": 1})
    assert priority_of(form, (3, 1), (3, 2, 1), truths) == NEVER


def test_a_negation_without_atoms_drops_out() -> None:
    form = FormFunction(parse("a = 1 AND NOT (b = 2 OR c = 3)"))
    restricted = form.restricted([True, False, False])
    assert restricted is not None
    assert restricted.to_text() == "a = 1"
    assert form.restricted([False] * 3) is None


def test_without_a_filter_there_is_one_atom_that_holds() -> None:
    form = FormFunction(None)
    assert form.atoms == (True,)
    assert priority_of(form, (2,), (3, 2, 1), Truths(1, 0)) == 2


def trees(leaves: int) -> st.SearchStrategy[Node]:
    names = st.integers(0, leaves - 1).map(lambda n: Operation("=", (Property(f"a{n}"), 1)))
    return st.recursive(
        names,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4)).map(
                lambda parts: Operation(parts[0], tuple(parts[1]))
            ),
            inner.map(lambda part: Operation("not", (part,))),
        ),
        max_leaves=12,
    )


@given(st.data())
def test_kernels_decide_as_plain_python(data: st.DataObject) -> None:
    levels = data.draw(st.integers(2, 4))
    values = st.sampled_from([-1, *range(1, levels + 1)])
    known, expected, rows = SubscriberPriorities(), [], []
    for number, tree in enumerate(data.draw(st.lists(trees(6), min_size=1, max_size=4))):
        form = FormFunction(Filter(tree))
        atoms = len(form.atoms)
        vector = tuple(data.draw(st.lists(st.integers(0, levels), min_size=atoms, max_size=atoms)))
        row = tuple(data.draw(st.lists(values, min_size=levels, max_size=levels)))
        known.put(2 * number, form.filter, vector, row)
        for verdicts in data.draw(
            st.lists(st.lists(st.sampled_from([True, False, None]), min_size=atoms, max_size=atoms))
        ):
            truths = Truths(
                sum(1 << i for i, each in enumerate(verdicts) if each is True),
                sum(1 << i for i, each in enumerate(verdicts) if each is False),
            )
            rows.append((2 * number, truths.true, truths.false))
            expected.append(priority_of(form, vector, row, truths))
            # Between them, one without relevance, and one that was never heard of.
            rows += ((2 * number + 1, 0, 0), (1_000, 0, 0))
            expected += (1, 1)
    column = np.array(rows, np.int64).reshape(-1, 3).T
    found = np.ones(len(rows), np.int32)
    weighted, withheld = known.prioritise(
        column[0].astype(np.int32), column[1].copy(), column[2].copy(), found
    )
    assert found.tolist() == expected
    assert weighted == len(rows) // 3
    assert withheld == expected.count(NEVER)
    assert known.rules.evaluated <= weighted
