"""Needs that depend on both contexts: `{"case": [[filter, need], …], "else": need}` (seed E's G).

A need may be a number that is calculated: `{"volume": "distance(me, publisher) / 100"}`, rounded up
and at least 1; what is unknown needs `volume 1`. Filters and calculations see what filters of the
subscription see, as it is now.
"""

import math
from collections.abc import Mapping

from msgspec import Struct

from nearcast.core.gathering.needs.needs import ALONE, Need, NeedKind, Needs, needs_of_text
from nearcast.core.language import Filter, LanguageError, parse
from nearcast.core.language.ast import Node, Operation
from nearcast.core.language.evaluation.evaluator import double, value_of
from nearcast.core.language.evaluation.scope import Scope
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import shown

KINDS: tuple[NeedKind, ...] = ("volume", "time", "people")
MOST_BRANCHES = 16
LARGEST = 1e9
_FORM = '{"case": [["friend(publisher)", "volume 1"]], "else": "people 10"}'


class CalculatedNeed(Struct, frozen=True):
    """A need whose number is calculated."""

    kind: NeedKind
    number: Node
    text: str

    def needs(self, scope: Scope) -> Needs:
        """The needs of an event, as both contexts are now."""
        value = double(value_of(self.number, scope))
        if value is None or math.isnan(value):
            return ALONE
        amount = math.ceil(min(max(value, 1.0), LARGEST))
        return Needs(((Need(self.kind, float(amount)),),))


class FixedNeed(Struct, frozen=True):
    """A need that is the same for all events of a branch."""

    found: Needs

    def needs(self, scope: Scope) -> Needs:
        """The needs of an event."""
        return self.found


Branch = CalculatedNeed | FixedNeed


class NeedsByCase(Struct, frozen=True):
    """The first branch whose filter is true decides, else the last one."""

    branches: tuple[tuple[Filter, Branch], ...]
    otherwise: Branch

    def needs(self, scope: Scope) -> Needs:
        """The needs of an event for a subscriber, as both contexts are now."""
        for where, branch in self.branches:
            if where.evaluate_in(scope):
                return branch.needs(scope)
        return self.otherwise.needs(scope)


def needs_by_case(members: Mapping[str, object]) -> NeedsByCase:
    """Return the needs of a JSON object without its clauses, or raise `ModelError`."""
    if "case" not in members:
        if "else" in members:
            raise ModelError(f'"else" needs "case", such as {_FORM}')
        return NeedsByCase((), _branch(members))
    unknown = members.keys() - {"case", "else"}
    if unknown:
        raise ModelError(f"unknown {shown(min(unknown))} beside case; such as {_FORM}")
    case = members["case"]
    if not isinstance(case, list) or not 0 < len(case) <= MOST_BRANCHES:
        raise ModelError(f'"case" is a list of 1 to {MOST_BRANCHES} pairs, such as {_FORM}')
    branches = []
    for pair in case:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ModelError(f"a branch is a pair of filter and need, such as {_FORM}")
        branches.append((_filter(pair[0]), _branch(pair[1])))
    otherwise = _branch(members["else"]) if "else" in members else FixedNeed(ALONE)
    return NeedsByCase(tuple(branches), otherwise)


def _branch(value: object) -> Branch:
    if isinstance(value, str):
        return FixedNeed(needs_of_text(value))
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ModelError(f"a need is a text such as 'volume 5', or {_FORM}, not {shown(value)}")
    ((kind, number),) = value.items()
    for known in KINDS:
        if kind == known:
            return CalculatedNeed(known, _number(number), f"{kind} {number}")
    raise ModelError(f"a need is {', '.join(KINDS)}, not {shown(kind)}")


def _filter(value: object) -> Filter:
    if not isinstance(value, str | bool | Mapping):
        raise ModelError(f"the filter of a branch is CQL2, not {shown(value)}")
    try:
        found = parse(value)
    except LanguageError as error:
        raise ModelError(str(error)) from None
    _check(found)
    return found


def _number(value: object) -> Node:
    """Return the expression of a number, as text, JSON or the number itself."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Mapping):
        raise ModelError(f"a number is calculated by a CQL2 expression, not by {shown(value)}")
    try:
        if isinstance(value, str):
            found = parse(f"{value} >= 0")
        else:
            found = parse({"op": ">=", "args": [value, 0]})
    except LanguageError as error:
        raise ModelError(str(error)) from None
    root = found.root
    if not isinstance(root, Operation) or root.op != ">=" or root.args[1] != 0:
        raise ModelError(f"{shown(value)} is a condition; a number such as 'speed / 10' is needed")
    _check(found)
    return root.args[0]


def _check(found: Filter) -> None:
    if found.counted_subjects:
        raise ModelError("what waits is not decided by counting events: leave count out")
