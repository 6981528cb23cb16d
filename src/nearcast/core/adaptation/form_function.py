"""Form functions: the logical form of a filter apart from its atoms (seed C, Γ and Φ).

An atom is a part of a filter without AND, OR and NOT. A form function can be applied to any subset
of its atoms: a part that is left without atoms drops out, and a NOT with it. With the truth of each
atom for an event it decides whether the filter restricted to a subset holds, in three-valued logic.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from nearcast.core.language import Filter, Node, Operation
from nearcast.core.language.filter_atoms import is_atom
from nearcast.core.language.forms.text_form import write_text

MOST_ATOMS = 60
"""The truth of all atoms of a subscription with relevance fits into two words of 64 bits."""

AND, OR, NOT = -1, -2, -3
"""Operators of a form in postfix notation; AND and OR are followed by the number of operands."""
Form = tuple[int, ...]
"""A form in postfix notation: indexes of atoms, and operators."""


class Truths(Struct, frozen=True, gc=False):
    """The truth of atoms for one event and one subscriber: a bit each; unknown is neither."""

    true: int
    false: int

    def of(self, atom: int) -> bool | None:
        """The truth of one atom; None is unknown."""
        if self.true >> atom & 1:
            return True
        return False if self.false >> atom & 1 else None


def truths_of(verdicts: Iterable[bool | None]) -> Truths:
    """The truths of atoms given one by one; None is unknown."""
    true = false = 0
    for atom, verdict in enumerate(verdicts):
        true |= (verdict is True) << atom
        false |= (verdict is False) << atom
    return Truths(true, false)


class FormFunction:
    """A filter as atoms, in the order in which they are written, and a form over them.

    Without a filter it is one atom that always holds.
    """

    __slots__ = ("atoms", "filter", "form")

    def __init__(self, filter_: Filter | None) -> None:
        self.filter = filter_
        atoms: list[Node] = []
        root, two_valued = (True, False) if filter_ is None else (filter_.root, filter_.two_valued)
        self.form: Form = tuple(_postfix(root, atoms, two_valued))
        self.atoms: tuple[Node, ...] = tuple(atoms)

    def texts(self) -> list[str]:
        """The atoms as CQL2 text."""
        return [write_text(atom) for atom in self.atoms]

    def atom_filter(self, atom: int) -> Filter:
        """One atom as a filter of its own."""
        return Filter(self.atoms[atom], self.filter is not None and self.filter.two_valued)

    def restricted(self, wanted: Sequence[bool]) -> Filter | None:
        """Return the filter with the wanted atoms only; None if none of them is left."""
        stack: list[Node | None] = []
        for op, operands in operations(self.form):
            if op >= 0:
                stack.append(self.atoms[op] if wanted[op] else None)
                continue
            parts = tuple(part for part in stack[-operands:] if part is not None)
            del stack[-operands:]
            if not parts:
                stack.append(None)
            elif op == NOT:
                stack.append(Operation("not", parts))
            else:
                name = "and" if op == AND else "or"
                stack.append(parts[0] if len(parts) == 1 else Operation(name, parts))
        (root,) = stack
        two_valued = self.filter is not None and self.filter.two_valued
        return None if root is None else Filter(root, two_valued)

    def holds(self, truths: Truths, wanted: Sequence[bool]) -> bool:
        """Whether the filter restricted to the wanted atoms is true, by the truth of its atoms."""
        absent = object()
        stack: list[object] = []
        for op, operands in operations(self.form):
            if op >= 0:
                stack.append(truths.of(op) if wanted[op] else absent)
                continue
            parts = [part for part in stack[-operands:] if part is not absent]
            del stack[-operands:]
            if not parts:
                stack.append(absent)
            elif op == NOT:
                stack.append(None if parts[0] is None else not parts[0])
            elif op == AND:
                stack.append(False if False in parts else None if None in parts else True)
            else:
                stack.append(True if True in parts else None if None in parts else False)
        return stack == [True]


def operations(form: Form) -> Iterator[tuple[int, int]]:
    """Yield the atoms of a form and its operators with their number of operands, in postfix."""
    steps = iter(form)
    for op in steps:
        yield op, (next(steps) if op in (AND, OR) else 1 if op == NOT else 0)


def _postfix(node: Node, atoms: list[Node], two_valued: bool) -> Iterator[int]:
    if isinstance(node, Operation) and not is_atom(node, two_valued):
        for part in node.args:
            yield from _postfix(part, atoms, two_valued)
        if node.op == "not":
            yield NOT
        else:
            yield AND if node.op == "and" else OR
            yield len(node.args)
    else:
        atoms.append(node)
        yield len(atoms) - 1
