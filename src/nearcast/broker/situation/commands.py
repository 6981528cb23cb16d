"""Commands: messages to `$` topics about the client itself, places, policies and relationships.

A command becomes one or more engine inputs, in order with all others, so that its acknowledgement
means that it is in force. `$me/publish/…` takes as JSON what MQTT 5 has in properties.
"""

from collections.abc import Callable, Collection

from msgspec import Struct

from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.nc_properties import (
    BAD,
    BAD_JSON,
    LONGEST_NAME,
    area_of,
    filter_of,
    json_object,
)
from nearcast.broker.situation.relationship_command import relationship_of
from nearcast.broker.situation.topic_names import decode_name
from nearcast.core.adaptation.policy_documents import check_key
from nearcast.core.model import Announcement, ModelError
from nearcast.core.model.geometry.forms.area_json import geometry_from_json
from nearcast.core.model.geometry.place_loading import LARGEST_PLACE
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import parse_position, shown
from nearcast.core.model.inputs import (
    Announced,
    AreaUnwatched,
    AreaWatched,
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    PolicySet,
    RelationshipEnded,
    Unannounced,
)
from nearcast.core.model.subject import check_subject
from nearcast.store import Change, standing_change, standing_end
from nearcast.wire.mqtt import Publish, ReasonCode

PLACE = "$place/"
POLICY = "$policy/"
LATER = ("$me/feedback/",)


class ParsedCommand(Struct, frozen=True):
    """The engine inputs of a command, and the changes to store with them."""

    inputs: tuple[Input, ...]
    keep: tuple[Change, ...] = ()
    shows: bool = False
    """The message itself is published as the retained message of its topic."""


def command(session: Session, packet: Publish, protected: Collection[str]) -> ParsedCommand:
    """Return the command in a message to a `$` topic, or raise `RefusedError`.

    The topic of a watched area, or of a relationship, is spelt as when it was first defined.
    Protected attributes carry permissions: only rules set them.
    """
    topic = packet.topic
    for prefix, read in _COMMANDS:
        if topic == prefix or (prefix.endswith("/") and topic.startswith(prefix)):
            try:
                command = read(session, topic[len(prefix) :], packet.payload)
                _check_rights(command, protected)
                return command
            except ModelError as error:
                raise RefusedError(BAD, str(error)) from None
    if is_planned(topic):
        raise RefusedError(ReasonCode.NOT_AUTHORIZED, f"{topic!r} is not available yet")
    raise RefusedError(ReasonCode.NOT_AUTHORIZED, f"{topic!r} is not a topic to publish to")


def _check_rights(command: ParsedCommand, protected: Collection[str]) -> None:
    for value in command.inputs:
        for name in value.patch if isinstance(value, ContextPatched) else ():
            if name in protected:
                why = f"{name!r} carries rights: only rules set it"
                raise RefusedError(ReasonCode.NOT_AUTHORIZED, why)


def is_planned(topic: str) -> bool:
    """Whether a topic or a topic filter is reserved for a planned feature."""
    return f"{topic}/".startswith(LATER)


def place_of(topic: str) -> tuple[str, str] | None:
    """The kind and the name of the place that a topic defines, or None."""
    return _named(topic, PLACE)


def policy_of(topic: str) -> tuple[str, str] | None:
    """The kind and the name of the policy that a topic sets, or None."""
    return _named(topic, POLICY)


def _position(session: Session, rest: str, payload: bytes) -> ParsedCommand:
    text = _text(payload)
    position = parse_position(text) if text.strip() else None
    return ParsedCommand((Moved(session.node, position),))


def _context(session: Session, rest: str, payload: bytes) -> ParsedCommand:
    patch = json_object(payload)
    return ParsedCommand((ContextPatched(session.node, patch),))  # type: ignore[arg-type]  # JSON


