"""Atoms: the parts of a filter without AND, OR and NOT, in the order in which they are written.

In filters from seed C's XML, a value that looks like a number is compared as a number with numbers
and as a text with texts: the OR of the two is one atom.
"""

import re
from collections.abc import Iterator

from nearcast.core.language.ast import COMPARISONS, LOGICAL, Node, Operation, Property
from nearcast.core.language.forms.tokens import number

NUMERAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def is_atom(node: Node, two_valued: bool) -> bool:
    """Whether a node of a filter is an atom; `two_valued`: the filter is from XML."""
    if not isinstance(node, Operation) or node.op not in LOGICAL:
        return True
    return two_valued and numeral_atom(node) is not None


def atoms_of(root: Node, two_valued: bool) -> Iterator[Node]:
    """Yield the atoms of a filter in the order in which they are written."""
    pending = [root]
    while pending:
        node = pending.pop()
        if is_atom(node, two_valued):
            yield node
        else:
            assert isinstance(node, Operation)
            pending.extend(reversed(node.args))


def compared(op: str, name: Property, value: str) -> Operation:
    """Return the atom that compares an attribute with a value."""
    as_text = Operation(op, (name, value))
    found = numeral(value)
    return as_text if found is None else Operation("or", (Operation(op, (name, found)), as_text))


def numeral(value: str) -> int | float | None:
    """Return a value as a number if it looks like one, or None."""
    if not NUMERAL.fullmatch(value):
        return None
    try:
        size = number(value.lstrip("+-"))
    except ValueError:
        return None
    return -size if value.startswith("-") else size


def numeral_atom(node: Node) -> Operation | None:
    """Return the text comparison of an atom whose value looks like a number, or None."""
    if not isinstance(node, Operation) or node.op != "or" or len(node.args) != 2:
        return None
    last = node.args[1]
    if not isinstance(last, Operation) or last.op not in COMPARISONS:
        return None
    name, value = last.args
    if isinstance(name, Property) and isinstance(value, str):
        return last if node == compared(last.op, name, value) else None
    return None
