"""Random filters: CQL2 text and JSON of every construct, mostly valid."""

from random import Random

from nearcast.core.language.ast import ARRAYS, SPATIAL, TEMPORAL
from nearcast.core.language.forms.geojson import Json
from tests.support.fuzzing.mutations import HOSTILE_NUMBERS, HOSTILE_TEXTS

NAMES = (
    "a", "speed", "a.b.c", "eo:cloud_cover", "me.role", "publisher.node", "event.time", "kind",
    "event.subject", "publisher.position", "me", "event.attributes.me", "über",
)  # fmt: skip
_INSTANTS = (
    "2024-02-29", "0001-01-01", "9999-12-31", "2024-02-30", "2024-02-29T23:59:60Z",
    "2024-02-29T23:59:59.999999999Z", "1969-07-20T20:17:40Z", "9999-12-31T23:59:59-14:00",
)  # fmt: skip
_POINT: Json = {"type": "Point", "coordinates": [1, 2]}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def filter_text(random: Random, depth: int = 4) -> str:
    """Return CQL2 text."""
    if depth and random.random() < 0.4:
        parts = [filter_text(random, depth - 1) for _ in range(random.randint(1, 3))]
        joined = random.choice((" AND ", " or ")).join(parts)
        return random.choice(("({})", "NOT ({})", "{}", "( ({}))")).format(joined)
    match random.randrange(11):
        case 0 | 1 | 2:
            op = random.choice(_COMPARISONS)
            return f"{_value(random)} {op} {_value(random)}"
        case 3:
            fold = random.choice(("{}", "CASEI({})", "ACCENTI({})", "casei(accenti({}))"))
            left, right = fold.format(_name(random)), fold.format(_quoted(random))
            return f"{left} {random.choice(('LIKE', 'NOT LIKE', '='))} {right}"
        case 4:
            return f"{_number(random)} BETWEEN {_number(random)} AND {_number(random)}"
        case 5:
            items = ", ".join(_value(random) for _ in range(random.randint(1, 4)))
            return f"{_name(random)} {random.choice(('IN', 'NOT IN'))} ({items})"
        case 6:
            return f"{_name(random)} IS {random.choice(('', 'NOT '))}NULL"
        case 7:
            box = f"BBOX({', '.join(_number(random) for _ in range(random.choice((4, 4, 6))))})"
            shape = random.choice((box, "POINT(1 2)", "POLYGON((0 0, 1 0, 1 1, 0 0))", "EMPTY"))
            return f"{random.choice(SPATIAL).upper()}(event.position, {shape})"
        case 8:
            first, second = (_instant(random) for _ in range(2))
            interval = f"INTERVAL('{random.choice(_INSTANTS)}', '..')"
            right = random.choice((second, interval))
            return f"{random.choice(TEMPORAL).upper()}({first}, {right})"
        case 9:
            return f"{random.choice(ARRAYS).upper()}({_name(random)}, ('a', {_number(random)}))"
        case _:
            return random.choice(
                (
                    f"distance(me, publisher) < {_number(random)}",
                    "approaching(publisher)",
                    "friend(publisher)",
                    f"count('s/#', 'speed > {_number(random)}', {_number(random)}) > 2",
                    "TRUE",
                )
            )


def filter_json(random: Random, depth: int = 4) -> Json:
    """Return a CQL2 JSON value."""
    if depth and random.random() < 0.4:
        parts: list[Json] = [filter_json(random, depth - 1) for _ in range(random.randint(1, 3))]
        op = random.choice(("and", "or", "not"))
        return {"op": op, "args": parts[:1] if op == "not" else parts}
    name: Json = {"property": _json_name(random)}
    value = _json_value(random)
    match random.randrange(9):
        case 0 | 1:
            return {"op": random.choice(_COMPARISONS), "args": [name, value]}
        case 2:
            args: list[Json] = [name, str(random.choice(HOSTILE_TEXTS))]
            if random.random() < 0.5:
                fold = random.choice(("casei", "accenti"))
                args = [{"op": fold, "args": [each]} for each in args]
            return {"op": "like", "args": args}
        case 3:
            return {"op": "in", "args": [name, [_json_value(random) for _ in range(3)]]}
        case 4:
            return {"op": random.choice(("isNull", "between", "+", "a_overlaps")), "args": [name]}
        case 5:
            return {"op": random.choice(SPATIAL), "args": [name, _POINT]}
        case 6:
            instant: Json = {random.choice(("date", "timestamp")): random.choice(_INSTANTS)}
            return {"op": random.choice(TEMPORAL), "args": [name, instant]}
        case 7:
            return {"op": "count", "args": ["s/#", "speed > 5", value]}
        case _:
            return {"op": "distance", "args": [{"property": "me"}, {"property": "publisher"}]}


