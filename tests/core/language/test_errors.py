"""Every refusal says what is wrong, what would be right, and where."""

import pytest

from nearcast.core.language import LanguageError, parse


def refusal(source: str | bool | dict[str, object]) -> LanguageError:
    with pytest.raises(LanguageError) as caught:
        parse(source)
    return caught.value


# The ^ under each text marks where the caret must be.
REFUSED = [
    ("", "^", "empty"),
    ("speed >", "       ^", "Expected a value"),
    ("speed > 50 kind", "           ^", "Expected an operator"),
    ("speed = 1)", "         ^", "closes nothing"),
    ("(speed = 1", "^", "never closed"),
    ("kind IN ('a', 'b'", "        ^", "never closed"),
    ("kind = 'car", "       ^", "never closed"),
    ('"kind = 1', "^", "never closed"),
    ("kind IN ()", "        ^", "at least one"),
    ("kind IN 'a'", "        ^", "Expected ( after IN"),
    ("a IS 3", "     ^", "NULL"),
    ("a BETWEEN 1 OR 2", "            ^", "lowest AND highest"),
    ("a = b = c", "^", "not a condition"),
    ("a = AND", "    ^", "double quotes"),
    ("a = NaN", "    ^", "NaN"),
    ("a = 1e999", "    ^", "too large"),
    ("a = 1; b = 2", "     ^", "AND or OR"),
    ("a && b", "  ^", "AND or OR"),
    ("a IN ['b']", "     ^", "('a', 'b')"),
    ("a ~ 3", "  ^", "means nothing"),
    ("50", "^", "true or false"),
    ("speed AND 3", "          ^", "a condition"),
    ("name LIKE other", "          ^", "a pattern"),
    ("'a' + 1 = 2", "^", "a number"),
    ("distnce(me, event) < 3", "^", "Did you mean distance?"),
    ("foo(a)", "^", "distance, approaching, count, friend"),
    ("distance(me) < 3", "^", "two arguments"),
    ("distance(me, 3) < 3", "             ^", "POINT(lon lat)"),
    ("distance(me, event)", "^", "gives a number"),
    ("friend(me)", "       ^", "friend takes publisher"),
    ("approaching('x')", "            ^", "not a text"),
    ("me = 1", "^", "stands alone only in"),
    ("A_CONTAINS(t, (me))", "               ^", "stands alone only in"),
    ("event.xyz = 1", "^", "attributes.NAME"),
    ("event.attributes. = 1", "^", "attributes.NAME"),
    ("me. = 1", "^", "must follow"),
    ("count('a#', 'b') > 3", "      ^", "only as its last"),
    ("count(a, 'b') > 3", "      ^", "a subject in quotes"),
    ("count('a', b) > 3", "           ^", "a filter in quotes"),
    ("count('a', 'b', 0) > 3", "                ^", "above 0"),
    ("count('a', 'x = ''y'' AND') > 3", "                         ^", "In the filter of count"),
    ("count('a', 'count(''b'', ''c'') > 1') > 3", "            ^", "cannot count again"),
    ("d = DATE('2023-02-30')", "         ^", "February 2023 has 28 days"),
    ("d = DATE('2023-13-01')", "         ^", "months go from 01 to 12"),
    ("d = DATE('today')", "         ^", "2024-05-31"),
    ("d = DATE(d)", "         ^", "a text in quotes"),
    ("d = TIMESTAMP('2023-02-03T25:00:00Z')", "              ^", "hours go from 00 to 23"),
    ("d = TIMESTAMP('2023-02-03T00:00:00')", "              ^", "12:00:00Z"),
    ("T_AFTER(d, '2023-01-01')", "           ^", "TIMESTAMP('...')"),
    ("T_DURING(d, INTERVAL('2023-01-01'))", "                                 ^", "and an end"),
    ("T_DURING(d, INTERVAL('soon', '..'))", "                     ^", "'..'"),
    ("T_DURING(d, INTERVAL('2024-01-01', '2023-01-01'))", "            ^", "swap"),
    ("S_WITHIN(g, POLYGON((0 0, 1 0, 1 1)))", "                     ^", "first, 0 0"),
    ("S_WITHIN(g, POLYGON((0 0, 1 0, 0 0)))", "                     ^", "four points"),
    ("S_WITHIN(g, POINT(200 0))", "                  ^", "Longitude 200"),
    ("S_WITHIN(g, POINT(0 -91))", "                  ^", "Latitude -91"),
    ("S_WITHIN(g, POINT(0))", "                  ^", "two or three"),
    ("S_WITHIN(g, POINT EMPTY)", "                  ^", "points"),
    ("S_WITHIN(g, LINESTRING(0 0))", "                       ^", "two points"),
    ("S_WITHIN(g, LINESTRING(0 0, 1 1 1))", "                       ^", "height"),
    ("S_WITHIN(g, BBOX(0, 9, 1, 8))", "            ^", "swap"),
    ("S_WITHIN(g, BBOX(0, 9, 1))", "            ^", "four or six"),
    ("S_WITHIN(g, GEOMETRYCOLLECTION(BBOX(0,0,1,1)))", "                               ^", "holds"),
]


