"""Random CQL2: every construct of the grammar, as words of text beside the JSON it must become.

The text is not made by our own writer: brackets, spacing and the case of keywords vary freely.
"""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from nearcast.core.language.ast import ARRAYS, SPATIAL, TEMPORAL
from nearcast.core.language.forms.geojson import Json

Written = tuple[list[str], Json]

NAMES = ["a", "speed", "a.b", "x_1", "eo:cloud_cover", "me.role", "publisher.node", "event.time"]
ODD_NAMES = ["a b", "and", "Point", 'dis"tance', "é", "1st", "date", "NaN", "x-y", "t_after"]
TEXTS = ["", "x", "it's", "50% _ \\ ", "Ünï\ncode", '"', "''", "a/b"]
DATES = ["2024-02-29", "1999-12-31", "0001-01-01"]
STAMPS = ["2024-02-29T23:59:59Z", "1969-07-20T20:17:40Z", "2001-01-01T00:00:00.25Z"]


@st.composite
def conditions(draw: DrawFn, depth: int = 3) -> Written:
    """Draw a condition: one predicate, or several joined."""
    if depth and draw(st.booleans()):
        return draw(st.one_of(joined(depth - 1), negated(depth - 1), bracketed(depth - 1)))
    return draw(predicates(max(depth - 1, 0)))


@st.composite
def spaced(draw: DrawFn, words: list[str]) -> str:
    """Draw spaces between words; names and numbers that touch need at least one."""
    text = ""
    for word in words:
        touching = bool(text) and is_wordy(text[-1]) and is_wordy(word[0])
        quotes = bool(text) and text[-1] in "'\"" and word[0] == text[-1]
        signs = bool(text) and text[-1] in "<>=!" and word[0] in "<>="
        least = 1 if touching or quotes or signs else 0
        text += draw(st.sampled_from(["", " ", "  ", "\n", "\t "][least:])) + word
    return text


def is_wordy(character: str) -> bool:
    return character.isalnum() or character in "_.:"


def cased(word: str) -> SearchStrategy[str]:
    return st.sampled_from([word.upper(), word.lower(), word.capitalize()])


@st.composite
def joined(draw: DrawFn, depth: int) -> Written:
    op = draw(st.sampled_from(["and", "or"]))
    parts = draw(st.lists(conditions(depth), min_size=2, max_size=3))
    words: list[str] = []
    args: list[Json] = []
    for part, json in parts:
        if words:
            words.append(draw(cased(op)))
        words += ["(", *part, ")"]
        # Nested ones of the same kind are flattened, with or without brackets.
        same = isinstance(json, dict) and json.get("op") == op
        inner = json["args"] if same and isinstance(json, dict) else [json]
        assert isinstance(inner, list)
        args += inner
    return words, {"op": op, "args": args}


@st.composite
def negated(draw: DrawFn, depth: int) -> Written:
    words, json = draw(conditions(depth))
    return [draw(cased("not")), "(", *words, ")"], {"op": "not", "args": [json]}


@st.composite
def bracketed(draw: DrawFn, depth: int) -> Written:
    words, json = draw(conditions(depth))
    return ["(", *words, ")"], json


def predicates(depth: int) -> SearchStrategy[Written]:
    return st.one_of(
        compared(depth),
        liked(),
        ranged(depth),
        listed(depth),
        nulls(depth),
        called(SPATIAL, geometries()),
        called(TEMPORAL, times()),
        called(ARRAYS, st.one_of(properties(), arrays(depth))),
        own_predicates(),
        properties(),
        booleans(),
    )


@st.composite
def booleans(draw: DrawFn) -> Written:
    value = draw(st.booleans())
    return [draw(cased(str(value)))], value


@st.composite
def properties(draw: DrawFn) -> Written:
    if draw(st.booleans()):
        name = draw(st.sampled_from(NAMES))
        return [name], {"property": name}
    name = draw(st.sampled_from(NAMES + ODD_NAMES))
    doubled = name.replace('"', '""')
    return [f'"{doubled}"'], {"property": name}


@st.composite
def texts(draw: DrawFn) -> Written:
    value = draw(st.sampled_from(TEXTS))
    doubled = value.replace("'", "''")
    return [f"'{doubled}'"], value