def nested_text(random: Random) -> str:
    """Return text that is deep, long, or asks a reader to look ahead again and again."""
    count = random.choice((10, 60, 70, 900, 5_000, 16_000))
    return random.choice(
        (
            "(" * count + "a = 1" + ")" * count,
            "NOT " * count + "a = 1",
            "-" * count + "1 = a",
            "a = " + "1 + " * count + "1",
            "a = " + "(1, " * count + "1" + ")" * count,
            "a IN (" + "1," * count + "1)",
            "a = 1 AND " * count + "a = 1",
            "casei(" * count + "a" + ")" * count + " = 'x'",
            "a = '" + "''" * count + "'",
            "a = '" + "'" * count,
            '"' * count,
            "a" + ".b" * count + " = 1",
            "9" * count + " = a",
            "a LIKE '" + "%_" * count + "x'",
            "count('s/#', '" + "(" * count + "') > 1",
            "count('s', 'count(''s'', ''count(''''s'''')'') > 1') > 1",
            "S_INTERSECTS(event.position, POLYGON((" + "0 0, " * count + "0 0)))",
            "S_INTERSECTS(event.position, " + "GEOMETRYCOLLECTION(" * count + "POINT(1 2)",
            " " * count + "a = 1",
            "a ^ " * count + "1 = 2",
        )
    )


def nested_json(random: Random) -> str:
    """Return JSON text that is deep or long."""
    count = random.choice((10, 60, 70, 900, 950, 1_000, 5_000, 20_000))
    return random.choice(
        (
            '{"op":"not","args":[' * count + "true" + "]}" * count,
            '{"op":"and","args":[' + "true," * count + "true]}",
            '{"op":"=","args":[{"property":"a"},' + "[" * count + "]" * count + "]}",
            '{"op":' + "[" * count + "]" * count + "}",
            '{"op":"=","args":[{"property":"a"},' + "9" * count + "]}",
            '{"op":"=","args":[{"property":"' + "a." * count + 'a"},1]}',
            '{"op":"' + "x" * count + '","args":[1]}',
            '{"op":"=","' + "x" * count + '":1}',
            '{"' + "x" * count + '":1,"' + "x" * count + '":1}',
            "{" + ",".join(f'"{at}":1' for at in range(count // 2)) + ',"0":1,"1":2}',
            "{" + ",".join(f'"{at}":1' for at in range(count // 2)) + f',"{count // 2 - 1}":1}}',
            '{"type":"GeometryCollection","geometries":[' * count + "]}" * count,
            '{"type":"Point","coordinates":' + "[" * count + "]" * count + "}",
            '{"type":"' + "x" * count + '","coordinates":[]}',
            '{"bbox":' + "[" * count + "]" * count + "}",
            '{"op":"=","args":[1,1],' + " " * count + "}",
        )
    )


def _value(random: Random) -> str:
    match random.randrange(6):
        case 0 | 1:
            return _name(random)
        case 2:
            return _quoted(random)
        case 3:
            return _instant(random)
        case 4:
            op = random.choice(("+", "-", "*", "/", "^", "%", "div"))
            return f"({_number(random)} {op} {_name(random)})"
        case _:
            return _number(random)


def _name(random: Random) -> str:
    if random.random() < 0.1:
        return '"' + random.choice(HOSTILE_TEXTS).replace('"', '""') + '"'
    return random.choice(NAMES)


def _json_name(random: Random) -> str:
    return random.choice((*NAMES, *HOSTILE_TEXTS)) if random.random() < 0.2 else "speed"


def _json_value(random: Random) -> Json:
    values: tuple[Json, ...] = (1, -0.0, 1e308, 10**400, True, None, "x", [], {}, [1, "x"])
    return random.choice((*values, random.choice(HOSTILE_TEXTS)))


def _quoted(random: Random) -> str:
    text = random.choice(("bus", "b_s%", "it's", *HOSTILE_TEXTS))
    return "'" + text.replace("'", "''") + "'"


def _number(random: Random) -> str:
    if random.random() < 0.1:
        return random.choice(HOSTILE_NUMBERS)
    return str(random.choice((0, 1, -1, 50, 0.5, 1e-300, 123456789012345678901234567890)))


def _instant(random: Random) -> str:
    text = random.choice(_INSTANTS)
    return f"{'TIMESTAMP' if 'T' in text else 'DATE'}('{text}')"
