"""Rules of gathering as an operator writes them, such as `people 10 per place pub`.

A threshold comes first, then clauses in any order: `per subject`, `per place [KIND]` or `per cell
METRES` sets the grouping, `within SECONDS`, `at most N` and `wait SECONDS` bound the held parts. A
contradictory rule is refused with a suggestion.
"""

import re
from collections.abc import Mapping
from typing import Literal, TypeVar

from msgspec import Struct

from nearcast.core.gathering.cells import LARGEST_M, SMALLEST_M
from nearcast.core.gathering.thresholds import AT_MOST, GRACE_S, WITHIN_S, Threshold, ThresholdKind
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.position import parse_number, plain, shown
from nearcast.core.model.subject import check_pattern

KINDS: tuple[ThresholdKind, ...] = ("volume", "time", "people")
CLAUSES = ("per", "within", "at", "wait")
MOST_PARTS = 10_000
LONGEST_S = 7 * 86_400.0
_TOKEN = re.compile(r"'([^']*)'|(\S+)")
W = TypeVar("W", bound=str)
_FORM = "such as 'volume 5', 'time 300 per cell 500' or 'people 10 per place pub within 600'"


class Per(Struct, frozen=True):
    """The grouping of events."""

    kind: Literal["subject", "place", "cell"] = "subject"
    place_kind: str | None = None
    """Only places of this kind; None: the smallest place of any kind."""
    size_m: float = 0.0


class GatheringRule(Struct, frozen=True):
    """The events that are gathered, their grouping and their threshold."""

    pattern: str
    threshold: Threshold
    per: Per = Per()


def parse_rules(
    texts: Mapping[str, object], where: str = "aggregates"
) -> tuple[GatheringRule, ...]:
    """Return the rules of a table from subject patterns to texts, or raise `ModelError`."""
    rules = []
    for pattern, text in texts.items():
        try:
            rules.append(parse_rule(pattern, text))
        except ModelError as error:
            raise ModelError(f'[{where}] "{pattern}": {error}') from None
    return tuple(rules)


def parse_rule(pattern: str, text: object) -> GatheringRule:
    """Return the rule of a text, or raise `ModelError` with a suggestion."""
    check_pattern(pattern)
    if not isinstance(text, str) or not text.strip():
        raise ModelError(f"a rule is text {_FORM}, not {shown(text)}")
    words = _Words(text)
    kind = words.one_of(KINDS, "a rule begins with")
    if kind == "time":
        value = words.amount("time needs", "seconds")
    else:
        value = words.amount(f"{kind} needs", "a whole number", True, MOST_PARTS)
    per, at_most = Per(), AT_MOST
    within_s: float | None = None
    wait_s: float | None = None
    seen: set[str] = set()
    while words.more():
        clause = words.one_of(CLAUSES, "after the threshold comes")
        if clause in seen:
            raise words.error(f"{clause} is said twice")
        seen.add(clause)
        if clause == "per":
            per = _per(words)
        elif clause == "within":
            within_s = words.amount("within needs", "seconds")
        elif clause == "wait":
            wait_s = words.amount("wait needs", "seconds")
        else:
            words.one_of(("most",), "at is followed by")
            at_most = int(words.amount("at most needs", "a number of parts", True, MOST_PARTS))
    return GatheringRule(pattern, _threshold(words, kind, value, within_s, at_most, wait_s), per)


def _per(words: "_Words") -> Per:
    kind = words.one_of(("subject", "place", "cell"), "per is followed by")
    if kind == "cell":
        size_m = words.amount("per cell needs", "metres", False, LARGEST_M)
        if size_m < SMALLEST_M:
            raise words.error(f"a cell is at least {plain(SMALLEST_M)} m wide")
        return Per("cell", None, size_m)
    if kind == "place":
        return Per("place", words.name())
    return Per()


def _threshold(
    words: "_Words",
    kind: ThresholdKind,
    value: float,
    within_s: float | None,
    at_most: int,
    wait_s: float | None,
) -> Threshold:
    if kind == "people" and wait_s is not None:
        raise words.error(
            f"nothing may go out before {plain(value)} people are together: leave wait out"
        )
    if kind != "time" and value > at_most:
        raise words.error(
            f"at most {at_most} parts wait, so there can never be {plain(value)}; say at most "
            f"{plain(value)} or more (up to {MOST_PARTS})"
        )
    span = value if kind == "time" else 0.0
    if within_s is None:
        within_s = max(WITHIN_S, wait_s or span + GRACE_S)
    if within_s < span:
        raise words.error(
            f"parts are let go after {plain(within_s)} s, so they can never span {plain(span)} s; "
            f"say within {plain(span)} or more"
        )
    if wait_s is None and kind == "time":
        wait_s = min(span + GRACE_S, within_s)
    if wait_s is not None and wait_s < span:
        raise words.error(
            f"what waits goes out after {plain(wait_s)} s, so it can never span {plain(span)} s; "
            f"say wait {plain(span)} or more"
        )
    if wait_s is not None and wait_s > within_s:
        raise words.error(
            f"parts are let go after {plain(within_s)} s, so none waits for {plain(wait_s)} s; "
            f"say within {plain(wait_s)} or more"
        )
    return Threshold(kind, value, within_s, at_most, wait_s)


class _Words:
    """The words of a rule, read one by one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = list(_TOKEN.finditer(text))
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._found)

    def error(self, problem: str) -> ModelError:
        return ModelError(f"{shown(self._text)}: {problem}")

    def one_of(self, words: tuple[W, ...], what: str) -> W:
        """Read a word that must be one of these."""
        word = self._next()
        for known in words:
            if word == known:
                return known
        choice = " or ".join(words)
        got = "nothing" if word is None else shown(word)
        raise self.error(f"{what} {choice}, not {got}{did_you_mean(word or '', words)}")

    def amount(self, what: str, unit: str, whole: bool = False, most: float = LONGEST_S) -> float:
        """Read a number above 0."""
        word = self._next()
        if word is None:
            raise self.error(f"{what} {unit}")
        try:
            value = parse_number(word, what)
        except ModelError:
            raise self.error(f"{what} {unit}, not {shown(word)}") from None
        if value <= 0.0 or (whole and value != int(value)):
            raise self.error(f"{what} {unit} above 0, not {shown(word)}")
        if value > most:
            raise self.error(f"{what} {unit} up to {plain(most)}, not {shown(word)}")
        return value

    def name(self) -> str | None:
        """Read a name if there is one; a name that is a keyword must be quoted."""
        if not self.more() or self._found[self._at][2] in CLAUSES:
            return None
        name = self._next()
        if not name:
            raise self.error("the kind of place between the quotes is empty")
        return name

    def _next(self) -> str | None:
        if not self.more():
            return None
        found = self._found[self._at]
        self._at += 1
        return found[1] if found[2] is None else found[2]
