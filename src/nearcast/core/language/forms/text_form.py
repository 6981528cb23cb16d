"""Writer of CQL2 text: quotes and brackets ensure that it parses to the same tree."""

import re

from nearcast.core.language.ast import (
    ARITHMETIC,
    COMPARISONS,
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
)
from nearcast.core.language.evaluation.instants import write_timestamp
from nearcast.core.language.forms.tokens import RESERVED
from nearcast.core.language.forms.wkt import write_wkt
from nearcast.core.language.geometry import WKT_NAMES
from nearcast.core.language.signatures import CALLED

# The precedence of each operation; a lower one inside a higher one gets brackets.
BINDING = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys((*COMPARISONS, "like", "between", "in", "isNull"), 4),
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
    "div": 6,
    "^": 7,
}
VALUE = 5
ATOM = 8
PLAIN = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(?:\.[A-Za-z_:][A-Za-z0-9_:]*)*")
# A property may have the name of a function; it is quoted for other parsers of CQL2.
QUOTED = RESERVED | set(WKT_NAMES) | {"BBOX", "DATE", "TIMESTAMP", "INTERVAL"}
QUOTED |= {name.upper() for name in CALLED}


def write_text(node: Node, binding: int = 0) -> str:
    """Return CQL2 text for a node, in brackets if its precedence is below `binding`."""
    if not isinstance(node, Operation):
        return write_literal(node)
    own, written = write_operation(node)
    return f"({written})" if own < binding else written


def write_operation(node: Operation) -> tuple[int, str]:
    """Return the precedence of an operation, and its text without brackets."""
    op, args = node.op, node.args
    if op in ("and", "or"):
        own = BINDING[op]
        return own, f" {op.upper()} ".join(write_text(arg, own + 1) for arg in args)
    if op == "not":
        inner = args[0]
        if isinstance(inner, Operation) and inner.op in ("like", "between", "in", "isNull"):
            return 4, write_predicate(inner, " NOT")
        return 3, f"NOT {write_text(inner, 3)}"
    if op in COMPARISONS:
        return 4, f"{write_text(args[0], VALUE)} {op} {write_text(args[1], VALUE)}"
    if op in ("like", "between", "in", "isNull"):
        return 4, write_predicate(node, "")
    if op in ARITHMETIC:
        own = BINDING[op]
        left = operand(args[0], own, negative_ok=op != "^")
        return own, f"{left} {op.upper()} {operand(args[1], own + 1, negative_ok=False)}"
    return ATOM, f"{op}({', '.join(write_text(arg) for arg in args)})"


def write_predicate(node: Operation, negation: str) -> str:
    """Return the text of LIKE, BETWEEN, IN or IS NULL; `negation` is " NOT" or empty."""
    subject = write_text(node.args[0], VALUE)
    if node.op == "isNull":
        return f"{subject} IS{negation} NULL"
    if node.op == "between":
        low, high = (write_text(arg, VALUE) for arg in node.args[1:])
        return f"{subject}{negation} BETWEEN {low} AND {high}"
    return f"{subject}{negation} {node.op.upper()} {write_text(node.args[1], VALUE)}"


def operand(node: Node, binding: int, negative_ok: bool) -> str:
    """Return an operand of arithmetic; without `negative_ok`, a negative number in brackets."""
    written = write_text(node, binding)
    if not negative_ok and isinstance(node, int | float) and written.startswith("-"):
        return f"({written})"
    return written


def write_literal(
    node: Property | Array | Date | Timestamp | Interval | Geometry | BBox | float | str,
) -> str:
    """Return CQL2 text for a node other than an operation."""
    if isinstance(node, bool):
        return "TRUE" if node else "FALSE"
    if isinstance(node, int | float):
        return repr(node)
    if isinstance(node, str):
        return quoted(node, "'")
    if isinstance(node, Property):
        return write_name(node.name)
    if isinstance(node, Array):
        return f"({', '.join(write_text(item) for item in node.items)})"
    if isinstance(node, Date):
        return f"DATE('{node.value.isoformat()}')"
    if isinstance(node, Timestamp):
        return f"TIMESTAMP('{write_timestamp(node.value)}')"
    if isinstance(node, Interval):
        return f"INTERVAL({write_end(node.start)}, {write_end(node.end)})"
    return write_wkt(node)


def write_end(end: End) -> str:
    """Return one end of an interval as text."""
    if isinstance(end, Property):
        return write_name(end.name)
    if end is None:
        return "'..'"
    return f"'{end_value(end)}'"


def end_value(end: Date | Timestamp) -> str:
    """Return a day or an instant in the format of RFC 3339."""
    return end.value.isoformat() if isinstance(end, Date) else write_timestamp(end.value)


def write_name(name: str) -> str:
    """Return a property's name, in double quotes if not plain, or a keyword or function."""
    if PLAIN.fullmatch(name) and name.upper() not in QUOTED:
        return name
    return quoted(name, '"')


def quoted(text: str, quote: str) -> str:
    """Return a text in quotes, with the quotes inside it doubled."""
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"
