"""Aggregability: when what waits for a subscription leaves (seed E's function G).

`NEED {and NEED} {or …} [per …] [at most N] [wait S]`, a need being `volume N` (different messages),
`time SECONDS` (from the oldest to the newest of them) or `people N` (different publishers). Nothing
is let go: `at most` and `wait` release what waits.
"""

from typing import Literal

from msgspec import Struct

from nearcast.core.gathering.rule_words import RuleWords
from nearcast.core.gathering.rules import KINDS, MOST_PARTS, Per, PerKind, read_per
from nearcast.core.gathering.thresholds import AT_MOST
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import plain, shown

WAIT_S = 3600.0
_CLAUSES = ("per", "at", "wait")
_KEYWORDS = (*_CLAUSES, "and", "or")
_PER: tuple[PerKind, ...] = ("subject", "place", "cell", "attribute")
_FORM = "such as 'volume 20', 'time 300 or volume 50', 'people 10 per place pub wait 600'"


class Figures(Struct, frozen=True, gc=False):
    """What counts of the parts that wait together."""

    volume: int
    span_s: float
    people: int

    def of(self, kind: str) -> float:
        """The figure of a kind of need."""
        if kind == "volume":
            return self.volume
        return self.span_s if kind == "time" else self.people


class Need(Struct, frozen=True, gc=False):
    """One number that must be reached."""

    kind: Literal["volume", "time", "people"]
    value: float

    def is_met(self, by: Figures) -> bool:
        """True if the figures reach it."""
        return by.of(self.kind) >= self.value

    @property
    def text(self) -> str:
        """The need as it is written."""
        return f"{self.kind} {plain(self.value)}"


class Needs(Struct, frozen=True, gc=False):
    """Alternatives: any of them, and of that all needs."""

    any_of: tuple[tuple[Need, ...], ...]

    def are_met(self, by: Figures) -> bool:
        """True if the figures reach all needs of an alternative."""
        return any(all(need.is_met(by) for need in all_of) for all_of in self.any_of)

    @property
    def text(self) -> str:
        """The needs as they are written."""
        return " or ".join(" and ".join(need.text for need in all_of) for all_of in self.any_of)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of figures that count, in the order of writing."""
        return tuple(dict.fromkeys(need.kind for all_of in self.any_of for need in all_of))


class Aggregability(Struct, frozen=True):
    """When what waits for a subscription leaves, and what waits together."""

    needs: Needs
    per: Per = Per()
    at_most: int = AT_MOST
    """So many parts leave whatever is needed."""
    wait_s: float = WAIT_S
    """The longest time that a part waits, by ingest."""

    @property
    def is_immediate(self) -> bool:
        """True if every event meets it alone."""
        return self.needs.are_met(Figures(1, 0.0, 1))


def parse_aggregability(text: object) -> Aggregability:
    """Return the aggregability of a text; raise `ModelError` that says what would be right."""
    if not isinstance(text, str) or not text.strip():
        raise ModelError(f"what waits leaves by a text {_FORM}, not {shown(text)}")
    words = RuleWords(text)
    needs = _needs(words)
    per, at_most, wait_s = Per(), AT_MOST, WAIT_S
    seen: set[str] = set()
    while words.more():
        if words.peek() == "within":
            raise words.error("nothing is let go here, so there is no within; say wait SECONDS")
        clause = words.one_of(_CLAUSES, "after the threshold comes")
        if clause in seen:
            raise words.error(f"{clause} is said twice")
        seen.add(clause)
        if clause == "per":
            per = read_per(words, _PER, _KEYWORDS)
        elif clause == "wait":
            wait_s = words.amount("wait needs", "seconds")
        else:
            words.one_of(("most",), "at is followed by")
            at_most = int(words.amount("at most needs", "a number of parts", True, MOST_PARTS))
    _check(words, needs, at_most)
    return Aggregability(needs, per, at_most, wait_s)


def _needs(words: RuleWords) -> Needs:
    any_of: list[tuple[Need, ...]] = []
    all_of = [_need(words)]
    while words.peek() in ("and", "or"):
        if words.one_of(("and", "or"), "needs are joined by") == "or":
            any_of.append(tuple(all_of))
            all_of = []
        all_of.append(_need(words))
    return Needs((*any_of, tuple(all_of)))


def _need(words: RuleWords) -> Need:
    kind = words.one_of(KINDS, "a need begins with")
    if kind == "time":
        return Need(kind, words.amount("time needs", "seconds"))
    return Need(kind, words.amount(f"{kind} needs", "a whole number", True, MOST_PARTS))


def _check(words: RuleWords, needs: Needs, at_most: int) -> None:
    """Refuse a threshold that can never be reached."""
    for all_of in needs.any_of:
        for need in all_of:
            if need.kind != "time" and need.value > at_most:
                raise words.error(
                    f"at most {at_most} parts wait, so there can never be {plain(need.value)}; say "
                    f"at most {plain(need.value)} or more (up to {MOST_PARTS})"
                )
