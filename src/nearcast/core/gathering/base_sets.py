"""Base sets: events of a smallest number of people, which nobody sees one by one (k-anonymity).

Events wait in groups by topic, rule and division. At each multiple of the rule's clock a group of
enough different people becomes a base set, whatever anyone's filter is; each event is in one base
set, and what is shown of it describes all of its people together. What stays below the number for
too long is discarded.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec import Struct

from nearcast.core.gathering.aggregates.exact_sum import ExactSum
from nearcast.core.gathering.aggregates.mergeable_aggregate import is_number
from nearcast.core.gathering.division import Division
from nearcast.core.gathering.needs.rule_words import RuleWords
from nearcast.core.gathering.needs.rules import Per, PerKind, read_per
from nearcast.core.gathering.waiting import WaitingEvent
from nearcast.core.model.context import Value
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.time_text import time_text

EVERY_S, WAIT_S = 60.0, 3600.0
SHORTEST_S = 0.1
MOST_WAITING = 10_000
"""So many events wait in one group; more discard the oldest."""
THROUGH_BRIDGE = "bridge "
"""What the person of an event begins with that came from another broker."""
_CLAUSES = ("per", "every", "wait")
_PER: tuple[PerKind, ...] = ("subject", "place", "cell", "attribute")


class BaseSetRule(Struct, frozen=True):
    """How events of a smallest number of people are divided, and when they go out."""

    per: Per = Per()
    every_s: float = EVERY_S
    wait_s: float = WAIT_S

    def next_tick(self, after: float) -> float:
        """The first tick of the clock after a time."""
        return (math.floor(after / self.every_s) + 1) * self.every_s


@lru_cache(256)
def base_set_rule(text: str) -> BaseSetRule:
    """Return the rule of a text such as `per cell 500 every 60 wait 3600`; raise `ModelError`."""
    words, per, every_s, wait_s = RuleWords(text), Per(), EVERY_S, WAIT_S
    while words.more():
        clause = words.one_of(_CLAUSES, "there is")
        if clause == "per":
            per = read_per(words, _PER, _CLAUSES)
        elif clause == "every":
            every_s = words.amount("every needs", "seconds")
            if every_s < SHORTEST_S:
                raise words.error(f"the clock ticks every {SHORTEST_S:g} s at most")
        else:
            wait_s = words.amount("wait needs", "seconds")
    if wait_s < every_s:
        raise words.error("what waits is discarded before the clock ticks; let wait be longer")
    return BaseSetRule(per, every_s, wait_s)


def check_single(event: Event) -> None:
    """Refuse what would tell of a single event, or let it stay."""
    if event.to is not None:
        raise ModelError("an event with a smallest people has no target: it would single out")
    if event.stays:
        raise ModelError("an event with a smallest people is not retained, valid or an object")


def person_of(event: Event) -> str:
    """Who counts as the person that published an event."""
    return event.person or event.publisher


def counts(person: str) -> bool:
    """Whether somebody counts as a person: a bridge does not.

    Those who speak through it may speak here as well, or be in a base set of this broker that came
    back.
    """
    return not person.startswith(THROUGH_BRIDGE)


def people_in(waiting: Sequence[WaitingEvent]) -> set[str]:
    """Return the different people whose events wait."""
    return {person for each in waiting if counts(person := person_of(each.event))}


def base_set_event(
    waiting: Sequence[WaitingEvent], division: Division, rule: BaseSetRule, tick: float
) -> Event:
    """Return the only event that anybody sees of a base set."""
    people = people_in(waiting)
    first_event = waiting[0].event
    earliest = min(each.ingested for each in waiting)
    payload: dict[str, object] = {
        "people": len(people),
        "first": time_text(math.floor(earliest / rule.every_s) * rule.every_s),
        "last": time_text(tick),
        "count": len(waiting),
        "attributes": _attributes(waiting),
    }
    payload |= msgspec.json.decode(division.members, type=dict[str, object])
    encoded = msgspec.json.encode(payload)
    # What it is made of must not follow from its id: it is that of the clock.
    of = [first_event.subject, division.members, first_event.people, first_event.base_set, tick]
    return Event(
        hashlib.sha256(msgspec.json.encode(of)).hexdigest()[:32],
        first_event.subject,
        "",
        tick,
        attributes_of(encoded),
        division.middle,
        at_given=True,
        payload=encoded,
        qos=max(each.event.qos for each in waiting),
        gathered=len(waiting),
        people=first_event.people,
        persons=tuple(sorted(people)),
    )


def union_event(sets: Sequence[Event], asked: int) -> Event:
    """Return several base sets of a topic as one: whole sets, so counts add and means are weighed.

    `people` is the number asked for: how many are in several sets is told to nobody.
    """
    if len(sets) == 1:
        return sets[0]
    said = [msgspec.json.decode(each.payload, type=dict[str, object]) for each in sets]
    weights = [len(each.persons) for each in sets]
    together = {person for each in sets for person in each.persons}
    least = max(each.people for each in sets)
    payload = {
        "people": asked if least <= asked <= len(together) else least,
        "first": min(str(each["first"]) for each in said),
        "last": max(str(each["last"]) for each in said),
        "count": sum(each.gathered for each in sets),
        "attributes": _joined([_members(each["attributes"]) for each in said], weights),
    }
    last = max(sets, key=lambda each: each.time)
    names = [last.subject, *sorted(each.id for each in sets)]
    return Event(
        hashlib.sha256(msgspec.json.encode(names)).hexdigest()[:32],
        last.subject,
        "",
        last.time,
        payload=msgspec.json.encode(payload),
        qos=max(each.qos for each in sets),
        at_given=True,
        gathered=sum(each.gathered for each in sets),
        people=least,
        persons=tuple(sorted(together)),
    )


def _members(value: object) -> Mapping[str, object]:
    assert isinstance(value, dict)
    return value


def _attributes(waiting: Sequence[WaitingEvent]) -> dict[str, object]:
    """Return attributes of all people together: alike, or a mean in which each counts once."""
    said = [attributes_of(each.event.payload) for each in waiting]
    found: dict[str, object] = {}
    for name in said[0]:
        values = [each[name] for each in said if name in each]
        if len(values) < len(said):
            continue
        if len({_canonical(value) for value in values}) == 1:
            found[name] = values[0]
        elif all(map(is_number, values)):
            by_person: dict[str, list[float]] = {}
            for each, value in zip(waiting, values, strict=True):
                by_person.setdefault(person_of(each.event), []).append(value)  # type: ignore[arg-type]
            found[name] = {"mean": _mean([_mean(own) for own in by_person.values()])}
    return dict(sorted(found.items()))


def _joined(said: Sequence[Mapping[str, object]], weights: Sequence[int]) -> dict[str, object]:
    """Return what sets say together: what all say alike, or a mean weighed by their people."""
    found: dict[str, object] = {}
    for name in said[0]:
        values = [each[name] for each in said if name in each]
        if len(values) < len(said):
            continue
        if all(value == values[0] for value in values):
            found[name] = values[0]
            continue
        means = [value.get("mean") if isinstance(value, dict) else value for value in values]
        if all(isinstance(mean, int | float) and not isinstance(mean, bool) for mean in means):
            weighed = [
                mean for mean, weight in zip(means, weights, strict=True) for _ in range(weight)
            ]
            found[name] = {"mean": _mean(weighed)}  # type: ignore[arg-type]
    return found


def _mean(values: Sequence[float]) -> float:
    total = ExactSum()
    for value in values:
        total += ExactSum.of(value)
    return total.mean(len(values))


def _canonical(value: Value) -> bytes:
    return msgspec.json.encode(float(value) if is_number(value) else value, order="sorted")
