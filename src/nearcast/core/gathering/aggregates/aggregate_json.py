"""The JSON of an aggregate, and its parts read back: an aggregate may be gathered again.

It holds `people`, `first`, `last`, `count`, `attributes` and `events`. An attribute that is equal
in all parts is said once; numbers that differ become their mean, minimum and maximum; other values
a list of the distinct ones. Each event has the attributes that are not alike, and its payload as
text or base64 if that is not JSON.
"""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Struct

from nearcast.core.gathering.aggregates.mergeable_aggregate import MergeableAggregate
from nearcast.core.gathering.aggregates.parts import Part
from nearcast.core.gathering.needs.rules import MOST_PARTS
from nearcast.core.model.context import Value
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import position_from_json
from nearcast.core.model.payload import is_opaque
from nearcast.core.model.time_text import time_text


def aggregate_json(aggregate: MergeableAggregate) -> dict[str, object]:
    """Return the members of an aggregate, without `events`."""
    return {
        "people": sorted(aggregate.people),
        "first": time_text(aggregate.first),
        "last": time_text(aggregate.last),
        "count": aggregate.count,
        "attributes": aggregate.shown_attributes(),
    }


def events_json(aggregate: MergeableAggregate) -> list[dict[str, object]]:
    """Return the parts, each without the attributes that are equal in all."""
    alike = aggregate.alike()
    return [_event_json(part, alike) for part in aggregate.parts]


def _event_json(part: Part, alike: frozenset[str]) -> dict[str, object]:
    event: dict[str, object] = {"id": part.id}
    if part.publisher:
        event["publisher"] = part.publisher
    event["time"] = time_text(part.time)
    if part.lat is not None and part.lon is not None:
        event["position"] = [part.lon, part.lat]
    attributes = part.attributes()
    own = {name: value for name, value in attributes.items() if name not in alike}
    if own:
        event["attributes"] = own
    if is_opaque(part.payload):
        try:
            event["text"] = part.payload.decode()
        except UnicodeDecodeError:
            event["base64"] = base64.b64encode(part.payload).decode()
    if part.properties:
        event["properties"] = [list(pair) for pair in part.properties]
    return event


class _GivenEvent(Struct):
    """An event of an aggregate, as a client sends it."""

    id: str
    time: datetime
    publisher: str = ""
    position: Any = None
    attributes: dict[str, Any] = {}
    text: str | None = None
    base64: bytes | None = None
    properties: list[tuple[str, str]] = []


class _GivenAggregate(Struct):
    """An aggregate as a client sends it."""

    count: int
    events: list[_GivenEvent]
    attributes: dict[str, Any] = {}


_DECODER = msgspec.json.Decoder(_GivenAggregate)


def parts_from_json(
    payload: bytes, count: int, ingested: float = 0.0, number: int = 0
) -> list[Part]:
    """Return the parts of an aggregate of `count` events; raise `ModelError` if it is not one.

    `number` is the place of the aggregate among all that came.
    """
    try:
        given = _DECODER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"the payload is not an aggregate: {error}") from None
    if not count == given.count == len(given.events):
        raise ModelError(
            f"nc-aggregate is {count}, count is {given.count} and there are {len(given.events)} "
            "events: they must be equal"
        )
    if count > MOST_PARTS:
        raise ModelError(f"an aggregate has at most {MOST_PARTS} parts, not {count}")
    differing = {name for event in given.events for name in event.attributes}
    alike = {name: each for name, each in given.attributes.items() if name not in differing}
    first = number * MOST_PARTS
    return [_part(event, alike, ingested, first + at) for at, event in enumerate(given.events)]


def _part(event: _GivenEvent, alike: Mapping[str, Any], ingested: float, number: int) -> Part:
    position = None if event.position is None else position_from_json(event.position)
    if event.time.tzinfo is None:
        raise ModelError(f"the time of event {event.id!r} has no time zone")
    payload = b""
    if event.text is not None:
        payload = event.text.encode()
    elif event.base64 is not None:
        payload = event.base64
    elif alike or event.attributes:
        payload = msgspec.json.encode(cast("dict[str, Value]", {**alike, **event.attributes}))
    return Part(
        event.id,
        event.publisher,
        event.time.timestamp(),
        ingested,
        None if position is None else position.lat,
        None if position is None else position.lon,
        payload,
        number,
        tuple(event.properties),
    )
