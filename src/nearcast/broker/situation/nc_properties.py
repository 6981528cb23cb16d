"""`nc-` properties, and the same in JSON for clients without properties.

Unknown and repeated properties are refused, and so are invalid values: nothing is guessed and
nothing is partly applied.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.broker.ingest.refusal import RefusedError
from nearcast.core.excerpts import reason
from nearcast.core.gathering.needs.aggregability import aggregate_value, parse_aggregability
from nearcast.core.language import Filter, LanguageError, parse
from nearcast.core.language.evaluation.instants import read_timestamp
from nearcast.core.model import Area, Box, ModelError, area_text, parse_area
from nearcast.core.model.event import Relevance
from nearcast.core.model.geometry.position import (
    Position,
    parse_number,
    parse_position,
    position_from_json,
    shown,
)
from nearcast.core.model.people_bounds import LEAST, MOST
from nearcast.placement.errors import ScriptError
from nearcast.placement.source import check_source
from nearcast.wire.encoding.content_codings import ACCEPT, Coding, accepted_codings
from nearcast.wire.mqtt import ReasonCode
from nearcast.wire.mqtt.properties import PropertyPairs
from nearcast.wire.peer_frames import split_offer

PREFIX = "nc-"
PEER = "nc-p2p"
BRIDGE = "nearcast-bridge"
"""Without the prefix, since brokers of earlier releases refuse properties that they do not know."""
AT_CONNECT = (ACCEPT, PEER)
"""Properties that a CONNECT may have."""
LONGEST_NAME = 200
_MOST_DIGITS = 15
"""Of a priority: Python refuses to read numbers of several thousand."""
T = TypeVar("T")
BAD = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
BAD_JSON = ReasonCode.PAYLOAD_FORMAT_INVALID


class EventOptions(Struct, frozen=True):
    """Options of an event beside subject and payload."""

    at: Position | None = None
    to: Area | None = None
    valid_s: float | None = None
    object: str | None = None
    priority: int | None = None
    deadline_s: float | None = None
    time: float | None = None
    id: str | None = None
    aggregate: int = 0
    """How many events are gathered in its payload."""
    people: int = 0
    """The smallest number of people of whom anybody may hear together."""
    base_set: str = ""
    """How such events are divided, and when they go out."""
    person: str = ""
    """The user that counts as the person, where there are users, or the bridge."""
    raises: bool = False
    """Its priority may raise the computed one: its publisher has the right to."""

    @property
    def stays(self) -> bool:
        """Whether it makes an event live, or ends a live one."""
        return self.valid_s is not None or self.object is not None


class SubscriptionOptions(Struct, frozen=True):
    """Options of a subscription beside its topic filter."""

    where: Filter | None = None
    from_: Area | None = None
    meta: bool = False
    quiet: bool = False
    """Deliveries have no metadata."""
    texts: tuple[tuple[str, str], ...] = ()
    """The options as written, to be stored."""
    template: str = ""
    """The name of the template whose filter it takes."""
    relevance_given: object = None
    """Relevance as given, until it is resolved against the filter and the policies."""
    relevance: Relevance | None = None
    aggregate: object = None
    """When what waits for it leaves, as it was given; it was checked."""

    @property
    def is_situated(self) -> bool:
        """Whether what it means depends on what is in force."""
        conditions = (self.where, self.from_, self.relevance_given, self.template or None)
        return any(each is not None for each in conditions)


class NamedSubscriptionOptions(Struct, frozen=True):
    """A subscription in JSON."""

    subject: str
    options: SubscriptionOptions
    qos: int = 0
    no_local: bool = False
    envelope: bool = False


NO_EVENT_OPTIONS = EventOptions()


def ours(pairs: PropertyPairs) -> dict[str, str]:
    """Return the `nc-` properties among user properties; refuse a repeated one."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name.startswith(PREFIX):
            if name in found:
                raise RefusedError(BAD, f"{name} is given twice; once is enough")
            found[name] = value
    return found


