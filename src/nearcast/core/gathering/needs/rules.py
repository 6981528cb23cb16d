"""Rules of gathering as an operator writes them, such as `people 10 per place pub`.

A threshold comes first, then clauses in any order: `per subject`, `per place [KIND]` or `per cell
METRES` sets the grouping, `within SECONDS`, `at most N` and `wait SECONDS` bound the held parts. A
contradictory rule is refused with a suggestion.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from nearcast.core.gathering.cells import LARGEST_M, SMALLEST_M
from nearcast.core.gathering.needs.rule_words import RuleWords
from nearcast.core.gathering.needs.thresholds import (
    AT_MOST,
    GRACE_S,
    WITHIN_S,
    Threshold,
    ThresholdKind,
)
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import plain, shown
from nearcast.core.model.subject import check_pattern

KINDS: tuple[ThresholdKind, ...] = ("volume", "time", "people")
CLAUSES = ("per", "within", "at", "wait")
MOST_PARTS = 10_000
_FORM = "such as 'volume 5', 'time 300 per cell 500' or 'people 10 per place pub within 600'"


class Per(Struct, frozen=True):
    """The grouping of events."""

    kind: Literal["subject", "place", "cell", "attribute"] = "subject"
    place_kind: str | None = None
    """Only places of this kind; None: the smallest place of any kind."""
    size_m: float = 0.0
    attribute: str = ""
    """The dotted name of an attribute, in subscriptions."""


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
    words = RuleWords(text)
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


def _per(words: RuleWords) -> Per:
    return read_per(words, ("subject", "place", "cell"), CLAUSES)


PerKind = Literal["subject", "place", "cell", "attribute"]


def read_per(words: RuleWords, kinds: tuple[PerKind, ...], keywords: tuple[str, ...]) -> Per:
    """Read what follows `per`: one of the kinds; names that are keywords must be quoted."""
    kind = words.one_of(kinds, "per is followed by")
    if kind == "attribute":
        name = words.name(keywords)
        if name is None:
            raise words.error("per attribute is followed by the name of an attribute")
        return Per("attribute", attribute=name)
    if kind == "cell":
        size_m = words.amount("per cell needs", "metres", False, LARGEST_M)
        if size_m < SMALLEST_M:
            raise words.error(f"a cell is at least {plain(SMALLEST_M)} m wide")
        return Per("cell", None, size_m)
    if kind == "place":
        return Per("place", words.name(keywords))
    return Per()


def _threshold(
    words: RuleWords,
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
