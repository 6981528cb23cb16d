"""What became of an event that a subscription gathers: it waits, or it left in an aggregate."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.gathering.waiting import WaitingPool, figures_of
from nearcast.core.matching.reference import Verdict, VerdictStep
from nearcast.core.model.event import Event
from nearcast.core.model.time_text import time_text

Gathering = Mapping[str, object]
"""As it is told: `state` and, while it waits, `have`, `need` and `since`."""


def gathered(
    verdict: Verdict, event: Event, engine: Engine, outcome: Outcome
) -> tuple[Verdict, bool]:
    """Return a verdict with what became of its event in a step, and whether it waits now."""
    id_ = verdict.subscription
    for pool in engine.waiting():
        if id_ in pool.subscriptions and (at := _ingested(pool, event)) is not None:
            need = engine.needs(id_, event)
            text = need.text or "what its function has not said yet"
            have = {kind: figures_of(pool).of(kind) for kind in need.kinds}
            so_far = ", ".join(f"{kind} {value:g}" for kind, value in have.items())
            since = time_text(at)
            why = f"waits since {since}: it has {so_far} and needs {text}"
            told = {"state": "waits", "have": have, "need": text, "since": since}
            return _told(verdict, why, told), True
    for copy in outcome.deliveries:
        if id_ in copy.subscriptions and _holds(copy.event, event):
            count = copy.event.gathered or 1
            why = "left by itself" if count == 1 else f"left with others, {count} in all"
            left = {"state": "left", "aggregate": copy.event.id, "count": count}
            return _told(verdict, why, left), False
    return verdict, False


def waits(verdicts: Sequence[Verdict]) -> bool:
    """True if an event waits for some subscription."""
    return any((each.gathering or {}).get("state") == "waits" for each in verdicts)


def _told(verdict: Verdict, why: str, gathering: Gathering) -> Verdict:
    steps = [each for each in verdict.steps if each.step != "gather"]
    return replace(verdict, steps=(*steps, VerdictStep("gather", True, why)), gathering=gathering)


def _ingested(pool: WaitingPool, event: Event) -> float | None:
    """Return since when an event waits in a pool; None if it does not."""
    for each in pool.events:
        if (each.event.publisher, each.event.id) == (event.publisher, event.id):
            return each.ingested
    return None


def _holds(sent: Event, event: Event) -> bool:
    if not sent.gathered:
        return (sent.publisher, sent.id) == (event.publisher, event.id)
    parts = msgspec.json.decode(sent.payload, type=_Parts).events
    # A publisher that may not be seen is not named.
    return any(part.id == event.id and part.publisher in ("", event.publisher) for part in parts)


class _Part(msgspec.Struct):
    id: str
    publisher: str = ""


class _Parts(msgspec.Struct):
    events: list[_Part]
