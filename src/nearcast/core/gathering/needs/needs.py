"""Needs: the numbers that what waits must reach, as `volume 20 and people 3 or time 300`."""

from typing import Literal

from msgspec import Struct

from nearcast.core.gathering.needs.rule_words import RuleWords
from nearcast.core.gathering.needs.rules import KINDS, MOST_PARTS
from nearcast.core.model.geometry.position import plain

NeedKind = Literal["volume", "time", "people"]


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


ALONE = Needs(((Need("volume", 1.0),),))
"""Every event leaves at once."""


def needs_of_text(text: str) -> Needs:
    """Return the needs of a text without clauses, or raise `ModelError`."""
    words = RuleWords(text)
    found = read_needs(words)
    if words.more():
        raise words.error("clauses such as per and wait stand beside case")
    return found


def read_needs(words: RuleWords) -> Needs:
    """Read the needs that a text begins with."""
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
