"""Aggregability: when what waits for a subscription leaves (seed E's function G).

`NEED {and NEED} {or …} [per …] [at most N] [wait S]`, a need being `volume N` (different messages),
`time SECONDS` (from the oldest to the newest of them) or `people N` (different publishers). Nothing
is let go: `at most` and `wait` release what waits.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.gathering.needs.needs import Figures, Needs, read_needs
from nearcast.core.gathering.needs.needs_by_case import NeedsByCase, needs_by_case
from nearcast.core.gathering.needs.needs_by_function import NeedsByFunction, needs_by_function
from nearcast.core.gathering.needs.rule_words import RuleWords
from nearcast.core.gathering.needs.rules import MOST_PARTS, Per, PerKind, read_per
from nearcast.core.gathering.needs.thresholds import AT_MOST
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import plain, shown

WAIT_S = 3600.0
_CLAUSES = ("per", "at", "wait")
_KEYWORDS = (*_CLAUSES, "and", "or")
_PER: tuple[PerKind, ...] = ("subject", "place", "cell", "attribute")
_FORM = "such as 'volume 20', 'time 300 or volume 50', 'people 10 per place pub wait 600'"


class Aggregability(Struct, frozen=True):
    """When what waits for a subscription leaves, and what waits together."""

    needs: Needs
    """Without meaning if they depend on the contexts."""
    per: Per = Per()
    at_most: int = AT_MOST
    """So many parts leave whatever is needed."""
    wait_s: float = WAIT_S
    """The longest time that a part waits, by ingest."""
    by_case: NeedsByCase | None = None
    """The needs of each event, if they depend on the contexts."""
    by_function: NeedsByFunction | None = None
    """The same, if a function decides."""

    @property
    def depends_on_contexts(self) -> bool:
        """True if each event has needs of its own, which contexts decide."""
        return self.by_case is not None or self.by_function is not None

    @property
    def is_immediate(self) -> bool:
        """True if every event meets it alone."""
        return not self.depends_on_contexts and self.needs.are_met(Figures(1, 0.0, 1))


def parse_aggregability(text: object) -> Aggregability:
    """Return the aggregability of a text or a JSON object, which may be given as text.

    Raises `ModelError`, which says what would be right.
    """
    text = aggregate_value(text)
    if isinstance(text, Mapping):
        return _by_case(text)
    if not isinstance(text, str) or not text.strip():
        raise ModelError(f"what waits leaves by a text {_FORM}, not {shown(text)}")
    words = RuleWords(text)
    needs = read_needs(words)
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


def aggregate_value(given: object) -> object:
    """Return what was given, as an object if it is the text of a JSON object."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(given)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ModelError(f"this is no JSON: {error}") from None
    return given


def _by_case(members: Mapping[str, object]) -> Aggregability:
    """Return the aggregability of a JSON object."""
    clauses = [f"per {members['per']}"] if "per" in members else []
    if "at most" in members:
        clauses.append(f"at most {members['at most']}")
    if "wait" in members:
        clauses.append(f"wait {members['wait']}")
    rest = parse_aggregability(" ".join(("volume 1", *clauses)))
    needs = {name: each for name, each in members.items() if name not in ("per", "at most", "wait")}
    if "function" in needs:
        return replace(rest, by_function=needs_by_function(needs))
    return replace(rest, by_case=needs_by_case(needs))


def _check(words: RuleWords, needs: Needs, at_most: int) -> None:
    """Refuse a threshold that can never be reached."""
    for all_of in needs.any_of:
        for need in all_of:
            if need.kind != "time" and need.value > at_most:
                raise words.error(
                    f"at most {at_most} parts wait, so there can never be {plain(need.value)}; say "
                    f"at most {plain(need.value)} or more (up to {MOST_PARTS})"
                )
