"""The result of each atom of a filter, with the values it was evaluated on.

An atom is a condition without AND, OR and NOT. The atoms to blame are those whose result keeps
the filter from being true.
"""

from collections.abc import Iterator
from datetime import date, datetime

import msgspec
from msgspec import Struct

from nearcast.core.language.ast import LOGICAL, Node, Operation, Property
from nearcast.core.language.evaluation.evaluator import truth, value_of
from nearcast.core.language.evaluation.scope import Scope, Value
from nearcast.core.language.filter import Filter
from nearcast.core.language.forms.text_form import write_text

LONGEST_VALUE = 80
VALUED = ("distance", "count")
"""Functions that are explained by their own value, not by those of their arguments."""


class AtomVerdict(Struct, frozen=True):
    """One atom, whether it holds (None: unknown), and why."""

    atom: str
    holds: bool | None
    why: str


def atom_verdicts(where: Filter, scope: Scope) -> tuple[AtomVerdict, ...]:
    """Return the verdict of every atom, in the order in which they are written."""
    return tuple(_verdict(atom, scope, where.two_valued) for atom in _atoms(where.root))


def to_blame(where: Filter, scope: Scope) -> tuple[AtomVerdict, ...]:
    """Return the verdicts of the atoms that keep a filter from being true."""
    blamed = _blamed(where.root, scope, where.two_valued, True)
    return tuple(_verdict(atom, scope, where.two_valued) for atom in blamed)


def _atoms(node: Node) -> Iterator[Node]:
    if isinstance(node, Operation) and node.op in LOGICAL:
        for arg in node.args:
            yield from _atoms(arg)
    else:
        yield node


def _blamed(node: Node, scope: Scope, two_valued: bool, wanted: bool) -> Iterator[Node]:
    if truth(node, scope, two_valued) is wanted:
        return
    if not isinstance(node, Operation) or node.op not in LOGICAL:
        yield node
        return
    for arg in node.args:
        yield from _blamed(arg, scope, two_valued, wanted ^ (node.op == "not"))


def _verdict(atom: Node, scope: Scope, two_valued: bool) -> AtomVerdict:
    return AtomVerdict(write_text(atom), truth(atom, scope, two_valued), _why(atom, scope))


def _why(atom: Node, scope: Scope) -> str:
    """Return the values of an atom's operands, and the condition on them."""
    if not isinstance(atom, Operation):
        return _is(atom, scope)
    operands = [part for part in atom.args if _has_property(part)]
    if not operands or atom.op in VALUED:
        return f"{write_text(atom)} is {_value_text(value_of(atom, scope))}"
    found = ", ".join(dict.fromkeys(_is(part, scope) for part in operands))
    text, first = write_text(atom), write_text(atom.args[0])
    # If the first argument is an operand, the text after it is the condition on it.
    wants = text.removeprefix(first).strip() if operands[0] is atom.args[0] else text
    return f"{found}, wants {wants}"


def _has_property(node: Node) -> bool:
    """Return whether the value of a node depends on a property."""
    if isinstance(node, Property):
        return True
    return isinstance(node, Operation) and any(_has_property(arg) for arg in node.args)


def _is(node: Node, scope: Scope) -> str:
    value = value_of(node, scope)
    if isinstance(node, Operation) and node.op == "distance" and isinstance(value, int | float):
        return f"{write_text(node)} is {value:,.0f} m"
    return f"{write_text(node)} is {_value_text(value)}"


def _value_text(value: Value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, str):
        text = "'" + value.replace("'", "''") + "'"
    elif isinstance(value, datetime | date):
        text = value.isoformat().replace("+00:00", "Z")
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        text = str(int(value))
    else:
        text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
