"""Publishing: what clients send becomes events, once checked.

The common case goes along its route at once: a message to a plain subject, with nothing in it
that is ours. Everything else becomes an input for the engine, and its sender is answered when
that is decided.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from nearcast.broker.broker_state import DECIDED, Answer, BrokerState, RefusedError
from nearcast.broker.connection import Connection
from nearcast.broker.delivering import Delivering
from nearcast.broker.releasing import Releasing
from nearcast.broker.session import Parcel, Session
from nearcast.broker.situation import own_tracks
from nearcast.broker.situation.commands import command
from nearcast.broker.situation.errors import Errors
from nearcast.broker.situation.words import BAD, NOTHING_SAID, PREFIX, Said, said, said_in_json
from nearcast.broker.subscribing import Subscribing
from nearcast.core.model.context import Attributes
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Moved, Published
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.position import parse_position
from nearcast.store import plain_row
from nearcast.wire.handover import PREFIX as HANDOVER
from nearcast.wire.mqtt import (
    MQTT_5,
    NO_PROPERTIES,
    Packet,
    PacketType,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PublishFrame,
    PubRec,
    PubRel,
    ReasonCode,
    Will,
    encode,
    encode_within,
    short_user_properties,
    stripped,
    success,
)

OURS = b"nc-"
SPECIAL = ("$", own_tracks.PREFIX)
"""Topics that mean something to the broker itself."""
LONG_TOPIC = 200
LONG_PROPERTIES = 500
"""Longer ones are looked at more closely."""
SHORTEST_PAIR = 5
"""So many bytes a user property takes at least."""
POSITION = "$me/position"
_PUBLISH, _SUBSCRIPTIONS = "$me/publish/", "$me/subscriptions/"
_MESSAGE_EXPIRY, _TOPIC_ALIAS = 0x02, 0x23
_DROPPED = frozenset((_MESSAGE_EXPIRY, _TOPIC_ALIAS))
_PUBACK, _PUBREC = PacketType.PUBACK, PacketType.PUBREC
NOTHING: Attributes = {}
Pairs = tuple[tuple[str, str], ...]
_NO_PAIRS: Pairs = ()


class Publishing:
    """Takes messages from clients and from wills."""

    def __init__(
        self,
        state: BrokerState,
        delivering: Delivering,
        subscribing: Subscribing,
        errors: Errors,
        releasing: Releasing,
    ) -> None:
        self._state = state
        self._delivering = delivering
        self._subscribing = subscribing
        self._errors = errors
        self._releasing = releasing
        self._long = min(LONG_PROPERTIES, SHORTEST_PAIR * state.limits.user_properties)

    def publish(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> None:
        """Take a message from a client."""
        state = self._state
        qos, topic, raw = packet.qos, packet.topic, packet.raw_properties
        if topic == POSITION and not (qos or raw) and self._move(session, packet.payload):
            return
        if qos and not self._begin(connection, session, packet):
            return
        if (
            (raw and (not packet.validate() or OURS in raw or len(raw) > self._long))
            or packet.retain
            or not topic
            or topic.startswith(SPECIAL)
            or len(topic) > LONG_TOPIC
            or not connection.permissions.unrestricted
            or (state.inputs and self._must_queue(connection, topic, qos))
        ):
            self._publish_special(connection, session, packet, now)
            return
        route = state.engine.route(session.node, topic)
        if route is None:
            self._queue(connection, session, packet, raw, NO_PROPERTIES, NOTHING_SAID, now)
            return
        self._note(self._plain_event(session, packet, now), raw, now)
        if route.copies:
            self._delivering.send(self._delivering.way(topic, route), session, packet)
        if qos:
            kind = _PUBACK if qos == 1 else _PUBREC
            state.acknowledge(connection, kind, success(kind, packet.packet_id))

    def _move(self, session: Session, payload: bytes) -> bool:
        """Take what most messages of a moving client say; False if it is to be looked at closely.

        The same as the command, but nobody waits for an answer.
        """
        try:
            position = parse_position(payload.decode("ascii"))
        except (ModelError, UnicodeDecodeError):
            return False
        self._state.ask(Moved(session.node, position))
        return True

    def publish_run(
        self,
        connection: Connection,
        session: Session,
        packets: Sequence[Packet],
        at: int,
        now: float,
    ) -> int:
        """Take messages of QoS 0 on one topic that follow each other; how many were taken.

        The same as `publish` for each of them: what is looked up is looked up once.
        """
        state = self._state
        topic = packets[at].topic  # type: ignore[union-attr]  # the first is a PUBLISH
        if (
            not topic
            or topic.startswith(SPECIAL)
            or len(topic) > LONG_TOPIC
            or not connection.permissions.unrestricted
            or (state.inputs and self._must_queue(connection, topic, 0))
        ):
            return 0
        engine, node = state.engine, session.node
        route = engine.route(node, topic)
        if route is None:
            return 0
        position, event_id, client_id = engine.position(node), state.event_id, session.client_id
        own = client_id if client_id != node else ""
        run: list[Publish] = []
        events: list[Event] = []
        known = b""
        for packet in packets[at:] if at else packets:
            if type(packet) is not Publish or packet.topic != topic or packet.qos or packet.retain:
                break
            raw = packet.raw_properties
            if raw != known:
                if raw and (not packet.validate() or OURS in raw or len(raw) > self._long):
                    break
                known = raw
            run.append(packet)
            event = Event(
                event_id(), topic, node, now, NOTHING, position, False, None, None, None, False,
                None, None, packet.payload, 0, own,
            )  # fmt: skip
            events.append(event)
        if not run:
            return 0
        first = engine.note(events, now)
        if first is not None and state.journal.keeps:
            self._record(events, [packet.raw_properties for packet in run], first, now)
        if route.copies:
            self._delivering.send_run(self._delivering.way(topic, route), session, run)
        return len(run)

    def publish_will(self, session: Session, will: Will, now: float) -> None:
        """Publish what a client left behind, if it still may."""
        properties = replace(will.properties, will_delay_interval=None)
        packet = Publish(will.topic, will.payload, will.qos, will.retain).with_(properties)
        raw = stripped(packet.raw_properties, _DROPPED, PREFIX)
        spoken = said(properties.user_properties)
        try:
            if not session.permissions.may_publish(will.topic, will.qos, will.retain):
                raise RefusedError(ReasonCode.NOT_AUTHORIZED, "a rule forbids the will")
            self._check_room(session, packet, spoken)
        except RefusedError:
            self._state.counters["refused"] += 1
            return
        self._queue(None, session, packet, raw, properties, spoken, now)

    def release(self, connection: Connection, session: Session, packet: PubRel) -> None:
        """PUBREL: the client will not send this message again."""
        known = session.release(packet.packet_id, self._state.journal)
        reason = ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        data = encode(PubComp(packet.packet_id, reason), connection.version)
        self._state.acknowledge(connection, PacketType.PUBCOMP, data)
        if not known:
            connection.acknowledgements -= 1

    def answer(self, answer: Answer, refusal: RefusedError | None) -> None:
        """Tell a client what became of its message."""
        connection, packet_id = answer.connection, answer.packet_id
        connection.waits = False
        if not answer.qos or connection.session is None:
            return
        kind = _PUBACK if answer.qos == 1 else _PUBREC
        if refusal is None or connection.version != MQTT_5:
            # MQTT 3 knows no refusal: the message is taken, and nothing comes of it.
            data = success(kind, packet_id)
            self._state.acknowledge(connection, kind, data)
            return
        properties = Properties(reason_string=refusal.why) if connection.explains else NO_PROPERTIES
        form = PubAck if answer.qos == 1 else PubRec
        limit = connection.largest_packet or 1 << 28
        fitting = encode_within(form(packet_id, refusal.reason, properties), MQTT_5, limit)
        assert fitting is not None, "who takes a CONNACK takes this"
        # A PUBREC that refuses ends the message.
        self._state.acknowledge(connection, _PUBACK, fitting)
        if answer.qos == 2 and connection.session is not None:
            connection.session.release(packet_id, self._state.journal)

    def _begin(self, connection: Connection, session: Session, packet: Publish) -> bool:
        """Begin a message of QoS 1 or 2; False if there is nothing more to do for it."""
        state = self._state
        if packet.qos == 2 and not session.receive(packet.packet_id, state.journal):
            data = success(_PUBREC, packet.packet_id)
            state.acknowledge(connection, _PUBREC, data)
            return False
        connection.inbound += 1
        if connection.inbound > state.limits.receive_maximum and connection.version == MQTT_5:
            if packet.qos == 2:
                session.release(packet.packet_id, state.journal)
            why = f"more than {state.limits.receive_maximum} messages without an answer"
            state.close(connection, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, why)
            return False
        return True

    def _must_queue(self, connection: Connection, topic: str, qos: int) -> bool:
        """Whether a message would overtake what the engine is still to decide."""
        state = self._state
        return state.controls or topic in state.subjects or (qos > 0 and connection.waits)

    def _publish_special(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> None:
        state = self._state
        raw, packet_id = packet.raw_properties, packet.packet_id
        properties, spoken = NO_PROPERTIES, NOTHING_SAID
        topic = packet.topic
        try:
            if raw:
                properties = packet.properties
                if properties.topic_alias is not None:
                    packet = self._unaliased(connection, packet, properties.topic_alias)
                    if not packet.topic:
                        if packet_id:
                            session.release(packet_id, state.journal)
                        return
                self._check_properties(packet, properties)
                topic = packet.topic
                if OURS in raw:
                    spoken = said(properties.user_properties)
                if OURS in raw or properties.message_expiry_interval or properties.topic_alias:
                    raw = stripped(raw, _DROPPED, PREFIX)
            if topic[0] == "$":
                if topic.startswith(_SUBSCRIPTIONS):
                    # What came before goes by the subscriptions of then.
                    state.settle(now)
                    self._subscribing.named(connection, session, packet)
                    self._answered(connection, packet)
                    return
                if topic.startswith(HANDOVER):
                    self._releasing.take(connection, packet)
                    self._answered(connection, packet)
                    return
                if not topic.startswith(_PUBLISH):
                    self._command(connection, session, packet, raw, now)
                    return
                if spoken is not NOTHING_SAID:
                    raise RefusedError(BAD, "say it in the JSON or in nc- properties, not in both")
                spoken, body = said_in_json(packet.payload)
                packet = _instead(packet, topic[len(_PUBLISH) :], body)
            self._check(connection, packet)
            self._check_room(session, packet, spoken)
        except RefusedError as refusal:
            self._refuse(connection, Answer(connection, packet.qos, packet_id, topic), refusal)
            return
        if packet.topic.startswith(own_tracks.PREFIX):
            fix = own_tracks.fix_of(
                session, packet, _may_act(connection, packet.topic), state.engine.rights.protected
            )
            if fix is not None:
                state.ask(fix)
        if (
            not packet.retain
            and spoken is NOTHING_SAID
            and not (state.inputs and self._must_queue(connection, packet.topic, packet.qos))
        ):
            route = state.engine.route(session.node, packet.topic)
            if route is not None:
                self._send_along(connection, session, packet, raw, properties, now)
                return
        self._queue(connection, session, packet, raw, properties, spoken, now)

    def _command(
        self, connection: Connection, session: Session, packet: Publish, raw: bytes, now: float
    ) -> None:
        """Ask of the engine what a message to a `$` topic means."""
        state, allowed = self._state, connection.permissions
        if not packet.topic.startswith("$me/") and not (
            allowed.unrestricted or allowed.may_publish(packet.topic, packet.qos, packet.retain)
        ):
            why = f"a rule forbids publishing to {packet.topic!r}"
            raise RefusedError(ReasonCode.NOT_AUTHORIZED, why)
        asked = command(session, packet, state.engine.rights.protected)
        if asked.shows:
            self._check_room(session, replace(packet, retain=True), NOTHING_SAID)
        answer = Answer(connection, packet.qos, packet.packet_id, packet.topic, asked.keep)
        state.answers.append((len(state.inputs), answer, None))
        connection.waits = True
        for value in asked.inputs:
            state.ask(value)
        if asked.shows:
            shown = replace(packet, retain=True)
            self._queue(None, session, shown, raw, NO_PROPERTIES, NOTHING_SAID, now)
        if packet.qos:
            state.journal.must_sync = True

    def _refuse(self, connection: Connection, answer: Answer, refusal: RefusedError) -> None:
        self._state.counters["refused"] += 1
        if connection.waits:
            # Answers keep the order of the messages.
            self._state.answers.append((DECIDED, answer, refusal))
        else:
            if connection.session is not None:
                self._errors.tell(connection.session, answer.topic, refusal.why)
            self.answer(answer, refusal)

    def _answered(self, connection: Connection, packet: Publish) -> None:
        """Acknowledge what holds already, after what still waits for an answer."""
        answer = Answer(connection, packet.qos, packet.packet_id, packet.topic)
        if connection.waits:
            self._state.answers.append((DECIDED, answer, None))
        else:
            self.answer(answer, None)

    def _send_along(
        self,
        connection: Connection,
        session: Session,
        packet: Publish,
        raw: bytes,
        properties: Properties,
        now: float,
    ) -> None:
        state, topic, qos = self._state, packet.topic, packet.qos
        route = state.engine.route(session.node, topic)
        assert route is not None
        self._note(self._plain_event(session, packet, now), raw, now)
        if route.copies:
            expiry = properties.message_expiry_interval
            expires_at = None if expiry is None else now + expiry
            parcel = Parcel(PublishFrame(topic, packet.payload, raw), session.client_id, expires_at)
            way = self._delivering.way(topic, route)
            self._delivering.send_parcel(way, session, parcel, qos)
        if qos:
            kind = _PUBACK if qos == 1 else _PUBREC
            state.acknowledge(connection, kind, success(kind, packet.packet_id))

    def _queue(
        self,
        connection: Connection | None,
        session: Session,
        packet: Publish,
        raw: bytes,
        properties: Properties,
        spoken: Said,
        now: float,
    ) -> None:
        """Let the engine decide."""
        state = self._state
        if spoken.id is not None and (session.node, spoken.id) in state.parcels:
            # It is a repeat, or withdraws the first: that is decided before.
            state.settle(now)
        event = self._event(session, packet, properties, spoken, now)
        expiry = properties.message_expiry_interval
        lasts = [each for each in (expiry, event.valid_s) if each]
        expires_at = now + min(lasts) if lasts else None
        frame = PublishFrame(packet.topic, packet.payload, raw)
        parcel = Parcel(frame, session.client_id, expires_at)
        # The first of two with one id is the one that counts.
        state.parcels.setdefault((event.publisher, event.id), parcel)
        if connection is not None:
            answer = Answer(connection, packet.qos, packet.packet_id, packet.topic)
            state.answers.append((len(state.inputs), answer, None))
            connection.waits = True
        state.subjects.add(packet.topic)
        state.inputs.append(Published(event))
        if packet.qos:
            state.journal.must_sync = True

    def _event(
        self, session: Session, packet: Publish, properties: Properties, spoken: Said, now: float
    ) -> Event:
        """The event that a message is, with what it says of it; the engine completes it."""
        valid_s = _valid_s(packet, properties, spoken)
        stays = packet.retain or valid_s is not None or spoken.object is not None
        # Who comes later may look into what stays, even if nobody does now.
        looked_into = stays or self._state.engine.matcher.reads_attributes
        return Event(
            id=self._state.event_id() if spoken.id is None else spoken.id,
            subject=packet.topic,
            publisher=session.node,
            time=now if spoken.time is None else spoken.time,
            attributes=attributes_of(packet.payload) if looked_into else {},
            position=spoken.at,
            at_given=spoken.at is not None,
            to=spoken.to,
            valid_s=valid_s,
            object=spoken.object,
            retain=packet.retain,
            priority=spoken.priority,
            deadline_s=spoken.deadline_s,
            payload=packet.payload,
            qos=packet.qos,
            session=session.client_id if session.client_id != session.node else "",
        )

    def _plain_event(self, session: Session, packet: Publish, now: float) -> Event:
        """The event that a message is which goes along its route."""
        node, client_id = session.node, session.client_id
        return Event(
            self._state.event_id(), packet.topic, node, now, NOTHING,
            self._state.engine.position(node), False, None, None, None, False, None, None,
            packet.payload, packet.qos, client_id if client_id != node else "",
        )  # fmt: skip

    def _note(self, event: Event, raw: bytes, now: float) -> None:
        """Take note of an event that goes along its route."""
        state = self._state
        first = state.engine.note([event], now)
        if first is not None and state.journal.keeps:
            self._record([event], [raw], first, now)
            if event.qos:
                state.journal.must_sync = True

    def _record(
        self, events: Sequence[Event], raws: Sequence[bytes], first: int, now: float
    ) -> None:
        """Write rows of events that went along their route."""
        journal, name = self._state.journal, self._state.name
        known, properties, headers = b"", _NO_PAIRS, None
        rows = journal.rows
        for seq, (event, raw) in enumerate(zip(events, raws, strict=True), first):
            if raw != known:
                known = raw
                properties, headers = user_properties_of(raw)
            rows.append(plain_row(event, name, seq, now, properties, headers))

    def _unaliased(self, connection: Connection, packet: Publish, alias: int) -> Publish:
        """The message with the topic that its alias stands for; without one if that is wrong."""
        state = self._state
        if not 0 < alias <= state.limits.topic_aliases:
            why = f"topic alias {alias} is not from 1 to {state.limits.topic_aliases}"
            state.close(connection, ReasonCode.TOPIC_ALIAS_INVALID, why)
            return Publish("")
        if connection.aliases_in is None:
            connection.aliases_in = {}
        if packet.topic:
            connection.aliases_in[alias] = packet.topic
            return packet
        topic = connection.aliases_in.get(alias)
        if topic is None:
            why = f"topic alias {alias} was never given a topic"
            state.close(connection, ReasonCode.PROTOCOL_ERROR, why)
            return Publish("")
        return Publish(
            topic, packet.payload, packet.qos, packet.retain, packet.dup, packet.packet_id,
            packet.raw_properties,
        )  # fmt: skip

    def _check_properties(self, packet: Publish, properties: Properties) -> None:
        if len(properties.user_properties) > self._state.limits.user_properties:
            raise RefusedError(
                ReasonCode.QUOTA_EXCEEDED,
                f"{len(properties.user_properties)} user properties; at most "
                f"{self._state.limits.user_properties} are taken",
            )
        if properties.payload_format_indicator == 1:
            try:
                packet.payload.decode()
            except UnicodeDecodeError as error:
                raise RefusedError(
                    ReasonCode.PAYLOAD_FORMAT_INVALID,
                    f"the payload is said to be text, but byte {error.start} is no UTF-8",
                ) from None

    def _check(self, connection: Connection, packet: Publish) -> None:
        topic, limits = packet.topic, self._state.limits
        if topic[0] == "$":
            raise RefusedError(
                ReasonCode.NOT_AUTHORIZED, f"{topic!r} is not a topic that clients publish to"
            )
        if len(topic.encode()) > limits.topic_bytes or topic.count("/") >= limits.topic_levels:
            raise RefusedError(
                ReasonCode.TOPIC_NAME_INVALID,
                f"a topic has at most {limits.topic_bytes} bytes and {limits.topic_levels} levels",
            )
        allowed = connection.permissions
        if not allowed.unrestricted and not allowed.may_publish(topic, packet.qos, packet.retain):
            raise RefusedError(ReasonCode.NOT_AUTHORIZED, f"a rule forbids publishing to {topic!r}")

    def _check_room(self, session: Session, packet: Publish, spoken: Said) -> None:
        """Refuse what is to stay where too much stays already."""
        valid_s = _valid_s(packet, NO_PROPERTIES, spoken)
        if valid_s == 0.0 or not (packet.retain or valid_s or spoken.object is not None):
            return
        name = spoken.id or f"one of {len(self._state.retaining)}"
        event = Event(
            name, packet.topic, session.node, 0.0, object=spoken.object, retain=packet.retain
        )
        if not self._has_room(self._state.engine.live_key(event)):
            most = self._state.limits.retained
            why = f"there are {most} retained messages and live events; no more are taken"
            raise RefusedError(ReasonCode.QUOTA_EXCEEDED, why)

    def _has_room(self, key: str) -> bool:
        """Whether a message may stay under a key: instead of another, or as one more."""
        state = self._state
        if key in state.live or key in state.retaining:
            return True
        if len(state.live) + len(state.retaining) >= state.limits.retained:
            return False
        state.retaining.add(key)
        return True


def _instead(packet: Publish, topic: str, payload: bytes) -> Publish:
    """The message that a message to `$me/publish/` stands for."""
    if not topic or not {"+", "#"}.isdisjoint(topic):
        raise RefusedError(ReasonCode.TOPIC_NAME_INVALID, "no subject after $me/publish/")
    return Publish(topic, payload, packet.qos, packet.retain, packet.dup, packet.packet_id)


def _valid_s(packet: Publish, properties: Properties, spoken: Said) -> float | None:
    """How long what stays is valid; an empty retained message ends what is there."""
    if packet.retain and not packet.payload:
        return 0.0
    if spoken.valid_s is not None or not packet.retain:
        return spoken.valid_s
    expiry = properties.message_expiry_interval
    return None if expiry is None else float(expiry)


def _may_act(connection: Connection, topic: str) -> bool:
    """Whether a client may speak for the user in an OwnTracks topic who is not its own node."""
    admitted = connection.admitted
    if admitted is None:
        return False
    identity = admitted.identity
    return identity.superuser or identity.user == topic.split("/")[1]


def user_properties_of(raw: bytes) -> tuple[Pairs, bytes | None]:
    """The user properties in checked properties, and all as bytes if there are others too."""
    pairs = short_user_properties(raw)
    if pairs is not None:
        return tuple(pairs), None
    return Publish("x", raw_properties=raw).properties.user_properties, raw
