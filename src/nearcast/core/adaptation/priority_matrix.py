"""Priority matrices: from the relevance of an atom and the context of a subscriber to a priority.

Rows are context classes from 1 (worst) to N (best), columns levels of relevance from 1 (low) to N
(high). Priorities are 1 (most urgent) to N, or WITHHELD. The two strategies of seed C are `delay`
(low relevance later, the worse the context) and `restriction` (low relevance not at all).
"""

from collections.abc import Sequence

from msgspec import Struct

from nearcast.core.adaptation.errors import AdaptationError

WITHHELD = -1
"""The priority of what is not sent."""
MOST_LEVELS = 16

MatrixRow = tuple[int, ...]
"""The priority of each level of relevance in one context class, from the lowest level."""


class PriorityMatrix(Struct, frozen=True):
    """A checked matrix."""

    rows: tuple[MatrixRow, ...]

    def row(self, context_class: int) -> MatrixRow:
        """The priorities in a context class, counted from 1."""
        return self.rows[context_class - 1]


def checked_matrix(rows: object, levels: int) -> PriorityMatrix:
    """Return the matrix with these rows; raise AdaptationError that says what is wrong where."""
    shape = f"{levels} rows (class 1, the worst, to {levels}) of {levels} numbers"
    if not isinstance(rows, Sequence) or isinstance(rows, str) or len(rows) != levels:
        raise AdaptationError(f"A matrix has {shape}.")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != levels:
            raise AdaptationError(f"Row {number} of the matrix is incomplete: it has {shape}.")
        for level, value in enumerate(row, 1):
            if type(value) is not int or not (value == WITHHELD or 1 <= value <= levels):
                raise AdaptationError(
                    f"Row {number}, level {level} of the matrix is {repr(value)[:40]}: a priority "
                    f"is 1 (most urgent) to {levels}, or -1 for what is withheld."
                )
    return PriorityMatrix(tuple(tuple(row) for row in rows))


def delay_matrix(levels: int) -> PriorityMatrix:
    """Seed C's delay strategy for any number of levels: 3 2 1 / 2 1 1 / 1 1 1 for three."""
    return PriorityMatrix(
        tuple(
            tuple(max(1, levels + 1 - level - worse) for level in range(1, levels + 1))
            for worse in range(levels)
        )
    )


def restriction_matrix(levels: int) -> PriorityMatrix:
    """Seed C's restriction strategy for any number of levels: -1 -1 1 / -1 2 1 / 1 1 1 for three.

    The worse the context, the more relevance is needed to be sent at all.
    """

    def priority(context_class: int, level: int) -> int:
        if levels in (context_class, level):
            return 1
        return levels + 1 - level if context_class + level > levels else WITHHELD

    every = range(1, levels + 1)
    return PriorityMatrix(tuple(tuple(priority(c, level) for level in every) for c in every))