def check_connect(pairs: PropertyPairs) -> None:
    """Refuse unknown `nc-` properties of a CONNECT."""
    found = ours(pairs)
    for name in found:
        if name not in AT_CONNECT:
            raise RefusedError(
                BAD, f"{name} is not known in CONNECT; {' and '.join(AT_CONNECT)} are"
            )
    if PEER in found:
        try:
            split_offer(found[PEER])
        except ValueError as error:
            raise RefusedError(BAD, f"{PEER}: {error}") from None


def peer_at_connect(pairs: PropertyPairs) -> str | None:
    """Return the host and port at which a client offers to pass messages on."""
    return dict(pairs).get(PEER)


def is_bridge_at_connect(pairs: PropertyPairs) -> bool:
    """Return whether a client says that it speaks for the clients of another broker."""
    return BRIDGE in dict(pairs)


def codings_at_connect(pairs: PropertyPairs) -> Coding:
    """Return the codings of payloads that a CONNECT accepts."""
    return accepted_codings(dict(pairs).get(ACCEPT, ""))


def event_options(pairs: PropertyPairs) -> EventOptions:
    """Return the options of an event from user properties."""
    found = ours(pairs)
    if not found:
        return NO_EVENT_OPTIONS
    return _event_options({name[len(PREFIX) :]: value for name, value in found.items()}, PREFIX)


def event_options_from_json(payload: bytes) -> tuple[EventOptions, bytes]:
    """Return the options of an event from a JSON message, and the event's payload."""
    members = json_object(payload)
    parts = [name for name in _BODIES if name in members]
    if len(parts) > 1:
        raise RefusedError(BAD, f"{' and '.join(parts)} are given; an event has one payload")
    body = b""
    if parts:
        body = _body(parts[0], members.pop(parts[0]), payload)
    return _event_options(members, ""), body


def event_options_from_members(options: bytes) -> EventOptions:
    """Return the options of an event from a JSON object of nothing else."""
    return _event_options(json_object(options), "")


def subscription_options(pairs: PropertyPairs) -> SubscriptionOptions:
    """Return the options of a subscription from user properties."""
    found = ours(pairs)
    if not found:
        return SubscriptionOptions()
    return _subscription_options(
        {name[len(PREFIX) :]: value for name, value in found.items()}, PREFIX
    )


def subscription_options_from_texts(texts: PropertyPairs) -> SubscriptionOptions:
    """Return the options of a stored subscription."""
    # Earlier releases stored a number as written: 1.0.
    members = {name: text.removesuffix(".0") if name == "meta" else text for name, text in texts}
    if members.get("from", "").lstrip().startswith("{"):
        # And a box as JSON, latitudes first. Not imported at the top: the command line parses
        # properties too, without the store.
        from nearcast.store import area_from_store

        members["from"] = area_text(area_from_store(msgspec.json.decode(members["from"])))
    stored, roles = members.pop("filter", ""), members.pop("roles", "")
    relevance = None
    if (levels := members.get("relevance")) is not None:
        numbers = levels.removeprefix("levels:").split(",")
        relevance = Relevance(tuple(map(int, numbers)), roles)
    found = _subscription_options(members, "")
    where = found.where
    if stored:
        from nearcast.store.rows.row_json import filter_from_json

        where = filter_from_json(msgspec.json.decode(stored))
    return replace(found, where=where, relevance=relevance, relevance_given=None, texts=texts)


def named_subscription_from_json(payload: bytes) -> NamedSubscriptionOptions:
    """Return the subscription that a JSON message describes."""
    members = json_object(payload)
    subject = members.pop("subject", None)
    if not isinstance(subject, str) or not subject:
        raise RefusedError(BAD, 'a subscription needs a "subject", such as "traffic/#"')
    qos = members.pop("qos", 0)
    # In Python 1.0 and True equal 1.
    if type(qos) is not int or qos not in (0, 1, 2):
        raise RefusedError(BAD, f'"qos" is 0, 1 or 2, not {shown(qos)}')
    no_local = _flag(members, "no_local")
    envelope = _flag(members, "envelope")
    return NamedSubscriptionOptions(
        subject, _subscription_options(members, ""), qos, no_local, envelope
    )