@st.composite
def numbers(draw: DrawFn) -> Written:
    value = draw(st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e9, 1e9).map(lambda f: f + 0)))
    return (["-", repr(value)[1:]] if value < 0 else [repr(value)]), value


@st.composite
def instants(draw: DrawFn) -> Written:
    kind = draw(st.sampled_from(["date", "timestamp"]))
    value = draw(st.sampled_from(DATES if kind == "date" else STAMPS))
    return [draw(cased(kind)), "(", f"'{value}'", ")"], {kind: value}


@st.composite
def folded(draw: DrawFn, inner: SearchStrategy[Written]) -> Written:
    words, json = draw(inner)
    for op in draw(st.lists(st.sampled_from(["casei", "accenti"]), min_size=1, max_size=2)):
        words, json = [draw(cased(op)), "(", *words, ")"], {"op": op, "args": [json]}
    return words, json


@st.composite
def numeric(draw: DrawFn, depth: int) -> Written:
    if not depth or draw(st.booleans()):
        return draw(st.one_of(numbers(), properties(), own_numbers()))
    op = draw(st.sampled_from(["+", "-", "*", "/", "^", "%", "div"]))
    left, right = draw(numeric(depth - 1)), draw(numeric(depth - 1))
    sign = draw(cased(op)) if op == "div" else op
    words = ["(", *left[0], ")", sign, "(", *right[0], ")"]
    return words, {"op": op, "args": [left[1], right[1]]}


def scalars(depth: int) -> SearchStrategy[Written]:
    return st.one_of(
        properties(), texts(), numbers(), booleans(), instants(), numeric(depth), folded(texts())
    )


@st.composite
def compared(draw: DrawFn, depth: int) -> Written:
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    left, right = draw(scalars(depth)), draw(scalars(depth))
    return [*left[0], op, *right[0]], {"op": op, "args": [left[1], right[1]]}


@st.composite
def maybe_not(draw: DrawFn, before: list[str], after: list[str], json: Json) -> Written:
    if draw(st.booleans()):
        return before + after, json
    return [*before, draw(cased("not")), *after], {"op": "not", "args": [json]}


@st.composite
def liked(draw: DrawFn) -> Written:
    subject = draw(st.one_of(properties(), texts(), folded(properties())))
    pattern = draw(st.one_of(texts(), folded(texts())))
    after = [draw(cased("like")), *pattern[0]]
    return draw(maybe_not(subject[0], after, {"op": "like", "args": [subject[1], pattern[1]]}))


@st.composite
def ranged(draw: DrawFn, depth: int) -> Written:
    parts = [draw(st.one_of(numeric(depth), instants(), texts())) for _ in range(3)]
    after = [draw(cased("between")), *parts[1][0], draw(cased("and")), *parts[2][0]]
    json: Json = {"op": "between", "args": [part[1] for part in parts]}
    return draw(maybe_not(parts[0][0], after, json))


@st.composite
def listed(draw: DrawFn, depth: int) -> Written:
    subject = draw(scalars(depth))
    items = draw(st.lists(scalars(depth), min_size=1, max_size=3))
    after = [draw(cased("in")), *between_commas(items)]
    json: Json = {"op": "in", "args": [subject[1], [item[1] for item in items]]}
    return draw(maybe_not(subject[0], after, json))


@st.composite
def nulls(draw: DrawFn, depth: int) -> Written:
    wrapped = compared(depth).map(lambda w: (["(", *w[0], ")"], w[1]))
    words, json = draw(st.one_of(scalars(depth), geometries(), times(), wrapped))
    found: Json = {"op": "isNull", "args": [json]}
    before = [*words, draw(cased("is"))]
    return draw(maybe_not(before, [draw(cased("null"))], found))


@st.composite
def called(draw: DrawFn, ops: tuple[str, ...], arguments: SearchStrategy[Written]) -> Written:
    op = draw(st.sampled_from(ops))
    args = [draw(arguments), draw(arguments)]
    return [draw(cased(op)), *between_commas(args)], {"op": op, "args": [arg[1] for arg in args]}


@st.composite
def times(draw: DrawFn) -> Written:
    if draw(st.booleans()):
        return draw(st.one_of(properties(), instants()))
    ends: list[Written] = [
        draw(
            st.one_of(
                properties(),
                st.sampled_from([choice, ".."]).map(lambda v: ([f"'{v}'"], v)),
            )
        )
        for choice in ("1999-12-31", "2024-02-29T23:59:59Z")
    ]
    return [draw(cased("interval")), *between_commas(ends)], {"interval": [e[1] for e in ends]}


