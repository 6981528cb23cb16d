"""Array predicates: lists compared as sets of values, as CQL2 defines them."""

from collections.abc import Hashable, Mapping, Sequence
from datetime import date

from nearcast.core.language.evaluation.scope import Value
from nearcast.core.language.evaluation.temporal import as_instant


def related(op: str, left: Sequence[Value], right: Sequence[Value]) -> bool | None:
    """Return whether a predicate holds; None if the lists nest beyond the recursion limit."""
    # A text is read as an instant only if a list contains one, as in a comparison.
    instants = any(isinstance(item, date) for item in (*left, *right))
    try:
        a = {key(item, instants) for item in left}
        b = {key(item, instants) for item in right}
    except RecursionError:
        return None
    if op == "a_equals":
        return a == b
    if op == "a_contains":
        return a >= b
    if op == "a_containedBy":
        return a <= b
    return not a.isdisjoint(b)


def key(value: Value, instants: bool) -> Hashable:
    """Return a hashable key; values of the same type are equal if their keys are."""
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, int | float):
        try:
            return ("number", float(value))
        except OverflowError:
            return ("integer", value)
    if instants and isinstance(value, str | date):
        instant = as_instant(value)
        if instant is not None:
            return ("instant", instant.isoformat())
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, Mapping):
        return ("object", frozenset((name, key(v, instants)) for name, v in value.items()))
    if isinstance(value, Sequence):
        return ("list", tuple(key(v, instants) for v in value))
    return ("other", str(value))