def json_object(payload: bytes) -> dict[str, object]:
    """Return the members of a JSON object, or raise `RefusedError`."""
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(BAD_JSON, f"this is no JSON: {reason(error)}") from None
    if not isinstance(value, dict):
        raise RefusedError(BAD_JSON, f"a JSON object is needed, not {shown(value)}")
    return value


def area_of(value: object, what: str) -> Area:
    """Return the area that a text or a JSON object describes."""
    if not isinstance(value, str | Mapping):
        raise RefusedError(BAD, f"{what} is an area such as circle:me,500, not {shown(value)}")
    return _meant(lambda: parse_area(value), what)


def filter_of(value: object, what: str) -> Filter:
    """Return the filter that a text or a JSON object describes."""
    if not isinstance(value, str | Mapping):
        raise RefusedError(BAD, f"{what} is a filter such as speed > 50, not {shown(value)}")
    return _meant(lambda: parse(value), what)


def _event_options(members: Mapping[str, object], prefix: str) -> EventOptions:
    found: dict[str, object] = {}
    for name, value in members.items():
        reader = _EVENT_WORDS.get(name)
        if reader is None:
            beside = () if prefix else _BODIES
            raise RefusedError(BAD, _unknown(prefix + name, (*_EVENT_WORDS, *beside), prefix))
        field, read = reader
        found[field] = read(value, prefix + name)
    return EventOptions(**found)  # type: ignore[arg-type]  # each read by its own reader


def _subscription_options(members: Mapping[str, object], prefix: str) -> SubscriptionOptions:
    where = from_ = relevance = aggregate = None
    quiet, template = False, ""
    for name, value in members.items():
        label = prefix + name
        if name == "where" and isinstance(value, str) and value.lstrip().startswith(TEMPLATE):
            template = value.strip().removeprefix(TEMPLATE)
        elif name == "where":
            where = filter_of(value, label)
        elif name == "relevance":
            if value is None:
                raise RefusedError(BAD, f"{label} is a vector such as '1,0.5', not null")
            relevance = value
        elif name == "from":
            from_ = area_of(value, label)
        elif name == "meta":
            if type(value) not in (str, int, bool) or value not in ("0", "1", True, False):
                raise RefusedError(BAD, f"{label} is 0 or 1, not {shown(value)}")
            quiet = value in ("0", False)
        elif name == "aggregate":
            aggregate = _aggregate(value, label)
        elif name in LATER:
            raise RefusedError(BAD, f"{label} is not available yet")
        else:
            known = ("where", "from", "relevance", "aggregate", "meta") if prefix else _NAMED_WORDS
            later = ", ".join(prefix + each for each in LATER)
            why = f"{_unknown(label, known, prefix)}; {later} is not available yet"
            raise RefusedError(BAD, why)
    kept = dict(members)
    if isinstance(from_, Box):
        # As text, where the order of the numbers was the same in all releases.
        kept["from"] = area_text(from_)
    texts = tuple((name, _text(value)) for name, value in kept.items())
    meta = bool(members) and not quiet
    return SubscriptionOptions(
        where, from_, meta, quiet, texts, template, relevance, aggregate=aggregate
    )


LATER = ("detail",)
TEMPLATE = "template:"
_NAMED_WORDS = (
    "subject", "where", "from", "relevance", "aggregate", "qos", "no_local", "envelope", "meta",
)  # fmt: skip
_BODIES = ("payload", "text", "base64")


def _aggregate(value: object, what: str) -> object:
    found = _meant(lambda: parse_aggregability(value), what)
    if found.by_function is not None:
        try:
            check_source(found.by_function.source)
        except ScriptError as error:
            raise RefusedError(BAD, f"{what}: function: {error}") from None
    return aggregate_value(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, bool) else json.dumps(value)


