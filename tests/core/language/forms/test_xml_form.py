"""Seed C's XML: read, evaluated in two values, written back, refused with a caret."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.core.language import (
    Filter,
    LanguageError,
    Node,
    Operation,
    Property,
    Value,
    atoms,
    parse,
    parse_xml,
    to_xml,
)
from nearcast.core.language.filter_atoms import compared
from tests.core.language.situation import DUBLIN, NORTH, Situation

UNITS = """\
<SUBSCRIPTION filename="subscription.xml">
  <LOGICAL_OPERATOR value="OR">
    <LOGICAL_OPERATOR value="OR">
      <ATOM name="type" operator="=" value="document"/>
      <ATOM name="type" operator="=" value="chat"/>
    </LOGICAL_OPERATOR>
    <LOGICAL_OPERATOR value="AND">
      <ATOM name="type" operator="=" value="unit"/>
      <LOGICAL_OPERATOR value="NOT">
        <ATOM name="affiliation" operator="=" value="H"/>
      </LOGICAL_OPERATOR>
    </LOGICAL_OPERATOR>
  </LOGICAL_OPERATOR>
</SUBSCRIPTION>
"""


def subscription(inner: str) -> str:
    return f"<SUBSCRIPTION>{inner}</SUBSCRIPTION>"


def atom(name: str, operator: str, value: str, inner: str = "") -> str:
    operator = operator.replace("<", "&lt;")
    return f'<ATOM name="{name}" operator="{operator}" value="{value}">{inner}</ATOM>'


def parameter(name: str, properties: str = "") -> str:
    return f'<PARAMETER name="{name}" properties="{properties}"/>'


def refusal(text: str) -> LanguageError:
    with pytest.raises(LanguageError) as caught:
        parse_xml(text)
    return caught.value


def test_a_file_becomes_a_tree_of_its_operators_and_atoms() -> None:
    read = parse_xml(UNITS)
    assert read.filename == "subscription.xml"
    assert read.filter.two_valued
    assert read.filter.to_text() == (
        "(type = 'document' OR type = 'chat') OR type = 'unit' AND NOT affiliation = 'H'"
    )


def test_atoms_come_in_the_order_of_the_file() -> None:
    values = [
        node.args[1] for node in atoms(parse_xml(UNITS).filter) if isinstance(node, Operation)
    ]
    assert values == ["document", "chat", "unit", "H"]


def test_a_missing_attribute_makes_an_atom_false_and_its_negation_true() -> None:
    read = parse_xml(UNITS).filter
    assert read.evaluate({"type": "unit"}) is True
    assert Filter(read.root).evaluate({"type": "unit"}) is None
    assert read.evaluate({}) is False


@pytest.mark.parametrize(
    ("operator", "given_", "expected"),
    [
        ("=", 100, True),
        ("=", 100.0, True),
        ("=", "100", True),
        ("=", "1e2", False),
        ("<=", 85, True),
        ("<=", "85", False),
        ("!=", 85, True),
        ("!=", "85", True),
        ("<>", 100, False),
        ("!=", None, False),
        ("!=", True, False),
    ],
)
def test_a_numeral_compares_with_numbers_and_with_texts(
    operator: str, given_: Value, expected: bool
) -> None:
    read = parse_xml(subscription(atom("size", operator, "100"))).filter
    assert read.evaluate({"size": given_}) is expected
    assert len(atoms(read)) == 1


def test_a_user_is_a_node_and_this_is_the_event() -> None:
    inner = parameter("user", "username=user1") + parameter("this")
    read = parse_xml(subscription(atom("distance", "<=", "1500", inner))).filter
    scope = Situation(now={"node.user1": DUBLIN, "event": NORTH})
    assert read.evaluate_in(scope) is True
    assert read.evaluate_in(Situation(now={"event": NORTH})) is False


def test_the_distance_to_earlier_events_is_that_of_the_nearest() -> None:
    class History(Situation):
        def nearest(self, where: Filter | None, to: tuple[float, float]) -> float | None:
            assert where == parse("affiliation = 'H'")
            assert to == DUBLIN
            return 140.0

    inner = parameter("user", "username=user1") + parameter("uform", "affiliation=H")
    read = parse_xml(subscription(atom("distance", "<=", "150", inner))).filter
    assert read.evaluate_in(History(now={"node.user1": DUBLIN})) is True
    turned = parameter("uform", "affiliation=H") + parameter("user", "username=user1")
    read = parse_xml(subscription(atom("distance", ">", "150", turned))).filter
    assert read.evaluate_in(History(now={"node.user1": DUBLIN})) is False


def test_a_count_may_be_near_a_user_near_this_event_or_anywhere() -> None:
    scope = Situation(counts=2, counted=[])
    uform = parameter("uform", "affiliation=H, size=3")
    near = parameter("distance", "value=150")
    for inner in (
        uform,
        uform + parameter("user", "username=user1") + near,
        uform + near + parameter("this"),
    ):
        read = parse_xml(subscription(atom("count", "<=", "3", inner))).filter
        assert read.evaluate_in(scope) is True
        assert parse_xml(to_xml(read)).filter == read
    chosen = "affiliation = 'H' AND (size = 3 OR size = '3')"
    assert scope.counted == [
        ("#", chosen, None, "me"),
        ("#", chosen, 150.0, "node.user1"),
        ("#", chosen, 150.0, "event"),
    ]


names = st.sampled_from(["type", "size", "a.b", "odd name"])
leaves = st.builds(
    compared,
    st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    names.map(Property),
    st.sampled_from(["unit", "100", "-1.5", "0100", "", 'a "b" <c> & d\n', "1e999", "é"]),
)
places: st.SearchStrategy[Node] = st.sampled_from(
    [Property("event"), Operation("node", ("user1",)), Operation("node", ("b&c",))]
)
uforms = st.sampled_from(["", "a = 'b'", "a = 'b' AND (c = 3 OR c = '3')"])
distances = st.builds(
    lambda a, b, m: Operation("<=", (Operation("distance", (a, b)), m)),
    places,
    st.one_of(places, uforms.map(lambda text: Operation("earlier", (text,)))),
    st.integers(1, 900),
)
counts = st.builds(
    lambda text, near, m: Operation(">", (Operation("count", ("#", text, *near)), m)),
    uforms,
    st.one_of(st.just(()), places.map(lambda place: (150, place))),
    st.integers(0, 9),
)
trees = st.recursive(
    st.one_of(leaves, distances, counts),
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


@given(trees, st.text("ab<&\"'é \n", max_size=5))
@settings(max_examples=200, deadline=None)
def test_what_is_written_reads_back_the_same(tree: Node, filename: str) -> None:
    read = parse_xml(to_xml(Filter(tree, two_valued=True), filename))
    assert (read.filename, read.filter.root) == (filename, tree)


def test_a_three_valued_filter_is_not_written_as_xml() -> None:
    with pytest.raises(LanguageError, match="two-valued"):
        to_xml(parse("a = 'b'"))
    for text in ("a LIKE 'b'", "a", "a = TRUE", "a + 1 = 2", "friend(publisher) = TRUE"):
        with pytest.raises(LanguageError, match="cannot express"):
            to_xml(Filter(parse(text).root, two_valued=True))


def test_functions_of_the_xml_are_not_part_of_cql2() -> None:
    for text in ("distance(node('a'), event) < 5", "distance(me, earlier('a')) < 5"):
        with pytest.raises(LanguageError, match="no function"):
            parse(text)


def test_an_operator_left_open_is_named_with_its_line() -> None:
    # As in the seed's Listing 6-1: one closing tag is missing.
    text = UNITS.replace("    </LOGICAL_OPERATOR>\n", "", 1)
    error = refusal(text)
    assert "LOGICAL_OPERATOR opened on line 2" in error.message
    assert error.line == 13


def test_a_closing_tag_too_many_is_named() -> None:
    # As in the seed's Listing 7-6, where an operator ends twice.
    text = UNITS.replace("</SUBSCRIPTION>", "</LOGICAL_OPERATOR>\n</SUBSCRIPTION>")
    error = refusal(text)
    assert "remove this closing tag" in error.message
    assert error.line == 14


REFUSED = [
    ("", "no element"),
    ("<SUBSCRIPTION>", "never closed"),
    ("<SUBSCRIPTION/>", "holds one"),
    ("<OTHER/>", "Expected SUBSCRIPTION"),
    ('<SUBSCRIPTION colour="red"/>', "has no colour"),
    ('<!DOCTYPE a [<!ENTITY x "y">]><SUBSCRIPTION/>', "DOCTYPE"),
    ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><SUBSCRIPTION/>', "DOCTYPE"),
    ("<SUBSCRIPTION>&x;</SUBSCRIPTION>", "not well-formed"),
    ("<a>" * 10_000, "deep"),
    (" " * 70_000, "longer"),
    ("<SUBSCRIPTION filename='\ud800'/>", "surrogate"),
    (subscription("text"), "Text is not expected"),
    (subscription(atom("a", "=", "b") * 2), "closing tag too many"),
    (subscription("<PARAMETER/>"), "Expected LOGICAL_OPERATOR"),
    (subscription('<LOGICAL_OPERATOR value="XOR"/>'), "AND, OR or NOT"),
    (subscription('<LOGICAL_OPERATOR value="AND"/>'), "at least one"),
    (subscription('<ATOM name="a" value="b"/>'), "lacks operator"),
    (subscription(atom("a", "~", "b")), "The operator of an ATOM"),
    (subscription(atom("me", "=", "b")), "reserved"),
    (subscription(atom("event.x", "=", "b")), "no member x"),
    (subscription(atom("a", "=", "b", parameter("this"))), "Only distance and count"),
    (subscription(atom("distance", "=", "b")), "two PARAMETERs"),
    (subscription(atom("distance", "=", "b", parameter("this") * 2)), "a number"),
    (subscription(atom("distance", "=", "1", parameter("uform", "a=b") * 2)), "two PARAMETERs"),
    (subscription(atom("distance", "=", "1", parameter("user", "name=x"))), "username=NAME"),
    (subscription(atom("count", "=", "1", parameter("this"))), "the PARAMETER uform"),
    (subscription(atom("count", "=", "1", parameter("uform", "a"))), "NAME=VALUE"),
    (subscription(atom("count", "=", "1", parameter("distance", "value=0"))), "above 0"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_meant_is_refused(text: str, said: str) -> None:
    assert said in refusal(text).message


def test_a_refusal_points_at_the_element() -> None:
    text = UNITS.replace('operator="=" value="chat"', 'operator="~" value="chat"')
    assert str(refusal(text)).splitlines()[2] == "      ^"
    assert refusal(text).line == 5
