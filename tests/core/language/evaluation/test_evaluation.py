"""Three-valued evaluation over properties: true, false and unknown."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.core.language import Filter, Node, Operation, Property, Value, parse

EVENT: dict[str, Value] = {
    "speed": 50,
    "kind": "car",
    "name": "Žluťoučký Kůň",
    "fast": True,
    "nothing": None,
    "big": 2**53 + 1,
    "huge": 10**400,
    "nan": float("nan"),
    "a": {"b": {"c": 7}},
    "x.y": 1,
    "tags": ["a", "b"],
    "seen": "2024-05-31T12:00:00Z",
    "day": "2024-05-31",
    "at": datetime(2024, 5, 31, 12, tzinfo=UTC),
    "on": date(2024, 5, 31),
    "spot": {"type": "Point", "coordinates": [-6.26, 53.35]},
    "bowtie": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]},
    "me": {"role": "medic", "node": "n1"},
    "event": {"subject": "traffic/jam", "attributes": {"me": 5}},
    "publisher": {"friends": ["n1"]},
}

TRUE = """
speed = 50
speed <> 49
speed < 50.5
kind = 'car'
kind < 'cas'
'Z' < 'a'
fast
fast = TRUE
fast <> FALSE
big = 9007199254740992
a.b.c = 7
x.y = 1
me.role = 'medic'
event.subject = 'traffic/jam'
event.attributes.speed = 50
event.attributes.me = 5
nothing IS NULL
missing IS NULL
a.b.z IS NULL
kind.b IS NULL
speed IS NOT NULL
(missing = 1) IS NULL
(speed / 0) IS NULL
POINT(1 2) IS NOT NULL
speed BETWEEN 50 AND 60
speed NOT BETWEEN 1 AND missing OR TRUE
speed NOT BETWEEN 60 AND missing
kind IN ('bus', 'car')
kind IN (1, missing, 'car')
kind NOT IN ('bus')
kind LIKE 'c%r'
kind LIKE '_a_'
kind NOT LIKE 'C%'
casei(kind) LIKE casei('C%')
accenti(name) = 'Zlutoucky Kun'
casei(accenti(name)) LIKE '%lutou_ky%'
casei('STRASSE') = casei('straße')
speed + 2 * 3 = 56
speed - 10 - 5 = 35
speed % 7 = 1
-7 % 4 = -3
7 div 2 = 3
-7 div 2 = -3
2 ^ 10 = 1024
-speed < 0
seen = TIMESTAMP('2024-05-31T14:00:00+02:00')
seen > TIMESTAMP('2024-05-31T11:59:59.9Z')
seen = DATE('2024-05-31')
seen >= DATE('2024-05-31')
day = DATE('2024-05-31')
at = TIMESTAMP('2024-05-31T12:00:00Z')
at > '2024-05-31T11:00:00Z'
on < DATE('2024-06-01')
seen BETWEEN DATE('2024-05-01') AND DATE('2024-05-31')
A_CONTAINS(tags, ('a'))
A_EQUALS(tags, ('b', 'a', 'a'))
A_CONTAINEDBY(tags, ('a', 'b', 'c'))
A_OVERLAPS(tags, ('b', 1))
NOT A_CONTAINS(tags, ('z'))
A_CONTAINS(tags, ())
S_INTERSECTS(spot, BBOX(-7, 53, -6, 54))
S_WITHIN(spot, POLYGON((-7 53, -6 53, -6 54, -7 54, -7 53)))
S_EQUALS(spot, POINT(-6.26 53.35 7))
S_DISJOINT(spot, BBOX(170, -10, -170, 10))
S_INTERSECTS(POINT(179 0), BBOX(170, -10, -170, 10))
friend(publisher)
""".strip().splitlines()

UNKNOWN = """
missing = 1
missing <> 1
nothing = 1
missing = missing
speed = '50'
speed <> '50'
fast = 1
fast < TRUE
kind > 5
tags = 'a'
"nan" = "nan"
huge > 1
missing
kind
speed IN ('a', missing)
missing IN (1)
kind IN ('bus', 1)
speed BETWEEN 1 AND missing
speed LIKE '5%'
missing LIKE '%'
speed / 0 = 1
speed % 0 = 1
speed div 0 = 1
0 ^ -1 = 1
(-8) ^ 0.5 = 1
1e308 * 10 > 1
kind + 1 = 2
casei(speed) = '50'
kind > DATE('2024-01-01')
speed > DATE('2024-01-01')
A_CONTAINS(kind, ('a'))
A_CONTAINS(tags, (missing))
S_INTERSECTS(missing, POINT(1 2))
S_INTERSECTS(bowtie, POINT(0.5 0.1))
S_INTERSECTS(kind, POINT(1 2))
T_AFTER(kind, DATE('2024-01-01'))
T_DURING(seen, INTERVAL(missing, '..'))
distance(me, event) < 5
approaching(event)
count('a', 'b') > 1
NOT missing
missing AND fast
missing OR kind = 'bus'
""".strip().splitlines()


@pytest.mark.parametrize("text", TRUE)
def test_these_hold_and_their_negations_do_not(text: str) -> None:
    assert parse(text).evaluate(EVENT) is True
    assert parse(f"NOT ({text})").evaluate(EVENT) is False


@pytest.mark.parametrize("text", UNKNOWN)
def test_these_are_unknown_and_so_are_their_negations(text: str) -> None:
    assert parse(text).evaluate(EVENT) is None
    assert parse(f"NOT ({text})").evaluate(EVENT) is None


TRUTHS = (False, None, True)


def reference(node: Node, values: Mapping[str, bool | None]) -> bool | None:
    """Kleene's logic as minimum, maximum and complement of 0, 1/2 and 1."""
    if isinstance(node, Property):
        return values[node.name]
    assert isinstance(node, Operation)
    places = [TRUTHS.index(reference(arg, values)) for arg in node.args]
    if node.op == "not":
        return TRUTHS[2 - places[0]]
    return TRUTHS[min(places) if node.op == "and" else max(places)]