def _announcement(session: Session, rest: str, payload: bytes) -> ParsedCommand:
    subject = check_subject(rest)
    if not payload:
        return _standing(Unannounced(session.node, subject))
    members = json_object(payload)
    _only(members, ("to",))
    if "to" not in members:
        raise RefusedError(BAD, 'an announcement needs "to", such as {"to": "circle:me,500"}')
    own = "" if session.client_id == session.node else session.client_id
    value = Announced(Announcement(session.node, subject, area_of(members["to"], '"to"'), own))
    # One that ends with this connection also replaces a stored one of another part, and is itself
    # stored only for a will that may be published after a restart.
    return _standing(value) if session.is_kept else ParsedCommand((value,), (standing_end(value),))


def _place(session: Session, rest: str, payload: bytes) -> ParsedCommand:
    found = place_of(f"{PLACE}{rest}")
    if found is None:
        raise RefusedError(BAD, "a place is $place/KIND/NAME, names in UTF-8 with / as %2F")
    kind, name = found
    if not payload:
        return ParsedCommand((PlaceDefined(kind, name, None),), shows=True)
    members: object = json_object(payload)
    if isinstance(members, dict) and members.get("type") == "Feature":
        members = members.get("geometry")
    geometry = geometry_from_json(members, LARGEST_PLACE)
    # Refuse invalid places before the message is published.
    Places().add(kind, name, geometry)
    return ParsedCommand((PlaceDefined(kind, name, geometry),), shows=True)


def kept_place(value: PlaceDefined) -> ParsedCommand:
    """Return the command that defines or removes a place, with the change to store."""
    return ParsedCommand((value,), (standing_change(value),), True)


def _policy(session: Session, rest: str, payload: bytes) -> ParsedCommand:
    found = policy_of(f"{POLICY}{rest}")
    if found is None:
        raise RefusedError(BAD, "a policy is $policy/KIND/NAME, names in UTF-8 with / as %2F")
    check_key(*found)
    value = PolicySet(*found, _text(payload) if payload else None)
    return ParsedCommand((value,), (standing_change(value),), True)


def _area(session: Session, rest: str, payload: bytes) -> ParsedCommand:
    name = _checked_name(rest)
    if not payload:
        return _standing(AreaUnwatched(name))
    members = json_object(payload)
    _only(members, ("area", "nodes"))
    if "area" not in members:
        raise RefusedError(BAD, 'a watched area needs "area", such as "circle:53.35,-6.26,200"')
    where = None if members.get("nodes") is None else filter_of(members["nodes"], '"nodes"')
    if where is not None and where.counted_subjects:
        raise RefusedError(BAD, '"nodes" is about nodes: it cannot count events')
    return _standing(AreaWatched(name, session.node, area_of(members["area"], '"area"'), where))


def _relationship(session: Session, rest: str, payload: bytes) -> ParsedCommand:
    name = _checked_name(rest)
    if not payload:
        return _standing(RelationshipEnded(name))
    return _standing(relationship_of(name, session.node, json_object(payload)))


def _checked_name(name: str) -> str:
    """The name of an area or a relationship, below its prefix."""
    if len(check_subject(name)) > LONGEST_NAME:
        raise RefusedError(BAD, f"a name has at most {LONGEST_NAME} characters")
    return name


def _standing(value: Input) -> ParsedCommand:
    """Return a command that stays in force until it is ended, or that ends one."""
    return ParsedCommand((value,), (standing_change(value),))


_COMMANDS: tuple[tuple[str, Callable[[Session, str, bytes], ParsedCommand]], ...] = (
    ("$me/position", _position),
    ("$me/context", _context),
    ("$me/announcements/", _announcement),
    (PLACE, _place),
    (POLICY, _policy),
    ("$area/", _area),
    ("$relate/", _relationship),
)


def _named(topic: str, prefix: str) -> tuple[str, str] | None:
    """The kind and the name in `PREFIX KIND/NAME`, or None."""
    levels = topic.removeprefix(prefix).split("/")
    if not topic.startswith(prefix) or len(levels) != 2:
        return None
    kind, name = map(decode_name, levels)
    return None if kind is None or name is None else (kind, name)


def _only(members: dict[str, object], known: tuple[str, ...]) -> None:
    for name in members:
        if name not in known:
            raise RefusedError(BAD, f"unknown {shown(name)}; there are {', '.join(known)}")


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise RefusedError(BAD_JSON, "this is no text") from None