@st.composite
def arrays(draw: DrawFn, depth: int) -> Written:
    item = st.one_of(scalars(0), compared(0))
    if depth:
        item = st.one_of(item, arrays(depth - 1))
    items = draw(st.lists(item, max_size=3))
    return between_commas(items), [i[1] for i in items]


def between_commas(items: list[Written]) -> list[str]:
    words = ["("]
    for index, (part, _) in enumerate(items):
        words += [","] * bool(index) + part
    return [*words, ")"]


@st.composite
def places(draw: DrawFn) -> Written:
    name = draw(st.sampled_from(["me", "publisher", "event", "me.position", "a.position", ""]))
    if name:
        return [name], {"property": name}
    words, point = draw(points(2))
    return ["POINT", "(", *words, ")"], {"type": "Point", "coordinates": point}


@st.composite
def own_numbers(draw: DrawFn) -> Written:
    if draw(st.booleans()):
        args = [draw(places()), draw(places())]
        return ["distance", *between_commas(args)], {"op": "distance", "args": [a[1] for a in args]}
    given: list[Written] = [(["'a/+/#'"], "a/+/#"), (["'b = ''x'' OR c'"], "b = 'x' OR c")]
    given += draw(st.sampled_from([[], [(["500"], 500)]]))
    return ["count", *between_commas(given)], {"op": "count", "args": [g[1] for g in given]}


@st.composite
def own_predicates(draw: DrawFn) -> Written:
    if draw(st.booleans()):
        return ["friend", "(", "publisher", ")"], {
            "op": "friend",
            "args": [{"property": "publisher"}],
        }
    words, json = draw(places())
    return ["approaching", "(", *words, ")"], {"op": "approaching", "args": [json]}


@st.composite
def points(draw: DrawFn, size: int) -> Written:
    limits = (180, 90, 1000)[:size]
    values = [float(draw(st.integers(-4 * m, 4 * m))) / 4 for m in limits]
    return [f"{v:g}" for v in values], list(values)


@st.composite
def rings(draw: DrawFn, size: int) -> Written:
    corners = draw(st.lists(points(size), min_size=3, max_size=4))
    return between_commas([*corners, corners[0]]), [c[1] for c in [*corners, corners[0]]]


@st.composite
def several(draw: DrawFn, part: SearchStrategy[Written], least: int = 1) -> Written:
    parts = draw(st.lists(part, min_size=least, max_size=3))
    return between_commas(parts), [p[1] for p in parts]


def bracket(part: Written) -> Written:
    return ["(", *part[0], ")"], part[1]


@st.composite
def simple_geometries(draw: DrawFn) -> Written:
    size = draw(st.sampled_from([2, 3]))
    lines = several(points(size), least=2)
    kinds: dict[str, SearchStrategy[Written]] = {
        "Point": points(size).map(bracket),
        "LineString": lines,
        "Polygon": several(rings(size)),
        "MultiPoint": several(points(size).map(bracket)),
        "MultiLineString": several(lines),
        "MultiPolygon": several(several(rings(size))),
    }
    type_ = draw(st.sampled_from(sorted(kinds)))
    words, coordinates = draw(kinds[type_])
    height = draw(st.sampled_from([[], ["Z"]])) if size == 3 else []
    return [draw(cased(type_)), *height, *words], {"type": type_, "coordinates": coordinates}


@st.composite
def geometries(draw: DrawFn) -> Written:
    kind = draw(st.sampled_from(["property", "simple", "bbox", "collection"]))
    if kind == "property":
        return draw(properties())
    if kind == "simple":
        return draw(simple_geometries())
    if kind == "collection":
        words, parts = draw(several(simple_geometries()))
        return [draw(cased("geometrycollection")), *words], {
            "type": "GeometryCollection",
            "geometries": parts,
        }
    box = draw(st.sampled_from([[-6.5, 53.0, -6.0, 53.5], [170.0, -9.0, 0.0, -170.0, 9.0, 5.0]]))
    words = between_commas([([f"{value:g}"], value) for value in box])
    return [draw(cased("bbox")), *words], {"bbox": list(box)}
