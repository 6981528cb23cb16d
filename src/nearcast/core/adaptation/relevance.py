"""Relevance: how much each atom of a subscription matters to its subscriber (seed C's vector r).

A vector has one level per atom, in the order in which the atoms are written: 0 leaves the atom out,
N matters most. Clients write numbers from 0 to 1 (level k for (k-1)/N < r <= k/N) or levels, or
name where the vector comes from: their role and task, or what was learned.
"""

import math
import re
from collections.abc import Sequence

from msgspec import Struct

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.form_function import AND, NOT, FormFunction, operations
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import parse_number

LEVELS, LEARNED, ROLE = "levels:", "learned:", "role"
LONGEST_LEVEL = 9
"""In digits; Python refuses to read numbers of several thousand."""
_SEPARATORS = re.compile(r"[,\s]+")


class ByRole(Struct, frozen=True):
    """The vector is the one that a policy gives to the subscriber's role and task."""


class Learned(Struct, frozen=True):
    """The vector is the learned one of this name."""

    name: str


Levels = tuple[int, ...]
"""A vector: the level of each atom."""
RelevanceSource = Levels | ByRole | Learned


def parse_relevance(given: object, levels: int) -> RelevanceSource:
    """Read a vector or where it comes from: text, or an array; `levels` is N.

    Raises AdaptationError that says what would be right.
    """
    if isinstance(given, str):
        text = given.strip()
        if text == ROLE:
            return ByRole()
        if text.startswith(LEARNED):
            if not (name := text.removeprefix(LEARNED).strip()):
                raise AdaptationError("learned: is followed by the name of a learned vector.")
            return Learned(name)
        if text.startswith(LEVELS):
            parts = _SEPARATORS.split(text.removeprefix(LEVELS).strip(" ,"))
            return _checked(tuple(_level(part, levels) for part in parts if part))
        parts = [part for part in _SEPARATORS.split(text.strip(" ,")) if part]
        return _checked(tuple(level_of(_number(part), levels) for part in parts))
    if isinstance(given, Sequence):
        return _checked(tuple(level_of(_number(part), levels) for part in given))
    if isinstance(given, int | float):
        return _checked((level_of(_number(given), levels),))
    raise AdaptationError(_FORMS)


def level_of(relevance: float, levels: int) -> int:
    """The level of a relevance from 0 to 1: k for (k-1)/N < r <= k/N."""
    level = math.ceil(relevance * levels)
    # k / N is level k although k / N * N may be a little more than k.
    return level - 1 if level and relevance <= (level - 1) / levels else level


def checked_vector(vector: Levels, form: FormFunction) -> Levels:
    """Return the vector; raise AdaptationError if it does not fit the atoms of a filter."""
    if len(vector) != len(form.atoms):
        if form.filter is None:
            raise AdaptationError(
                f"Without a filter, relevance is one number for the whole subscription, not "
                f"{len(vector)}."
            )
        atoms = ", ".join(form.texts()[:8]) + (", …" if len(form.atoms) > 8 else "")
        raise AdaptationError(
            f"The relevance vector has {len(vector)} values, and the filter has "
            f"{len(form.atoms)} atoms, one value each: {atoms}."
        )
    return vector


def atoms_against_nesting(form: FormFunction, vector: Levels) -> list[int]:
    """The atoms by which a lower priority selects less than a higher one, or something else.

    A less relevant atom joins at a lower priority. That is harmless where it is an alternative; as
    a further condition it takes away what the higher priority selects.
    """
    found: set[int] = set()
    _judge(_tree(form), vector, False, found)
    return sorted(found)


class _Part(Struct):
    op: int
    parts: list["_Part"]

    def atoms(self) -> list[int]:
        """The atoms below it."""
        if self.op >= 0:
            return [self.op]
        return [atom for part in self.parts for atom in part.atoms()]


def _tree(form: FormFunction) -> _Part:
    stack: list[_Part] = []
    for op, operands in operations(form.form):
        parts = stack[len(stack) - operands :] if operands else []
        if operands:
            del stack[-operands:]
        stack.append(_Part(op, parts))
    return stack[0]


def _judge(part: _Part, vector: Levels, negated: bool, found: set[int]) -> int:
    """Return the level at which a part joins, 0 if never; add atoms that break nesting."""
    if part.op >= 0:
        return vector[part.op]
    if part.op == NOT:
        return _judge(part.parts[0], vector, not negated, found)
    joins = [_judge(each, vector, negated, found) for each in part.parts]
    first = max(joins)
    if (part.op == AND) is not negated:
        for each, level in zip(part.parts, joins, strict=True):
            if 0 < level < first:
                found.update(atom for atom in each.atoms() if vector[atom])
    return first


def _checked(vector: Levels) -> Levels:
    if not any(vector):
        raise AdaptationError(
            "A relevance vector without any value above 0 selects nothing; unsubscribe instead."
        )
    return vector


def _number(given: object) -> float:
    try:
        if isinstance(given, str):
            value = parse_number(given, "relevance")
        else:
            value = float(given) if isinstance(given, int | float) else math.nan
    except (ModelError, OverflowError):
        value = math.nan
    if isinstance(given, bool) or not 0.0 <= value <= 1.0:
        raise AdaptationError(f"{_FORMS} This is neither: {repr(given)[:40]}.")
    return value


def _level(text: str, levels: int) -> int:
    is_whole = text.isascii() and text.isdecimal()
    if not is_whole or len(text) > LONGEST_LEVEL or int(text) > levels:
        raise AdaptationError(
            f"A level of relevance is a whole number from 0 to {levels}, not {text[:40]!r}."
        )
    return int(text)


_FORMS = (
    "Relevance is a number from 0 to 1 for each atom of the filter, as in '1, 0.5, 0', or "
    "'levels:3,2,0', 'role' or 'learned:NAME'."
)