trees = st.recursive(
    st.sampled_from([Property("p"), Property("q"), Property("r")]),
    lambda inner: st.one_of(
        st.builds(
            lambda op, args: Operation(op, tuple(args)),
            st.sampled_from(["and", "or"]),
            st.lists(inner, min_size=2, max_size=3),
        ),
        st.builds(lambda arg: Operation("not", (arg,)), inner),
    ),
    max_leaves=8,
)


@given(trees)
@settings(max_examples=100, deadline=None)
def test_logic_agrees_with_the_whole_truth_table(tree: Node) -> None:
    for p, q, r in product(TRUTHS, repeat=3):
        values = {"p": p, "q": q, "r": r}
        assert Filter(tree).evaluate(values) is reference(tree, values)
        two = {name: bool(value) for name, value in values.items()}
        assert Filter(tree, two_valued=True).evaluate(values) is reference(tree, two)


numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@given(numbers, numbers, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
@settings(max_examples=100, deadline=None)
def test_numbers_compare_as_doubles(left: float, right: float, op: str) -> None:
    x, y = float(left), float(right)
    expected = {"=": x == y, "<>": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]
    assert parse(f"x {op} y").evaluate({"x": left, "y": right}) is expected


SPANS = [
    ("t_after", "2024-05-31T13:00:00Z", "INTERVAL('..', '2024-05-31T12:00:00Z')"),
    ("t_before", "2024-05-30", "DATE('2024-05-31')"),
    ("t_during", "2024-05-31T12:00:00Z", "INTERVAL('2024-05-31T00:00:00Z', '..')"),
    ("t_intersects", "2024-05-31T12:00:00Z", "DATE('2024-05-31')"),
    ("t_during", "2024-05-31T12:00:00Z", "DATE('2024-05-31')"),
    ("t_starts", "2024-05-31", "INTERVAL('2024-05-31', '..')"),
    ("t_finishes", "2024-05-31", "INTERVAL('2024-05-01', '2024-05-31')"),
    ("t_equals", "2024-05-31", "INTERVAL('2024-05-31', '2024-05-31')"),
    ("t_disjoint", "2024-05-31", "INTERVAL('2024-06-01', '..')"),
]


@pytest.mark.parametrize(("op", "value", "literal"), SPANS)
def test_an_instant_relates_to_a_literal(op: str, value: str, literal: str) -> None:
    assert parse(f"{op}(t, {literal})").evaluate({"t": value}) is True


def test_intervals_relate_by_exactly_one_of_allens_relations() -> None:
    names = "after before contains during equals finishedBy finishes meets metBy"
    names += " overlappedBy overlaps startedBy starts"
    for a1, a2, b1, b2 in product(range(1, 6), repeat=4):
        if a1 >= a2 or b1 >= b2:
            continue
        ends = {"a1": a1, "a2": a2, "b1": b1, "b2": b2}
        event: dict[str, Value] = {k: f"2024-01-{v:02}" for k, v in ends.items()}
        held = {
            name
            for name in names.split()
            if parse(f"t_{name}(INTERVAL(a1, a2), INTERVAL(b1, b2))").evaluate(event)
        }
        # The t_meets of two ends that touch excludes t_before, whose ends do not.
        assert len(held) == 1
        apart = parse("t_disjoint(INTERVAL(a1, a2), INTERVAL(b1, b2))").evaluate(event)
        assert apart is (held <= {"after", "before"})
        touch = parse("t_intersects(INTERVAL(a1, a2), INTERVAL(b1, b2))").evaluate(event)
        assert touch is not apart


def test_an_interval_of_properties_that_ends_before_it_starts_is_unknown() -> None:
    filter_ = parse("t_after(INTERVAL(a, b), DATE('2020-01-01'))")
    assert filter_.evaluate({"a": "2024-02-01", "b": "2024-01-01"}) is None


@given(st.text("ab%", max_size=8), st.text("ab%_", max_size=8))
@settings(max_examples=300, deadline=None)
def test_like_agrees_with_the_plain_definition(text: str, pattern: str) -> None:
    def matches(t: str, p: str) -> bool:
        if not p:
            return not t
        if p[0] == "%":
            return matches(t, p[1:]) or (bool(t) and matches(t[1:], p))
        return bool(t) and p[0] in ("_", t[0]) and matches(t[1:], p[1:])

    assert parse(f"x LIKE '{pattern}'").evaluate({"x": text}) is matches(text, pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("50\\%", "50%"), ("a\\_b", "a_b"), ("a\\\\b", "a\\b"), ("a\\", "a\\"), ("\\x", "x")],
)
def test_a_backslash_makes_the_next_character_plain(pattern: str, text: str) -> None:
    assert parse(f"x LIKE '{pattern}'").evaluate({"x": text}) is True
    assert parse(f"x LIKE '{pattern}'").evaluate({"x": "zzz"}) is False


def test_folding_a_pattern_makes_no_new_wildcards() -> None:
    # The full-width percent sign decomposes into a plain one.
    assert parse("x LIKE accenti('a％')").evaluate({"x": "abc"}) is False
    assert parse("accenti(x) LIKE accenti('a％')").evaluate({"x": "a％"}) is True
