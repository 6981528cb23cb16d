"""Evaluation of a tree in a scope, in three-valued logic: true, false or unknown (None).

A missing value, a JSON null and a value of the wrong type make a comparison unknown; AND, OR
and NOT follow Kleene. Numbers are IEEE doubles: both sides are converted to floats first, and a
calculation without a finite result (a division by zero, an overflow, a root of a negative
number) is unknown. ``%`` and ``div`` truncate towards zero, as in SQL. In a two-valued filter
(seed C's XML) an unknown atom is false.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, TypeAlias

from nearcast.core.language.ast import (
    ARITHMETIC,
    ARRAYS,
    COMPARISONS,
    FOLDINGS,
    LOGICAL,
    SPATIAL,
    TEMPORAL,
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
from nearcast.core.language.evaluation import arrays, temporal
from nearcast.core.language.evaluation.like import MAX_MATCHED, compile_pattern, folded
from nearcast.core.language.evaluation.nearness import (
    approaching,
    counted,
    counted_up_to,
    distance,
    located,
)
from nearcast.core.language.evaluation.scope import Scope, Value
from nearcast.core.language.signatures import WHO

if TYPE_CHECKING:
    from nearcast.core.language.evaluation import spatial

Truth: TypeAlias = bool | None


def truth(node: Node, scope: Scope, two_valued: bool = False) -> Truth:
    """Return the truth of a condition; with `two_valued`, an unknown atom is false."""
    if not isinstance(node, Operation) or node.op not in LOGICAL:
        found = value_of(node, scope)
        known = found if isinstance(found, bool) else None
        return False if known is None and two_valued else known
    if node.op == "not":
        inner = truth(node.args[0], scope, two_valued)
        return None if inner is None else not inner
    # AND is settled by the first false, OR by the first true.
    settles = node.op == "or"
    unknown = False
    for arg in node.args:
        found = truth(arg, scope, two_valued)
        if found is settles:
            return settles
        unknown = unknown or found is None
    return None if unknown else not settles


def value_of(node: Node, scope: Scope) -> Value:
    """Return the value of a node; None for a geometry, an interval or a list."""
    if isinstance(node, Operation):
        return EVALUATORS[node.op](node, scope)
    if isinstance(node, Property):
        return scope.value(node.name)
    if isinstance(node, Date | Timestamp):
        return node.value
    return node if isinstance(node, bool | int | float | str) else None


def compare(op: str, left: Value, right: Value) -> Truth:
    """Compare two values of the same type; the result is unknown for other pairs."""
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        if not (isinstance(left, bool) and isinstance(right, bool)):
            return None
        return {"=": left == right, "<>": left != right}.get(op)
    if isinstance(left, int | float) and isinstance(right, int | float):
        x, y = double(left), double(right)
        return None if x is None or y is None else ORDERINGS[op]((x > y) - (x < y))
    if isinstance(left, str) and isinstance(right, str):
        return ORDERINGS[op]((left > right) - (left < right))
    if isinstance(left, date) or isinstance(right, date):
        t, u = temporal.as_instant(left), temporal.as_instant(right)
        return None if t is None or u is None else ORDERINGS[op](temporal.order(t, u))
    return None


ORDERINGS: dict[str, Callable[[int], bool]] = {
    "=": lambda sign: sign == 0,
    "<>": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}


def double(value: Value) -> float | None:
    """Return a number as a finite double, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def comparison(node: Operation, scope: Scope) -> Value:
    """Evaluate =, <>, <, <=, > and >=."""
    left, right = node.args
    return compare(node.op, compared(left, (right,), scope), compared(right, (left,), scope))


def compared(node: Node, limits: Sequence[Node], scope: Scope) -> Value:
    """Return the value of a node that is compared with others; counts stop at literal numbers.

    A count above all of them compares with each as any larger one does.
    """
    if not isinstance(node, Operation) or node.op != "count":
        return value_of(node, scope)
    numbers = [double(limit) for limit in limits if isinstance(limit, int | float)]
    if len(numbers) < len(limits) or None in numbers:
        return value_of(node, scope)
    largest = max(number for number in numbers if number is not None)
    return counted_up_to(node, scope, max(0, math.floor(largest) + 1))


def calculation(node: Operation, scope: Scope) -> Value:
    """Evaluate arithmetic."""
    left, right = (double(value_of(arg, scope)) for arg in node.args)
    if left is None or right is None:
        return None
    try:
        result = CALCULATIONS[node.op](left, right)
    except (ArithmeticError, ValueError):
        return None
    return result if math.isfinite(result) else None


CALCULATIONS: dict[str, Callable[[float, float], float]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "^": math.pow,
    "%": math.fmod,
    "div": lambda x, y: float(math.trunc(x / y)),
}


def like(node: Operation, scope: Scope) -> Value:
    """Evaluate LIKE; CASEI and ACCENTI around the pattern fold its plain characters."""
    text = value_of(node.args[0], scope)
    foldings: list[str] = []
    pattern = node.args[1]
    while isinstance(pattern, Operation):
        foldings.append(pattern.op)
        pattern = pattern.args[0]
    if not isinstance(text, str) or not isinstance(pattern, str) or len(text) > MAX_MATCHED:
        return None
    return compile_pattern(pattern, tuple(reversed(foldings))).matches(text)


