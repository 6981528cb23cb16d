import math
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model import (
    Context,
    ModelError,
    NodeState,
    Position,
    aggregate,
    check_attributes,
    merge_patch,
    moved,
    patched,
)

values = st.recursive(
    st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from(["x", "y", 1.0])),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)
contexts = st.builds(
    lambda people, start, length, attributes: Context(people, start, start + length, attributes),
    st.frozensets(st.sampled_from(["Alice", "Marc", "Eve"]), min_size=1),
    st.integers(0, 100),
    st.integers(0, 100),
    st.dictionaries(st.sampled_from(["location", "activity"]), values),
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_patches_merge_as_the_standard_says(
    target: object, patch: dict[str, object], result: object
) -> None:
    assert merge_patch(target, patch) == result


def test_contexts_aggregate_into_one_of_the_same_form() -> None:
    alice = Context(frozenset({"Alice"}), 10, 20, {"location": "Joe's Pub", "activity": "dancing"})
    marc = Context(frozenset({"Marc"}), 15, 40, {"location": "Joe's Pub", "activity": "talking"})
    assert aggregate([alice, marc]) == Context(
        frozenset({"Alice", "Marc"}),
        10,
        40,
        {"location": "Joe's Pub", "activity": ["dancing", "talking"]},
    )


def test_true_and_one_are_different_values() -> None:
    one, true = (Context(frozenset("a"), 0, 0, {"x": value}) for value in (1, True))
    assert aggregate([one, true]).attributes == {"x": [1, True]}


@given(contexts, contexts, contexts)
def test_aggregates_do_not_depend_on_how_they_were_grouped(
    a: Context, b: Context, c: Context
) -> None:
    whole = aggregate([a, b, c])
    assert aggregate([aggregate([a, b]), c]) == whole
    assert aggregate([a, aggregate([b, c])]) == whole


@given(contexts)
def test_a_context_alone_is_its_own_aggregate(a: Context) -> None:
    assert aggregate([a]) == a


def test_an_aggregate_of_nothing_is_refused() -> None:
    with pytest.raises(ModelError, match="at least one"):
        aggregate([])
    with pytest.raises(ModelError, match="time span"):
        Context(frozenset(), 2, 1, {})


def test_a_node_keeps_its_last_two_fixes() -> None:
    state = NodeState("bus-7")
    for at in range(3):
        state = moved(state, Position(at, 0), at)
    assert (state.position, state.previous) == (Position(2, 0), Position(1, 0))
    assert (state.position_at, state.previous_at) == (2, 1)


def test_a_patch_may_carry_a_position() -> None:
    state = patched(NodeState("bus-7"), {"position": [-6.2, 53.3], "role": "bus"}, 5.0)
    assert state.position == Position(53.3, -6.2)
    assert state.attributes == {"role": "bus"}
    gone = patched(state, {"position": None}, 6.0)
    assert gone.position is None
    assert gone.attributes == {"role": "bus"}
    assert state.context(9.0) == Context(frozenset({"bus-7"}), 5.0, 9.0, {"role": "bus"})


def test_a_refused_patch_changes_nothing() -> None:
    state = NodeState("bus-7", attributes={"role": "bus"})
    with pytest.raises(ModelError, match="latitude 91"):
        patched(state, {"position": [0, 91], "role": "car"}, 5.0)
    assert state.attributes == {"role": "bus"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "JSON object"),
        ({"a": math.nan}, r"attributes\.a nan is not a finite"),
        ({"a": {1: 2}}, "not text"),
        ({"a": b"x"}, "not a JSON value"),
        ({"a": "x" * 70_000}, "bytes of 65536"),
        ({"a": "\ud800"}, "UTF-8"),
        ({"a": 10**400}, "finite"),
    ],
)
def test_attributes_that_are_not_json_are_refused(value: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_attributes(value)


def test_attributes_have_a_greatest_depth() -> None:
    deep: object = 1
    for _ in range(5_000):
        deep = {"a": deep}
    with pytest.raises(ModelError, match="deeper than 32"):
        patched(NodeState("x"), {"a": deep}, 0.0)


def test_large_integers_are_kept_as_doubles() -> None:
    assert check_attributes({"a": 2**70, "b": 2**62}) == {"a": 2.0**70, "b": 2**62}


anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([2**63, 2**63 - 1, -(2**63), -(2**63) + 1]),
        st.floats(),
        st.text(st.characters(), max_size=5),
        st.binary(max_size=2),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(), inner)),
    max_leaves=3,
)


@given(
    st.dictionaries(
        st.one_of(st.text(max_size=3), st.just("\ud800"), st.integers()), anything, max_size=4
    )
)
def test_attributes_of_the_usual_kinds_are_found_good_as_all_others_are(
    given_: dict[object, object],
) -> None:
    def outcome(value: object) -> str | bytes:
        try:
            return msgspec.json.encode(check_attributes(value))
        except ModelError as error:
            return str(error)

    # What is no plain dict is looked at closely.
    assert outcome(given_) == outcome(MappingProxyType(given_))


@pytest.mark.parametrize("letters", [60_000, 70_000])
def test_many_attributes_are_measured(letters: int) -> None:
    many = {str(number): "x" * (letters // 60) for number in range(60)}
    if letters > 64 * 1024:
        with pytest.raises(ModelError, match="of 65536 allowed"):
            check_attributes(many)
    else:
        assert check_attributes(many) == many
