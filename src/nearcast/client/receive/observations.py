"""Messages of the broker about nodes, areas and relationships, as values."""

from datetime import datetime
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from nearcast.client.receive.received import Received, time_of
from nearcast.core.model import ModelError, Position, parse_position, position_from_json
from nearcast.core.model.context import Value

POSITION, CONTEXT, ONLINE = "position", "context", "online"


class Known(Struct, frozen=True):
    """What is known of a node, as far as the reader may see it."""

    node: str
    position: Position | None = None
    context: dict[str, Value] = {}
    """Its other attributes."""
    online: bool | None = None
    """None if the reader may not see it."""


class Present(Known, frozen=True):
    """A node in a node list: its state, and its distance if requested."""

    distance_m: float | None = None
    time: datetime | None = None
    """The time of its position."""


class NodeListPage(Struct, frozen=True):
    """A page of a node list."""

    nodes: list[Present]
    cursor: str | None
    """The cursor of the next page; None if there are no more."""


class Sighting(Struct, frozen=True):
    """A node that entered or left a watched area."""

    state: Literal["in", "out"]
    node: str
    time: datetime | None = None


class Relation(Struct, frozen=True):
    """The state of a relationship between nodes."""

    state: Literal["near", "apart"]
    members: tuple[str, ...] = ()
    """Empty if it ended."""
    distance: float | None = None
    """Metres, or what the relationship compares; None if a member that is needed is unknown."""
    time: datetime | None = None
    by: str | None = None
    """The member by whose metres it is so, if each has its own."""
    ended: bool = False
    """It is no longer kept."""


def node_topic(node: str, what: str) -> str:
    """Return the topic of the broker for a node."""
    return f"$node/{quote(node, safe='')}/{what}"


def known_with(known: Known, event: Received) -> Known:
    """Return the state of a node, updated by a message about it."""
    what = event.subject.rpartition("/")[2]
    if what == POSITION:
        return msgspec.structs.replace(known, position=_position(event.payload))
    if what == ONLINE:
        return msgspec.structs.replace(known, online=event.payload == b"true")
    if what != CONTEXT:
        return known
    context = dict(event.attributes)
    at = context.pop(POSITION, None)
    try:
        where = known.position if at is None else position_from_json(at)
    except ModelError:
        where = known.position
    return msgspec.structs.replace(known, position=where, context=context)


def node_page_of(event: Received, mark: str) -> NodeListPage | None:
    """Return the answer to a query; None if the message answers another one."""
    members = event.attributes
    nodes, cursor = members.get("nodes"), members.get("next")
    if members.get("id") != mark or not isinstance(nodes, list):
        return None
    found = [_present(each) for each in nodes if isinstance(each, dict)]
    return NodeListPage(found, cursor if isinstance(cursor, str) else None)


def _present(members: dict[str, Value]) -> Present:
    at, context, distance = (members.get(name) for name in ("position", "context", "distance"))
    online = members.get("online")
    return Present(
        str(members.get("node")),
        None if at is None else position_from_json(at),
        context if isinstance(context, dict) else {},
        online if isinstance(online, bool) else None,
        float(distance) if isinstance(distance, int | float) else None,
        time_of(members.get("time")),
    )


def sighting_of(event: Received) -> Sighting | None:
    """Return the node that entered or left; None if the message is not valid."""
    members = event.attributes
    state, node = members.get("state"), members.get("node")
    if state not in ("in", "out") or not isinstance(node, str):
        return None
    return Sighting("in" if state == "in" else "out", node, time_of(members.get("time")))


def relation_of(event: Received) -> Relation | None:
    """Return the state of a relationship; None if the message is not valid."""
    told = event.attributes
    state, by, members = told.get("state"), told.get("by"), told.get("members")
    if state not in ("near", "apart"):
        return None
    distance = told.get("distance")
    return Relation(
        "near" if state == "near" else "apart",
        tuple(map(str, members)) if isinstance(members, list) else (),
        float(distance) if isinstance(distance, int | float) else None,
        time_of(told.get("time")),
        by if isinstance(by, str) else None,
        told.get("ended") is True,
    )


def _position(payload: bytes) -> Position | None:
    try:
        return parse_position(payload.decode()) if payload else None
    except (ModelError, UnicodeDecodeError):
        return None
