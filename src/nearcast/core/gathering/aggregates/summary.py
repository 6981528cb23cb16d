"""Summaries: the content of an aggregate, and what it must not reveal.

JSON in the form of all aggregates: `people`, `first`, `last`, `count`, `attributes`, `events`. An
attribute that is equal in all parts stays as it is; numbers that differ become their mean, minimum
and maximum; other values a list of the distinct ones. With a `people` threshold nothing describes
fewer people than that: people are a number, times are whole minutes, only attributes that everybody
has are included, numbers are the mean of people's own means, and there are no events. The position
is the centre of the place or cell; without one, it is the mean of the people's own means, if enough
people have a position.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from nearcast.core.gathering.aggregates.aggregate_json import aggregate_json, events_json
from nearcast.core.gathering.aggregates.mergeable_aggregate import aggregate_of, is_number
from nearcast.core.gathering.aggregates.parts import Aggregate, Part
from nearcast.core.gathering.grouping import SUBJECT
from nearcast.core.gathering.needs.thresholds import Threshold
from nearcast.core.model.context import Value
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.time_text import time_text

LARGEST_EVENTS_BYTES = 256 * 1024
"""Events larger than this are left out of an aggregate; `count` still includes them."""
_MINUTE_S = 60.0


def aggregate(
    pattern: str, group: str, parts: Sequence[Part], threshold: Threshold, middle: Position | None
) -> Aggregate:
    """Return the aggregate of these parts."""
    people = sorted({part.publisher for part in parts})
    first = min(part.time for part in parts)
    last = max(part.time for part in parts)
    place = _place(group)
    if threshold.hides_people:
        all_attributes = [part.attributes() for part in parts]
        first, last = _minute(first), _minute(last)
        payload = {
            "people": len(people),
            "first": time_text(first),
            "last": time_text(last),
            "count": len(parts),
            "attributes": _of_everybody(parts, all_attributes),
        } | place
        at = middle or _position_of_many(parts, int(threshold.value))
    else:
        # The order in which they came counts: brokers differ in their clocks.
        ingested = parts[0].ingested
        whole = aggregate_of(
            [replace(part, ingested=ingested, number=n) for n, part in enumerate(parts)]
        )
        payload = aggregate_json(whole) | place
        events = msgspec.json.encode(events_json(whole))
        if len(events) <= LARGEST_EVENTS_BYTES:
            payload["events"] = msgspec.Raw(events)
        at = middle or (None if whole.position is None else whole.position.mean())
    return Aggregate(
        aggregate_id(pattern, group, parts),
        last,
        len(parts),
        len(people),
        msgspec.json.encode(payload),
        None if at is None else at.lat,
        None if at is None else at.lon,
    )


def aggregate_id(pattern: str, group: str, parts: Iterable[Part]) -> str:
    """Return an id of these parts of this group, independent of their order."""
    names = [pattern, group, *sorted(part.key for part in parts)]
    # As JSON, so that different lists of names are never written alike.
    return hashlib.sha256(msgspec.json.encode(names)).hexdigest()[:32]


def _place(group: str) -> dict[str, object]:
    kind, _, name = group.partition(":")
    return {} if kind == SUBJECT else {kind: name}


def _of_everybody(
    parts: Sequence[Part], all_attributes: Sequence[Mapping[str, Value]]
) -> dict[str, object]:
    """Return attributes of all people together that reveal nothing about one of them."""
    attributes: dict[str, object] = {}
    for name in all_attributes[0]:
        if not all(name in each for each in all_attributes):
            continue
        found = [each[name] for each in all_attributes]
        if len({_canonical(value) for value in found}) == 1:
            attributes[name] = found[0]
        elif len(numbers := _numbers(found)) == len(found):
            attributes[name] = {"mean": _mean(_per_person(parts, numbers))}
    return attributes


def _per_person(parts: Sequence[Part], numbers: Sequence[float]) -> list[float]:
    """Return each person's own mean, so that frequent publishing adds no weight."""
    by_person: dict[str, list[float]] = {}
    for part, value in zip(parts, numbers, strict=True):
        by_person.setdefault(part.publisher, []).append(value)
    return [_mean(values) for _, values in sorted(by_person.items())]


def _position_of_many(parts: Sequence[Part], least: int) -> Position | None:
    by_person: dict[str, list[Position]] = {}
    for part in parts:
        for at in _located([part]):
            by_person.setdefault(part.publisher, []).append(at)
    if len(by_person) < least:
        return None
    means = [_mean_position(found) for _, found in sorted(by_person.items())]
    return _mean_position([at for at in means if at is not None])


def _located(parts: Sequence[Part]) -> list[Position]:
    return [
        Position(part.lat, part.lon)
        for part in parts
        if part.lat is not None and part.lon is not None
    ]


def _mean_position(found: Sequence[Position]) -> Position | None:
    """Return the mean of positions on a sphere, also across the antimeridian."""
    if not found:
        return None
    if len({(at.lat, at.lon) for at in found}) == 1:
        return found[0]
    x = y = z = 0.0
    for at in found:
        phi, lam = math.radians(at.lat), math.radians(at.lon)
        x += math.cos(phi) * math.cos(lam)
        y += math.cos(phi) * math.sin(lam)
        z += math.sin(phi)
    across = math.hypot(x, y)
    if math.hypot(across, z) < 1e-9 * len(found):
        return None
    return Position(math.degrees(math.atan2(z, across)), math.degrees(math.atan2(y, x)))


def _mean(values: Sequence[float]) -> float:
    # Divided first: the sum of large numbers may overflow a double.
    return math.fsum(value / len(values) for value in values)


def _numbers(values: Iterable[Value]) -> list[float]:
    return [value for value in values if is_number(value)]


def _canonical(value: Value) -> bytes:
    """Return the same bytes for equal values: 1 and 1.0 are equal, 1 and true are not."""
    return msgspec.json.encode(float(value) if is_number(value) else value, order="sorted")


def _minute(seconds: float) -> float:
    return seconds // _MINUTE_S * _MINUTE_S
