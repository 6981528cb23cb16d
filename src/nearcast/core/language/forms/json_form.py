"""Parser and writer of CQL2 JSON; errors name the path, such as ``$.args[1]``."""

import json
import math
from collections.abc import Mapping

from nearcast.core.language.ast import (
    FUNCTIONS,
    Array,
    BBox,
    Date,
    End,
    Geometry,
    Interval,
    Node,
    Operation,
    Property,
    Timestamp,
    flattened,
)
from nearcast.core.language.errors import LanguageError
from nearcast.core.language.evaluation.instants import read_date, read_timestamp
from nearcast.core.language.evaluation.periods import problem_with_interval, read_end
from nearcast.core.language.forms.geojson import (
    Json,
    is_list,
    read_box,
    read_geojson,
    refused,
    write_geojson,
)
from nearcast.core.language.forms.parser import parse_counted
from nearcast.core.language.forms.text_form import end_value
from nearcast.core.language.forms.tokens import check_characters, did_you_mean
from nearcast.core.language.limits import MAX_DEPTH, MAX_JSON_TEXT, MAX_NODES, check_size
from nearcast.core.language.signatures import (
    OPERATORS,
    problem_with,
    problem_with_name,
    problem_with_root,
)

MEMBERS = ("op", "property", "date", "timestamp", "interval", "bbox", "type")


def parse_json_text(text: str) -> Node:
    """Return the tree of a CQL2 JSON text."""
    if len(text) > MAX_JSON_TEXT:
        raise LanguageError(f"The filter is longer than {MAX_JSON_TEXT} characters ({len(text)}).")
    try:
        value: object = json.loads(text, object_pairs_hook=members, parse_constant=no_constant)
    except json.JSONDecodeError as problem:
        raise LanguageError(f"This is not JSON: {problem.msg}.", text, problem.pos) from None
    except RecursionError:
        raise LanguageError(f"The filter is nested more than {MAX_DEPTH} deep.") from None
    except ValueError as problem:
        # Python limits the digits of an integer before `finite` can check it.
        raise (
            problem
            if isinstance(problem, LanguageError)
            else LanguageError("A number is too large; numbers go up to 1.797e308.")
        ) from None
    return parse_json(value)


def parse_json(value: object) -> Node:
    """Return the tree of a CQL2 JSON value."""
    root = JsonParser().node(value, "$", 1)
    problem = problem_with_root(root)
    if problem:
        raise refused("$", problem)
    check_size(root)
    return root


def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object's members; raise LanguageError if one is given twice."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise LanguageError(f"The member {json_name(name)} is given twice in one object.")
        found[name] = value
    return found


def no_constant(name: str) -> object:
    """Reject NaN and the infinities, which JSON does not have."""
    raise LanguageError(f"{name} is not a number of JSON.")


class JsonParser:
    """Parses one value and counts its nodes."""

    def __init__(self) -> None:
        self.nodes = 0

    def node(self, value: object, path: str, depth: int) -> Node:
        """Return the node of a JSON value."""
        self.nodes += 1
        if depth > MAX_DEPTH:
            raise LanguageError(f"The filter is nested more than {MAX_DEPTH} deep.")
        if self.nodes > MAX_NODES:
            raise LanguageError(f"The filter has more than {MAX_NODES} parts.")
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return finite(value, path)
        if isinstance(value, str):
            return characters(value, path)
        if isinstance(value, Mapping):
            return self.member(value, path, depth)
        if is_list(value):
            return Array(
                tuple(self.node(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value))
            )
        raise refused(path, f"expected a literal, a list or an object, not {json_name(value)}.")

    def member(self, value: Mapping[str, object], path: str, depth: int) -> Node:
        """Return the node of an object, by its characteristic member."""
        kind = next((name for name in MEMBERS if name in value), None)
        if kind is None:
            raise refused(path, f"expected an object with one of {', '.join(MEMBERS)}.")
        if kind == "type":
            return read_geojson(value, path)
        allowed = {"op", "args"} if kind == "op" else {kind}
        extra = sorted(str(name) for name in set(value) - allowed)
        if extra:
            raise refused(path, f"an object with {kind!r} has no member {json_name(extra[0])}.")
        content = value[kind]
        if kind == "op":
            return self.operation(content, value.get("args"), path, depth)
        if kind == "property":
            return read_property(content, f"{path}.property")
        if kind == "bbox":
            return read_box(content, f"{path}.bbox")
        if kind == "interval":
            return read_interval(content, f"{path}.interval")
        return read_instant(kind, content, f"{path}.{kind}")

    def operation(self, op: object, args: object, path: str, depth: int) -> Node:
        """Return an operation after checking its name and arguments."""
        if not isinstance(op, str) or (op not in OPERATORS and op not in FUNCTIONS):
            known = (*OPERATORS, *FUNCTIONS)
            hint = did_you_mean(op, known) if isinstance(op, str) else ""
            raise refused(
                f"{path}.op",
                f"there is no operator or function {json_name(op)}.{hint} "
                f"Functions are {', '.join(FUNCTIONS)} and those of CQL2.",
            )
        if not is_list(args):
            raise refused(f"{path}.args", f"expected the list of {op}'s arguments.")
        if len(args) > MAX_NODES:
            raise LanguageError(f"The filter has more than {MAX_NODES} parts.")
        nodes = tuple(self.node(v, f"{path}.args[{i}]", depth + 1) for i, v in enumerate(args))
        problem = problem_with(op, nodes)
        if problem:
            place = f"{path}.args" + (f"[{problem.arg}]" if problem.arg >= 0 else "")
            raise refused(place, problem.message)
        check_items(nodes, path)
        if op == "count" and isinstance(nodes[1], str):
            try:
                parse_counted(nodes[1])
            except LanguageError as problem_inside:
                raise refused(
                    f"{path}.args[1]", f"In the filter of count: {problem_inside.message}"
                ) from None
        return flattened(op, nodes) if op in ("and", "or") else Operation(op, nodes)


