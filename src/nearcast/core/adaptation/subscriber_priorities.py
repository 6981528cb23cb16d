"""Subscriber priorities: the vector and the context of each subscription, as columns.

By the number of a subscription in the matcher: its relevance vector (over the atoms of its filter)
and the row of the priority matrix that applies to its subscriber now. A change of class writes the
rows of the subscriber; which rule follows from a vector and a row is looked up in a table.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from nearcast.core.adaptation.form_function import FormFunction, Truths
from nearcast.core.adaptation.priority_matrix import MOST_LEVELS, MatrixRow
from nearcast.core.adaptation.priority_rules import (
    DEEPEST,
    I32,
    I64,
    NEVER,
    PriorityRules,
    RuleColumns,
    atom_priorities,
    evaluate_rule,
)
from nearcast.core.adaptation.relevance import Levels, checked_vector
from nearcast.core.compiled import compiled
from nearcast.core.language import Filter

NO_VECTOR = 0
MOST_UNUSED_RULES, MOST_ROWS = 1_024, 256
ALL_FIRST: MatrixRow = (1,) * MOST_LEVELS
"""The row of a context in which everything is most urgent."""
_UNSET = -1


class WeightedForm:
    """A filter's form with a relevance vector; equal ones of subscriptions in force are one.

    A vector that does not fit raises AdaptationError.
    """

    __slots__ = ("form", "levels", "number", "users")

    def __init__(self, form: FormFunction, levels: Levels) -> None:
        self.form = form
        self.levels = checked_vector(levels, form)
        self.number = NO_VECTOR
        """Its row in the table of rules while a subscription uses it."""
        self.users = 0


class JudgedSubscription(Struct, frozen=True, gc=False):
    """A subscription with relevance that an event matched, and the truth of its atoms then."""

    id: str
    weighted: WeightedForm
    truths: Truths


class SubscriberPriorities:
    """Decides the priority of matches."""

    def __init__(self) -> None:
        self.rules = PriorityRules()
        self._weighted: list[WeightedForm | None] = [None]
        """By number; the first stands for subscriptions without relevance."""
        self._known: dict[tuple[Filter | None, Levels], WeightedForm] = {}
        self._free: list[int] = []
        self._row_numbers: dict[MatrixRow, int] = {}
        self._row_values: list[MatrixRow] = []
        self._rule_of = np.full((4, 4), _UNSET, np.int32)
        """By vector and row, the number of the rule."""
        self._vector = np.zeros(16, np.int32)
        self._row = np.zeros(16, np.int32)
        self._count = 0

    def __len__(self) -> int:
        """The number of subscriptions with relevance."""
        return self._count

    def of(self, number: int) -> WeightedForm | None:
        """The weighted form of a subscription, None without relevance."""
        return self._weighted[self._vector[number]] if number < len(self._vector) else None

    def put(
        self, number: int, where: Filter | None, levels: Levels, row: MatrixRow = ALL_FIRST
    ) -> None:
        """Set the filter and the vector of a subscription, and the row for its subscriber."""
        self.remove(number)
        if number >= len(self._vector):
            more = np.zeros(number + 1, np.int32)
            self._vector = np.concatenate([self._vector, more])
            self._row = np.concatenate([self._row, more])
        weighted = self._known.get((where, levels))
        if weighted is None:
            weighted = self._known[where, levels] = WeightedForm(FormFunction(where), levels)
            weighted.number = self._free.pop() if self._free else len(self._weighted)
            if weighted.number == len(self._weighted):
                self._weighted.append(None)
            self._weighted[weighted.number] = weighted
        weighted.users += 1
        self._count += 1
        self._vector[number], self._row[number] = weighted.number, self._row_number(row)

    def remove(self, number: int) -> None:
        """Let a subscription have no relevance."""
        weighted = self.of(number)
        if weighted is None:
            return
        self._vector[number] = NO_VECTOR
        self._count -= 1
        weighted.users -= 1
        if not weighted.users:
            del self._known[weighted.form.filter, weighted.levels]
            self._weighted[weighted.number] = None
            self._rule_of[weighted.number] = _UNSET
            self._free.append(weighted.number)
            weighted.number = NO_VECTOR

    def row_of(self, number: int) -> MatrixRow:
        """The row of the matrix for a subscription with relevance."""
        return self._row_values[int(self._row[number])]

    def set_row(self, numbers: Sequence[int] | I64, row: MatrixRow) -> None:
        """Set the row of the matrix for subscriptions of one subscriber."""
        self._row[numbers] = self._row_number(row)

    def weighted_rows(self, numbers: I32) -> I64:
        """The places among numbers of subscriptions where one has relevance."""
        known = len(self._vector)
        vector = self._vector[np.minimum(numbers, known - 1)]
        if numbers.max(initial=0) >= known:
            vector[numbers >= known] = NO_VECTOR
        return np.flatnonzero(vector)

    def prioritise(self, numbers: I32, true: I64, false: I64, priority: I32) -> tuple[int, int]:
        """Write the priority of each match of a subscription with relevance, by number and truths.

        NEVER for what is withheld. Returns how many have relevance, and how many are withheld.
        """
        done = weighted = withheld = 0
        while True:
            done, more, never, evaluated = prioritise_matches(
                done, numbers, true, false, self._vector, self._row, self._rule_of,
                self.rules.columns, priority,
            )  # fmt: skip
            weighted, withheld = weighted + more, withheld + never
            self.rules.evaluated += evaluated
            if done == len(numbers):
                return weighted, withheld
            self._make_rule(int(self._vector[numbers[done]]), int(self._row[numbers[done]]))

    def _make_rule(self, vector: int, row: int) -> None:
        """Find the rule that follows from a vector and a row."""
        if len(self.rules) > MOST_UNUSED_RULES + 4 * len(self._known):
            # They are made again when they are needed.
            self.rules.clear()
            self._rule_of[:] = _UNSET
        weighted = self._weighted[vector]
        assert weighted is not None
        of_atom = atom_priorities(weighted.levels, self._row_values[row])
        self._rule_of[vector, row] = self.rules.number(weighted.form.form, of_atom)

    def _row_number(self, row: MatrixRow) -> int:
        if row not in self._row_numbers and len(self._row_numbers) >= MOST_ROWS:
            self._forget_rows()
        number = self._row_numbers.setdefault(row, len(self._row_values))
        if number == len(self._row_values):
            self._row_values.append(row)
        vectors, rows = self._rule_of.shape
        if len(self._weighted) > vectors or number >= rows:
            size = max(vectors, 2 * len(self._weighted)), max(rows, 2 * number)
            table = np.full(size, _UNSET, np.int32)
            table[:vectors, :rows] = self._rule_of
            self._rule_of = table
        return number

    def _forget_rows(self) -> None:
        """Number the rows that are in use anew; forget the others."""
        used, row = np.unique(self._row * (self._vector > 0), return_inverse=True)
        self._row = row.astype(np.int32)
        self._row_values = [self._row_values[each] for each in used.tolist()]
        self._row_numbers = {each: number for number, each in enumerate(self._row_values)}
        self._rule_of[:] = _UNSET


@compiled
def prioritise_matches(
    begin: int,
    numbers: I32,
    true: I64,
    false: I64,
    vector: I32,
    row: I32,
    rule_of: I32,
    rules: RuleColumns,
    priority: I32,
) -> tuple[int, int, int, int]:
    """Write priorities from a match on, up to the first whose rule is still to be made.

    Returns where it stopped, and how many had relevance, were withheld, and took an evaluation.
    """
    weighted = withheld = evaluated = 0
    stack = np.empty(DEEPEST, np.int8)
    for i in range(begin, len(numbers)):
        number = numbers[i]
        if number >= len(vector) or vector[number] == NO_VECTOR:
            continue
        rule = rule_of[vector[number], row[number]]
        if rule == _UNSET:
            return i, weighted, withheld, evaluated
        if rules.last_true[rule] != true[i] or rules.last_false[rule] != false[i]:
            evaluate_rule(rule, true[i], false[i], rules, stack)
            evaluated += 1
        priority[i] = rules.last[rule]
        weighted += 1
        withheld += rules.last[rule] == NEVER
    return len(numbers), weighted, withheld, evaluated
