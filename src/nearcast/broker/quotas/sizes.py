"""Sizes of what clients leave in the broker, as quotas count them.

They are estimates of memory, and depend on the value alone: what is counted for it when it is put
in force is released when it ends.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from nearcast.core.language import Filter
from nearcast.core.language.ast import LOGICAL, Geometry, Operation, walk
from nearcast.core.language.limits import vertex_count
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Area, area_vertices
from nearcast.wire.mqtt import Will

LIVE_OVERHEAD_BYTES = 1_000
"""Estimated memory of a live event beyond its texts: the event, its keys and its index."""
ATTRIBUTE_FACTOR = 4
"""Estimated memory of parsed attributes, as a multiple of their JSON."""
WILL_OVERHEAD_BYTES = 500


class SubscriptionSize(Struct, frozen=True, gc=False):
    """The size of a subscription."""

    filter_bytes: int = 0
    atoms: int = 0
    vertices: int = 0


def subscription_size(
    topic_filter: str,
    texts: tuple[tuple[str, str], ...],
    where: Filter | None,
    area: Area | None,
) -> SubscriptionSize:
    """Return the size of a subscription: `texts` are its properties as given."""
    size = len(topic_filter.encode())
    if not texts:
        return SubscriptionSize(size)
    size += sum(len(name.encode()) + len(value.encode()) for name, value in texts)
    atoms, vertices = 0, 0 if area is None else area_vertices(area)
    for node, _ in () if where is None else walk(where.root):
        if isinstance(node, Operation) and node.op not in LOGICAL:
            atoms += 1
        elif isinstance(node, Geometry):
            vertices += vertex_count(node)
    return SubscriptionSize(size, atoms, vertices)


def live_bytes(subject: str, payload: bytes, headers: bytes, *, is_parsed: bool) -> int:
    """Return the size of a live event; `is_parsed`: its payload has attributes."""
    factor = 1 + ATTRIBUTE_FACTOR if is_parsed else 1
    return LIVE_OVERHEAD_BYTES + 2 * len(subject) + len(headers) + factor * len(payload)


def event_bytes(event: Event) -> int:
    """Return the size of a live event."""
    return live_bytes(event.subject, event.payload, event.headers, is_parsed=bool(event.attributes))


def will_bytes(will: Will | None) -> int:
    """Return the size of a will; 0 for none."""
    if will is None:
        return 0
    properties = sum(len(name) + len(text) for name, text in will.properties.user_properties)
    return WILL_OVERHEAD_BYTES + len(will.topic) + len(will.payload) + properties


def context_bytes(attributes: Mapping[str, object]) -> int:
    """Return the size of a context as JSON; 0 if it is empty."""
    return len(msgspec.json.encode(attributes)) if attributes else 0