def check_items(nodes: tuple[Node, ...], path: str) -> None:
    """Reject ``me``, ``publisher`` and ``event`` as items of a list."""
    for index, node in enumerate(nodes):
        for place, item in enumerate(node.items if isinstance(node, Array) else ()):
            problem = problem_with("isNull", (item,)) if isinstance(item, Property) else None
            if problem:
                raise refused(f"{path}.args[{index}][{place}]", problem.message)


def read_property(name: object, path: str) -> Property:
    """Return a property by its name."""
    if not isinstance(name, str):
        raise refused(path, f"expected a name, not {json_name(name)}.")
    problem = problem_with_name(characters(name, path))
    if problem:
        raise refused(path, problem)
    return Property(name)


def read_instant(kind: str, text: object, path: str) -> Date | Timestamp:
    """Return a day or an instant."""
    if not isinstance(text, str):
        raise refused(path, f"expected a text, not {json_name(text)}.")
    try:
        return Date(read_date(text)) if kind == "date" else Timestamp(read_timestamp(text))
    except ValueError as problem:
        raise refused(path, str(problem)) from None


def read_interval(ends: object, path: str) -> Interval:
    """Return an interval of two ends."""
    if not is_list(ends) or len(ends) != 2:
        raise refused(path, "expected a start and an end, such as ['2024-05-31', '..'].")
    start, end = (read_json_end(value, f"{path}[{i}]") for i, value in enumerate(ends))
    interval = Interval(start, end)
    problem = problem_with_interval(interval)
    if problem:
        raise refused(path, problem)
    return interval


def read_json_end(value: object, path: str) -> End:
    """Return one end of an interval."""
    if isinstance(value, Mapping) and set(value) == {"property"}:
        found = read_property(value["property"], f"{path}.property")
        problem = problem_with("isNull", (found,))
        if problem:
            raise refused(path, problem.message)
        return found
    if not isinstance(value, str):
        raise refused(path, "expected '2024-05-31', '2024-05-31T12:00:00Z', '..' or a property.")
    try:
        return read_end(value)
    except ValueError as problem:
        raise refused(path, str(problem)) from None


def finite(value: int | float, path: str) -> int | float:
    """Return a number that a double can hold; -0.0 becomes 0.0."""
    try:
        if math.isfinite(value):
            return value + 0
    except OverflowError:
        pass
    raise refused(path, "the number is too large; numbers are finite and go up to 1.797e308.")


def characters(text: str, path: str) -> str:
    """Return a text; raise LanguageError if it has characters that MQTT does not allow."""
    try:
        check_characters(text, "", 0)
    except LanguageError as problem:
        raise refused(path, problem.message) from None
    return text


def json_name(value: object) -> str:
    """Return the name of a JSON value in error messages."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if is_list(value) else f"the value {str(value)[:40]}"


def write_json(node: Node) -> Json:
    """Return the CQL2 JSON value that parses to this tree."""
    if isinstance(node, bool | int | float | str):
        return node
    if isinstance(node, Operation):
        return {"op": node.op, "args": [write_json(arg) for arg in node.args]}
    if isinstance(node, Property):
        return {"property": node.name}
    if isinstance(node, Array):
        return [write_json(item) for item in node.items]
    if isinstance(node, Date):
        return {"date": end_value(node)}
    if isinstance(node, Timestamp):
        return {"timestamp": end_value(node)}
    if isinstance(node, Interval):
        return {"interval": [write_end(node.start), write_end(node.end)]}
    assert isinstance(node, Geometry | BBox)
    return write_geojson(node)


def write_end(end: End) -> Json:
    """Return one end of an interval as JSON."""
    if end is None:
        return ".."
    return {"property": end.name} if isinstance(end, Property) else end_value(end)