def between(node: Operation, scope: Scope) -> Value:
    """Evaluate BETWEEN as two comparisons."""
    operand, *limits = node.args
    value = compared(operand, limits, scope)
    low, high = (value_of(limit, scope) for limit in limits)
    above, below = compare(">=", value, low), compare("<=", value, high)
    if above is False or below is False:
        return False
    return None if above is None or below is None else True


def member(node: Operation, scope: Scope) -> Value:
    """Evaluate IN as equality with one of the items."""
    value, items = value_of(node.args[0], scope), node.args[1]
    assert isinstance(items, Array)
    unknown = False
    for item in items.items:
        found = compare("=", value, value_of(item, scope))
        if found:
            return True
        unknown = unknown or found is None
    return None if unknown else False


def is_null(node: Operation, scope: Scope) -> Value:
    """Evaluate IS NULL, which is always known."""
    operand = node.args[0]
    if isinstance(operand, Geometry | BBox | Interval):
        return False
    if isinstance(operand, Operation) and operand.op in LOGICAL:
        return truth(operand, scope) is None
    found = value_of(operand, scope)
    if found is None and isinstance(operand, Property):
        return located(operand, scope) is None
    return found is None


def folding(node: Operation, scope: Scope) -> Value:
    """Evaluate CASEI and ACCENTI."""
    text = value_of(node.args[0], scope)
    if not isinstance(text, str) or len(text) > MAX_MATCHED:
        return None
    return folded(text, (node.op,))


def spatial_predicate(node: Operation, scope: Scope) -> Value:
    """Evaluate the spatial predicates (``s_...``)."""
    # Imported here, so that a client that only parses filters does not need shapely.
    from nearcast.core.language.evaluation import spatial

    left, right = (shape_of(arg, scope) for arg in node.args)
    return spatial.spatially_related(node.op, left, right)


def shape_of(node: Node, scope: Scope) -> "spatial.Shape | None":
    """Return the shape of a literal or of a property's value."""
    from nearcast.core.language.evaluation import spatial

    if isinstance(node, Geometry | BBox):
        return spatial.shape_of_literal(node)
    if isinstance(node, Property):
        place = located(node, scope)
        value: Value = scope.value(node.name) if place is None else [place[1], place[0]]
        return spatial.shape_of_value(value)
    return None


def temporal_predicate(node: Operation, scope: Scope) -> Value:
    """Evaluate the temporal predicates (``t_...``)."""
    left, right = (span_of(arg, scope) for arg in node.args)
    return None if left is None or right is None else temporal.related(node.op, left, right)


def span_of(node: Node, scope: Scope) -> temporal.Span | None:
    """Return the span of an instant, an interval or a property's value; None if unknown."""
    if isinstance(node, Interval):
        ends: list[temporal.Instant | None] = []
        for end in (node.start, node.end):
            found = end_of(end, scope)
            if found is None and end is not None:
                return None
            ends.append(found)
        return temporal.Span(*ends)
    instant = temporal.as_instant(value_of(node, scope))
    return None if instant is None else temporal.Span(instant, instant)


def end_of(end: End, scope: Scope) -> temporal.Instant | None:
    """Return one end of an interval, which may be a literal or a property."""
    if isinstance(end, Property):
        return temporal.as_instant(scope.value(end.name))
    return None if end is None else end.value


def array_predicate(node: Operation, scope: Scope) -> Value:
    """Evaluate the array predicates (``a_...``)."""
    left, right = (items_of(arg, scope) for arg in node.args)
    return None if left is None or right is None else arrays.related(node.op, left, right)


def items_of(node: Node, scope: Scope) -> list[Value] | None:
    """Return the items of a list; None if it is not a list or an item of a literal is unknown."""
    if not isinstance(node, Array):
        found = value_of(node, scope)
        return list(found) if isinstance(found, list | tuple) else None
    items: list[Value] = []
    for item in node.items:
        value: Value = items_of(item, scope) if isinstance(item, Array) else any_of(item, scope)
        if value is None:
            return None
        items.append(value)
    return items


def any_of(node: Node, scope: Scope) -> Value:
    """Return the value of an item of a list, which may also be a condition."""
    if isinstance(node, Operation) and node.op in LOGICAL:
        return truth(node, scope)
    return value_of(node, scope)


def logical(node: Operation, scope: Scope) -> Value:
    """Evaluate AND, OR or NOT used as a value."""
    return truth(node, scope)


def friendship(node: Operation, scope: Scope) -> Value:
    """Evaluate ``friend``: whether the party's friends include the subscriber."""
    who = node.args[0]
    assert isinstance(who, Property)
    assert who.name in WHO
    return scope.friend(who.name)


Evaluator: TypeAlias = Callable[[Operation, Scope], Value]

EVALUATORS: Mapping[str, Evaluator] = {
    **dict.fromkeys(LOGICAL, logical),
    **dict.fromkeys(COMPARISONS, comparison),
    **dict.fromkeys(ARITHMETIC, calculation),
    **dict.fromkeys(FOLDINGS, folding),
    **dict.fromkeys(SPATIAL, spatial_predicate),
    **dict.fromkeys(TEMPORAL, temporal_predicate),
    **dict.fromkeys(ARRAYS, array_predicate),
    "like": like,
    "between": between,
    "in": member,
    "isNull": is_null,
    "distance": distance,
    "approaching": approaching,
    "count": counted,
    "friend": friendship,
}
