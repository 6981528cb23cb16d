"""Priority rules: the priority of an event for a subscriber from the truth of its atoms.

A rule is a form function with the priority of each of its atoms, which follows from relevance and
one row of a matrix. The prioritised subscription s_p has the atoms of priority p or better. An
event gets the best p that holds, if the whole filter (without atoms of relevance 0) holds, else it
is withheld. Equal rules are stored once and evaluated once for equal truths: deciding again after a
change of class, role or task is arithmetic on truths that are known.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.adaptation.form_function import AND, NOT, Form, FormFunction, Truths
from nearcast.core.adaptation.priority_matrix import MatrixRow
from nearcast.core.adaptation.relevance import Levels
from nearcast.core.compiled import compiled

I8 = npt.NDArray[np.int8]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

ABSENT, FALSE, UNKNOWN, TRUE = -1, 0, 1, 2
NOT_PRIORITISED = 0
"""Stands for an atom of relevance 0."""
NEVER = 127
"""The priority of what is withheld: worse than any other."""
DEEPEST = 256
"""Operands of a form that wait at once, at most."""


def atom_priorities(vector: Levels, row: MatrixRow) -> tuple[int, ...]:
    """The priority of each atom in a context: of its level in the row of a matrix.

    A level above those of the matrix, from before a restart with fewer levels, is the highest.
    """
    most = len(row)
    return tuple(row[min(level, most) - 1] if level else NOT_PRIORITISED for level in vector)


def priority_of(form: FormFunction, vector: Levels, row: MatrixRow, truths: Truths) -> int:
    """The priority of one event for one subscriber, in plain Python."""
    of_atom = atom_priorities(vector, row)
    if form.holds(truths, [level > 0 for level in vector]):
        for priority in sorted({each for each in of_atom if each > 0}):
            if form.holds(truths, [0 < each <= priority for each in of_atom]):
                return priority
    return NEVER


class RuleColumns(NamedTuple):
    """Rules by number: where the code of each begins, and its last result."""

    start: I32
    atoms: I32
    """How many atoms it has."""
    code: I16
    """For each rule the priorities of its atoms, the length of its form, and the form."""
    last_true: I64
    last_false: I64
    last: I8


class PriorityRules:
    """Rules by number; equal ones share a number."""

    def __init__(self) -> None:
        self.evaluated = 0
        """How often a rule was evaluated so far."""
        self.clear()

    def clear(self) -> None:
        """Remove all rules."""
        self._numbers: dict[tuple[Form, tuple[int, ...]], int] = {}
        self._start = np.zeros(16, np.int32)
        self._atoms = np.zeros(16, np.int32)
        self._code = np.zeros(256, np.int16)
        self._top = 0
        self._last_true = np.zeros(16, np.int64)
        self._last_false = np.zeros(16, np.int64)
        self._last = np.zeros(16, np.int8)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, form: Form, of_atom: tuple[int, ...]) -> int:
        """The number of a rule: a form, and the priority of each of its atoms."""
        number = self._numbers.get((form, of_atom))
        if number is None:
            number = self._numbers[form, of_atom] = len(self._numbers)
            self._put(number, form, of_atom)
        return number

    @property
    def columns(self) -> "RuleColumns":
        """The rules and their last results, for kernels."""
        return RuleColumns(
            self._start, self._atoms, self._code, self._last_true, self._last_false, self._last
        )

    def _put(self, number: int, form: Form, of_atom: tuple[int, ...]) -> None:
        words = (*of_atom, len(form), *form)
        if number >= len(self._start):
            size = 2 * len(self._start)
            for name in ("_start", "_atoms", "_last_true", "_last_false", "_last"):
                setattr(self, name, np.resize(getattr(self, name), size))
        while self._top + len(words) > len(self._code):
            self._code = np.resize(self._code, 2 * len(self._code))
        self._start[number], self._atoms[number] = self._top, len(of_atom)
        self._code[self._top : self._top + len(words)] = words
        self._top += len(words)
        # An atom is never both true and false.
        self._last_true[number] = self._last_false[number] = 1


@compiled
def evaluate_rule(rule: int, true: int, false: int, rules: RuleColumns, stack: I8) -> None:
    """Let the last result of a rule be the one for these truths."""
    rules.last[rule] = best_priority(
        rules.start[rule], rules.atoms[rule], rules.code, true, false, stack
    )
    rules.last_true[rule] = true
    rules.last_false[rule] = false


@compiled
def best_priority(start: int, atoms: int, code: I16, true: int, false: int, stack: I8) -> int:
    """The best priority at which a rule holds; NEVER if the whole filter does not hold."""
    most = 0
    for atom in range(atoms):
        most = max(most, code[start + atom])
    if not form_holds(start, atoms, code, true, false, 0, stack):
        return NEVER
    for priority in range(1, most + 1):
        if form_holds(start, atoms, code, true, false, priority, stack):
            return priority
    return NEVER


@compiled
def form_holds(
    start: int, atoms: int, code: I16, true: int, false: int, most: int, stack: I8
) -> bool:
    """Whether a form with the atoms of priority `most` or better is true; 0: with all atoms."""
    form = start + atoms + 1
    length = code[form - 1]
    top = 0
    i = 0
    while i < length:
        op = code[form + i]
        i += 1
        if op >= 0:
            priority = code[start + op]
            bit = 1 << op
            if priority == 0 or (most > 0 and (priority < 0 or priority > most)):
                stack[top] = ABSENT
            elif true & bit:
                stack[top] = TRUE
            elif false & bit:
                stack[top] = FALSE
            else:
                stack[top] = UNKNOWN
            top += 1
        elif op == NOT:
            if stack[top - 1] != ABSENT:
                stack[top - 1] = TRUE - stack[top - 1]
        else:
            operands = code[form + i]
            i += 1
            result = ABSENT
            for j in range(top - operands, top):
                part = stack[j]
                if part != ABSENT:
                    if result == ABSENT:
                        result = part
                    elif op == AND:
                        result = min(result, part)
                    else:
                        result = max(result, part)
            top -= operands
            stack[top] = result
            top += 1
    return bool(stack[0] == TRUE)
