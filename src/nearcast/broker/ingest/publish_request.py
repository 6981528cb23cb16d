"""Parsing and checks of a message: topic, properties, permissions, and limits on live events."""

from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from nearcast.broker.auth.permissions import Permissions
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_usage import SessionUsage
from nearcast.broker.quotas.sizes import event_bytes, live_bytes
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.nc_properties import (
    BAD,
    NO_EVENT_OPTIONS,
    PREFIX,
    EventOptions,
    event_options,
    event_options_from_json,
    event_options_from_members,
)
from nearcast.core.gathering.aggregates.aggregate_json import parts_from_json
from nearcast.core.gathering.base_sets import THROUGH_BRIDGE
from nearcast.core.model.context import Attributes
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.subject import check_subject
from nearcast.placement.worker_messages import PublishedOutput
from nearcast.wire.mqtt import Properties, Publish, ReasonCode, Will, stripped

NC_PREFIX = PREFIX.encode()
PUBLISH_TOPIC = "$me/publish/"
_SHORT_TOPIC, _SHORT_PROPERTIES = 200, 500
"""Up to these lengths no limit can be exceeded, unless the limits are very low."""
_SHORTEST_PAIR = 5
"""The minimum size of a user property in bytes."""
_DROPPED = frozenset((0x02, 0x23))
"""Properties that are not forwarded unchanged: message expiry and topic alias."""
_NO_ATTRIBUTES: Attributes = {}