def _at(value: object, what: str) -> Position:
    if isinstance(value, str):
        return _meant(lambda: parse_position(value), what)
    return _meant(lambda: position_from_json(value), what)


def _seconds(value: object, what: str) -> float:
    number = _number(value, what)
    if number < 0.0:
        raise RefusedError(BAD, f"{what} is {number:g} seconds; it cannot be negative")
    return number


def _deadline(value: object, what: str) -> float:
    number = _seconds(value, what)
    if not number:
        raise RefusedError(BAD, f"{what} is 0 seconds; it must be more")
    return number


def _number(value: object, what: str) -> float:
    if isinstance(value, str):
        try:
            value = parse_number(value, what)
        except ModelError:
            raise RefusedError(BAD, f"{what} is a number, not {shown(value)}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise RefusedError(BAD, f"{what} is a number, not {shown(value)}")
    return float(value)


def _priority(value: object, what: str) -> int:
    is_text = isinstance(value, str)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        # However large it is: beyond the levels that there are it is the lowest.
        value, is_text = int(value.lstrip("0")[:_MOST_DIGITS] or "0"), False
    number = _number(value, what)
    if is_text or number != int(number) or number < 1:
        raise RefusedError(BAD, f"{what} is a whole number from 1, not {shown(value)}")
    return int(number)


def _people(value: object, what: str) -> int:
    number = _number(value, what)
    if number != int(number) or not LEAST <= number <= MOST:
        why = f"{what} is a number of people from {LEAST} to {MOST}, not {shown(value)}"
        raise RefusedError(BAD, why)
    return int(number)


def _count(value: object, what: str) -> int:
    number = _number(value, what)
    if number != int(number) or number < 1:
        raise RefusedError(BAD, f"{what} is a number of events from 1, not {shown(value)}")
    return int(number)


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or "\0" in value:
        raise RefusedError(BAD, f"{what} is text of 1 to {LONGEST_NAME} characters")
    return value


def _time(value: object, what: str) -> float:
    if isinstance(value, str):
        try:
            # It must be a valid time in UTC as well, or it could not be delivered.
            return read_timestamp(value).timestamp()
        except ValueError:
            pass
    raise RefusedError(BAD, f"{what} is a time such as 2026-11-15T14:30:00Z, not {shown(value)}")


_EVENT_WORDS: dict[str, tuple[str, Callable[[object, str], object]]] = {
    "at": ("at", _at),
    "to": ("to", area_of),
    "valid": ("valid_s", _seconds),
    "object": ("object", _name),
    "priority": ("priority", _priority),
    "deadline": ("deadline_s", _deadline),
    "time": ("time", _time),
    "aggregate": ("aggregate", _count),
    "people": ("people", _people),
    "id": ("id", _name),
}


def _body(name: str, value: object, message: bytes) -> bytes:
    if name == "payload":
        # The bytes as written: numbers keep their digits, members their order.
        return bytes(msgspec.json.decode(message, type=dict[str, msgspec.Raw])[name])
    if not isinstance(value, str):
        raise RefusedError(BAD, f'"{name}" is text, not {shown(value)}')
    if name == "text":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise RefusedError(BAD, '"base64" is not base64') from None


def _flag(members: dict[str, object], name: str) -> bool:
    value = members.pop(name, False)
    if not isinstance(value, bool):
        raise RefusedError(BAD, f'"{name}" is true or false, not {shown(value)}')
    return value


def _meant(read: Callable[[], T], what: str) -> T:
    try:
        return read()
    except (ModelError, LanguageError) as error:
        raise RefusedError(BAD, f"{what}: {error}") from None


def _unknown(name: str, known: Sequence[str] | Mapping[str, object], prefix: str) -> str:
    return f"unknown {shown(name)}; there are {', '.join(prefix + each for each in known)}"