@pytest.mark.parametrize(("text", "caret", "said"), REFUSED, ids=[r[0] for r in REFUSED])
def test_a_refusal_names_the_fault_and_points_at_it(text: str, caret: str, said: str) -> None:
    error = refusal(text)
    assert said in error.message
    assert error.position == len(caret) - 1


def test_a_refusal_shows_the_line_and_a_caret() -> None:
    error = refusal("a = 1\n  AND b ? 3\n  AND c")
    assert str(error).splitlines()[1:] == ["  AND b ? 3", "        ^"]
    assert (error.line, error.column) == (2, 9)


def test_a_long_line_is_cut_round_the_caret() -> None:
    error = refusal("a = 1 AND " * 100 + "?")
    shown, caret = str(error).splitlines()[1:]
    assert len(shown) == 100
    assert shown[caret.index("^")] == "?"


def test_control_characters_do_not_reach_the_message() -> None:
    assert "\x1b" not in str(refusal("'\x1b[31m' = ?"))


REFUSED_JSON: list[tuple[dict[str, object], str, str]] = [
    ({"op": "nott", "args": [True]}, "$.op", "Did you mean not?"),
    ({"op": "not"}, "$.args", "arguments"),
    ({"op": "not", "args": [True, True]}, "$.args", "1 argument"),
    ({"op": "and", "args": [True]}, "$.args", "at least two"),
    ({"op": "=", "args": [1, {"op": "not", "args": [None]}]}, "$.args[1].args[0]", "null"),
    ({"op": "=", "args": [1, {"op": "not", "args": [3]}]}, "$.args[1].args[0]", "a condition"),
    ({"op": "=", "args": [1, {"property": 3}]}, "$.args[1].property", "a name"),
    ({"op": "=", "args": [1, {"property": "a", "b": 1}]}, "$.args[1]", "no member 'b'"),
    ({"op": "=", "args": [1, {"prop": "a"}]}, "$.args[1]", "property"),
    ({"op": "=", "args": [1, {"property": "event.x"}]}, "$.args[1].property", "attributes.NAME"),
    ({"op": "=", "args": [1, float("nan")]}, "$.args[1]", "finite"),
    ({"op": "=", "args": [1, 10**400]}, "$.args[1]", "too large"),
    ({"op": "=", "args": [1, "\ud800"]}, "$.args[1]", "surrogate"),
    ({"op": "=", "args": [1, {"date": "2023-02-30"}]}, "$.args[1].date", "28 days"),
    ({"op": "=", "args": [1, {"timestamp": 5}]}, "$.args[1].timestamp", "a text"),
    ({"op": "in", "args": [1, []]}, "$.args[1]", "at least one"),
    ({"op": "in", "args": [1, 2]}, "$.args", "a list"),
    ({"op": "a_equals", "args": [[{"property": "me"}], []]}, "$.args[0][0]", "stands alone"),
    ({"op": "count", "args": ["a", "b ="]}, "$.args[1]", "In the filter of count"),
    ({"op": "isNull", "args": [{"type": "Pt"}]}, "$.args[0].type", "Point"),
    ({"op": "isNull", "args": [{"bbox": [1, 2]}]}, "$.args[0].bbox", "four or six"),
    ({"op": "isNull", "args": [{"interval": ["2020-01-01"]}]}, "$.args[0].interval", "an end"),
    (
        {"op": "isNull", "args": [{"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [2, 0]]]}]},
        "$.args[0].coordinates[0]",
        "The ring is open",
    ),
    (
        {"op": "isNull", "args": [{"type": "Point", "coordinates": [0, "x"]}]},
        "$.args[0].coordinates[1]",
        "a number",
    ),
]


@pytest.mark.parametrize(("value", "path", "said"), REFUSED_JSON)
def test_a_refusal_of_json_names_the_path(value: dict[str, object], path: str, said: str) -> None:
    message = refusal(value).message
    assert message.startswith(f"{path}: ")
    assert said in message


def test_text_that_is_not_json_gets_a_caret() -> None:
    error = refusal('{"op": }')
    assert "not JSON" in error.message
    assert error.position == 7


def test_nan_and_repeated_members_are_refused_in_json_text() -> None:
    assert "NaN" in refusal('{"op": "=", "args": [1, NaN]}').message
    assert "twice" in refusal('{"op": "=", "op": "<>", "args": [1, 2]}').message