class PublishRequest(Struct, frozen=True, gc=False):
    """A message to be published."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    headers: bytes = b""
    """The properties to forward."""
    options: EventOptions = NO_EVENT_OPTIONS
    expiry_s: int | None = None

    @property
    def valid_s(self) -> float | None:
        """How long a live event is valid; an empty retained message removes the current one."""
        if self.retain and not self.payload:
            return 0.0
        if self.options.valid_s is not None or not self.retain:
            return self.options.valid_s
        return None if self.expiry_s is None else float(self.expiry_s)

    def event(
        self, session: Session, payload: bytes, name: str, now: float, *, read_attributes: bool
    ) -> Event:
        """Return the event with this payload; the engine completes it."""
        options, valid_s, stays = self.options, None, False
        expires_at = None if self.expiry_s is None else now + self.expiry_s
        if self.retain or options is not NO_EVENT_OPTIONS:
            valid_s = self.valid_s
            stays = self.retain or valid_s is not None or options.object is not None
        # Later subscribers may filter live events by attributes, even if none does now.
        attributes = attributes_of(payload) if stays or read_attributes else _NO_ATTRIBUTES
        node, client_id = session.node, session.client_id
        # Positional, because keywords would take longer than everything else here.
        return Event(
            name if options.id is None else options.id, self.topic, node,
            now if options.time is None else options.time, attributes, options.at,
            options.at is not None, options.to, valid_s, options.object, self.retain,
            options.priority, options.deadline_s, payload, self.qos,
            client_id if client_id != node else "", False, (), None, self.headers, expires_at, "",
            options.raises, 0, options.aggregate, options.people, options.base_set,
            options.person,
        )  # fmt: skip


class PublishChecks:
    """Parses and checks messages; raises `RefusedError` for those not allowed."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        limits = state.limits
        self._short_topic = min(_SHORT_TOPIC, limits.topic_levels - 1, limits.topic_bytes // 4)
        self._short_properties = min(_SHORT_PROPERTIES, _SHORTEST_PAIR * limits.user_properties)

    def properties_of(self, packet: Publish) -> Properties | None:
        """Return the properties of a message, or None if all of them are forwarded unchanged."""
        raw = packet.raw_properties
        if not raw or (
            packet.validate() and NC_PREFIX not in raw and len(raw) <= self._short_properties
        ):
            return None
        return packet.properties

    def unaliased(self, connection: Connection, packet: Publish, alias: int) -> Publish | None:
        """Return the message with its alias resolved; None: a bad alias closed the connection."""
        state = self._state
        if not 0 < alias <= state.limits.topic_aliases:
            why = f"topic alias {alias} is not from 1 to {state.limits.topic_aliases}"
            state.close(connection, ReasonCode.TOPIC_ALIAS_INVALID, why)
            return None
        if connection.aliases_in is None:
            connection.aliases_in = {}
        if packet.topic:
            connection.aliases_in[alias] = packet.topic
            return packet
        topic = connection.aliases_in.get(alias)
        if topic is None:
            why = f"topic alias {alias} was never given a topic"
            state.close(connection, ReasonCode.PROTOCOL_ERROR, why)
            return None
        return Publish(
            topic, packet.payload, packet.qos, packet.retain, packet.dup, packet.packet_id,
            packet.raw_properties,
        )  # fmt: skip

    def request(
        self,
        connection: Connection,
        session: Session,
        packet: Publish,
        properties: Properties | None,
    ) -> PublishRequest:
        """Return the request of a message; one to a `$` topic is only partly checked.

        `properties` is the result of `properties_of`.
        """
        topic, payload, raw = packet.topic, packet.payload, packet.raw_properties
        options, expiry_s = NO_EVENT_OPTIONS, None
        if properties is not None:
            self._check_properties(packet, properties)
            expiry_s = properties.message_expiry_interval
            if NC_PREFIX in raw:
                options = event_options(properties.user_properties)
            if NC_PREFIX in raw or expiry_s is not None or properties.topic_alias:
                raw = stripped(raw, _DROPPED, PREFIX)
        if topic[0] == "$":
            if not topic.startswith(PUBLISH_TOPIC):
                return PublishRequest(topic, payload, packet.qos, packet.retain, raw)
            topic, payload, options = _published_as(topic, payload, options)
        if options.priority is not None and self._may_raise(session):
            options = replace(options, raises=True)
        if options.people or self._state.people_rules:
            options = self._hidden(session, topic, options, stays=packet.retain)
        request = PublishRequest(topic, payload, packet.qos, packet.retain, raw, options, expiry_s)
        if options.aggregate:
            check_aggregate(request)
        if len(topic) > self._short_topic or topic[0] == "$":
            self._check_topic(topic)
        if not connection.permissions.unrestricted:
            self.check_rights(connection, request)
        if packet.retain or options is not NO_EVENT_OPTIONS:
            self.check_room(session, request)
        return request

    def _may_raise(self, session: Session) -> bool:
        """Whether the priority that a client gives its event may raise the computed one."""
        user = None if session.owner is None else session.owner.user
        patterns = self._state.raising_users
        return user is not None and any(fnmatchcase(user, pattern) for pattern in patterns)

    def hidden(self, session: Session, request: PublishRequest) -> PublishRequest:
        """Return a request with the smallest people of its topic."""
        options = request.options
        if options.people or self._state.people_rules:
            options = self._hidden(session, request.topic, options, stays=request.retain)
        return replace(request, options=options)

    def _hidden(
        self, session: Session, topic: str, options: EventOptions, *, stays: bool
    ) -> EventOptions:
        """Return options with the smallest people of a topic, and who counts as the person.

        Refuses what would tell of a single event.
        """
        hidden = with_smallest_people(self._state, topic, options, stays=stays)
        if not hidden.people:
            return hidden
        if session.connection is not None and session.connection.is_bridge:
            return replace(hidden, person=f"{THROUGH_BRIDGE}{session.client_id}")
        if not self._state.has_users:
            return hidden
        user = None if session.owner is None else session.owner.user
        # All anonymous clients are one user.
        return replace(hidden, person="anonymous" if user is None else f"user {user}")

    def check_rights(self, connection: Connection, request: PublishRequest) -> None:
        """Refuse what a rule forbids; rules treat all live events as retained."""
        self._check_rights(connection.permissions, request)

    def _check_rights(self, permissions: Permissions, request: PublishRequest) -> None:
        stays = request.retain or request.options.stays
        if not permissions.may_publish(request.topic, request.qos, stays):
            why = f"a rule forbids publishing to {request.topic!r}"
            raise RefusedError(ReasonCode.NOT_AUTHORIZED, why)

    def check_place(self, connection: Connection, kind: str, name: str) -> None:
        """Refuse changes to a place that a rule names, unless the client is permitted."""
        if not connection.permissions.may_change_place(kind, name):
            raise RefusedError(
                ReasonCode.NOT_AUTHORIZED,
                f"a rule names the place {kind}/{name}: it is changed by superusers, and by whom "
                "a rule allows that by name",
            )

    def script_request(self, session: Session, output: PublishedOutput) -> PublishRequest:
        """Return the request of an event that a script publishes."""
        options = event_options_from_members(output.options)
        if options.priority is not None and self._may_raise(session):
            options = replace(options, raises=True)
        if options.people or self._state.people_rules:
            options = self._hidden(session, output.subject, options, stays=output.retain)
        try:
            check_subject(output.subject)
        except ModelError as error:
            raise RefusedError(ReasonCode.TOPIC_NAME_INVALID, str(error)) from None
        request = PublishRequest(
            output.subject, output.payload, output.qos, output.retain, b"", options
        )
        self._check_topic(request.topic)
        if options.aggregate:
            check_aggregate(request)
        if not session.permissions.unrestricted:
            self._check_rights(session.permissions, request)
        return request

    def check_room(self, session: Session, request: PublishRequest) -> None:
        """Refuse a new live event if their limit is reached."""
        name = request.options.id or f"one of {len(self._state.pending.inputs)}"
        event = Event(
            name,
            request.topic,
            session.node,
            0.0,
            object=request.options.object,
            retain=request.retain,
        )
        self.check_room_for(session, request, event)

    def check_room_for(self, session: Session, request: PublishRequest, event: Event) -> None:
        """Refuse a new live event if their limit is reached; `event` has its key."""
        valid_s, state = request.valid_s, self._state
        if valid_s == 0.0 or not (request.retain or valid_s or request.options.object is not None):
            return
        size = live_bytes(request.topic, request.payload, request.headers, is_parsed=True)
        claim_live(state, session.usage, event, size)

    def _check_properties(self, packet: Publish, properties: Properties) -> None:
        """Refuse too many user properties, and text payloads that are not UTF-8."""
        most = self._state.limits.user_properties
        if len(properties.user_properties) > most:
            raise RefusedError(
                ReasonCode.QUOTA_EXCEEDED,
                f"{len(properties.user_properties)} user properties; at most {most} are taken",
            )
        if properties.payload_format_indicator == 1:
            try:
                packet.payload.decode()
            except UnicodeDecodeError as error:
                raise RefusedError(
                    ReasonCode.PAYLOAD_FORMAT_INVALID,
                    f"the payload is said to be text, but byte {error.start} is no UTF-8",
                ) from None

    def _check_topic(self, topic: str) -> None:
        """Refuse `$` topics, and topics that are too long or too deep."""
        limits = self._state.limits
        if topic[0] == "$":
            raise RefusedError(
                ReasonCode.NOT_AUTHORIZED, f"{topic!r} is not a topic that clients publish to"
            )
        if len(topic.encode()) > limits.topic_bytes or topic.count("/") >= limits.topic_levels:
            raise RefusedError(
                ReasonCode.TOPIC_NAME_INVALID,
                f"a topic has at most {limits.topic_bytes} bytes and {limits.topic_levels} levels",
            )


def check_aggregate(request: PublishRequest) -> None:
    """Refuse a payload that is not an aggregate of as many events as it says."""
    try:
        parts_from_json(request.payload, request.options.aggregate)
    except ModelError as error:
        raise RefusedError(BAD, str(error)) from None


def with_smallest_people(
    state: BrokerState, topic: str, options: EventOptions, *, stays: bool
) -> EventOptions:
    """Return options with the smallest people of a topic; refuse what would tell of one event."""
    rule = next((each for each in state.people_rules if each.fits(topic)), None)
    if rule is None and not options.people:
        return options
    if stays or options.stays:
        why = "with a smallest people nothing is retained, valid or an object"
        raise RefusedError(BAD, f"{topic!r}: {why}")
    if options.to is not None:
        raise RefusedError(BAD, f"{topic!r}: with a smallest people there is no target")
    return replace(
        options,
        people=max(options.people, 0 if rule is None else rule.least),
        base_set=state.hidden_clock if rule is None else rule.base_set,
    )


def claim_live(state: BrokerState, usage: SessionUsage, event: Event, size: int) -> None:
    """Refuse a live event of a size beyond a quota, or reserve room for it."""
    key = state.engine.live_key(event)
    before = state.engine.live.get(key)
    more = {
        Resource.RETAINED: int(before is None),
        Resource.RETAINED_BYTES: size if before is None else max(0, size - event_bytes(before)),
    }
    state.quotas.claim(usage, key, more)


def request_of_will(will: Will) -> PublishRequest:
    """Return the request of a will; raises `RefusedError` if it is invalid."""
    properties = will.properties
    options = event_options(properties.user_properties)
    topic, payload = will.topic, will.payload
    if topic.startswith(PUBLISH_TOPIC):
        topic, payload, options = _published_as(topic, payload, options)
    packet = Publish(topic).with_(replace(properties, will_delay_interval=None))
    raw = stripped(packet.raw_properties, _DROPPED, PREFIX)
    expiry_s = properties.message_expiry_interval
    request = PublishRequest(topic, payload, will.qos, will.retain, raw, options, expiry_s)
    if options.aggregate:
        check_aggregate(request)
    return request


def _published_as(
    topic: str, payload: bytes, options: EventOptions
) -> tuple[str, bytes, EventOptions]:
    """Return topic, payload and options of a message to `$me/publish/`."""
    if options is not NO_EVENT_OPTIONS:
        raise RefusedError(BAD, "say it in the JSON or in nc- properties, not in both")
    options, body = event_options_from_json(payload)
    subject = topic[len(PUBLISH_TOPIC) :]
    if not subject or not {"+", "#"}.isdisjoint(subject):
        raise RefusedError(ReasonCode.TOPIC_NAME_INVALID, "no subject after $me/publish/")
    return subject, body, options
