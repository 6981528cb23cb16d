"""The event that goes out for what waited together: an aggregate, or a lone event as it is.

What a subscriber may not see of a publisher is not in it: its name and its position.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from nearcast.core.gathering.aggregates.aggregate_json import aggregate_json, events_json
from nearcast.core.gathering.aggregates.mergeable_aggregate import aggregate_of
from nearcast.core.gathering.aggregates.parts import Part
from nearcast.core.gathering.division import Division
from nearcast.core.gathering.waiting import WaitingEvent, different_parts
from nearcast.core.model.event import Event
from nearcast.core.model.visibility import SEE_ALL, SEE_IDENTITY, SEE_POSITION

Sight = tuple[tuple[str, int], ...]
"""Publishers that are not seen fully, each with what is seen of it."""


def aggregate_event(waiting: Sequence[WaitingEvent], division: Division, sight: Sight) -> Event:
    """Return what goes out for events that waited together."""
    if len(waiting) == 1:
        return waiting[0].event
    masks = dict(sight)
    given = {each.event.id for each in waiting if each.event.at_given or each.event.gathered}
    parts = different_parts(waiting)
    whole = aggregate_of([_seen(part, masks, given) for part in parts])
    payload = aggregate_json(whole) | msgspec.json.decode(division.members, type=dict[str, object])
    payload["events"] = events_json(whole)
    at = division.middle
    if at is None and whole.position is not None:
        at = whole.position.mean()
    first = waiting[0].event
    return Event(
        aggregate_id(first.subject, parts),
        first.subject,
        "",
        whole.last,
        position=at,
        at_given=True,
        payload=msgspec.json.encode(payload),
        qos=max(each.event.qos for each in waiting),
        topic=first.topic,
        gathered=whole.count,
    )


def aggregate_id(subject: str, parts: Iterable[Part]) -> str:
    """Return an id of these parts on this topic, independent of their order."""
    # As JSON, so that different lists of names are never written alike.
    names = msgspec.json.encode([subject, *sorted(part.key for part in parts)])
    return hashlib.sha256(names).hexdigest()[:32]


def _seen(part: Part, masks: Mapping[str, int], given: set[str]) -> Part:
    """Return a part as far as it may be seen; positions that were given with events may."""
    sees = masks.get(part.publisher, SEE_ALL)
    if sees & SEE_POSITION == 0 and part.id not in given:
        part = replace(part, lat=None, lon=None)
    return part if sees & SEE_IDENTITY else replace(part, publisher="")
