"""What each atom of a filter says, with the values that it was asked about.

An atom is a condition without AND, OR and NOT. Those to blame are the ones that would have to be
otherwise for the filter to be true.
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
"""Functions whose value says more than whether the atom holds."""


class AtomVerdict(Struct, frozen=True):
    """One atom, whether it holds (None: unknown), and why."""

    atom: str
    holds: bool | None
    why: str


def atom_verdicts(where: Filter, scope: Scope) -> tuple[AtomVerdict, ...]:
    """Return what every atom says, in the order in which they are written."""
    return tuple(_verdict(atom, scope, where.two_valued) for atom in _atoms(where.root))


def to_blame(where: Filter, scope: Scope) -> tuple[AtomVerdict, ...]:
    """Return those atoms that keep a filter from being true."""
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
    """What the parts of an atom are, and what it wants of them."""
    if not isinstance(atom, Operation):
        return _is(atom, scope)
    operands = [part for part in atom.args if _has_property(part)]
    if not operands or atom.op in VALUED:
        return f"{write_text(atom)} is {_value_text(value_of(atom, scope))}"
    found = ", ".join(dict.fromkeys(_is(part, scope) for part in operands))
    text, first = write_text(atom), write_text(atom.args[0])
    # Where the first part stands in front, what is left of the text is what it wants of it.
    wants = text.removeprefix(first).strip() if operands[0] is atom.args[0] else text
    return f"{found}, wants {wants}"


def _has_property(node: Node) -> bool:
    """Whether a part has a value that is not written in the filter."""
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
