"""Publishing: what clients send becomes events, once checked.

The common case goes the short way at once. Everything else is looked at closely and becomes an
input for the engine; its sender is answered when that is decided.
"""

from msgspec.structs import replace

from nearcast.broker.broker_state import Answer, BrokerState
from nearcast.broker.handover.inbox import HandoverInbox
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.command_handler import CommandHandler
from nearcast.broker.ingest.fast_path import OURS, FastPath
from nearcast.broker.ingest.input_queue import InputQueue
from nearcast.broker.ingest.publish_checks import PublishChecks
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.ingest.subscribe import SubscribeHandler
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation import own_tracks
from nearcast.broker.situation.match_warnings import MatchWarnings
from nearcast.broker.situation.nc_properties import (
    BAD,
    NO_EVENT_OPTIONS,
    PREFIX,
    EventOptions,
    event_options,
    event_options_from_json,
)
from nearcast.broker.situation.node_questions import NodeQuestions
from nearcast.core.model.geometry.position import usual_position
from nearcast.core.model.inputs import Moved
from nearcast.wire.mqtt import NO_PROPERTIES, Publish, ReasonCode, Will, stripped

POSITION = "$me/position"
_PUBLISH = "$me/publish/"
_MESSAGE_EXPIRY, _TOPIC_ALIAS = 0x02, 0x23
_DROPPED = frozenset((_MESSAGE_EXPIRY, _TOPIC_ALIAS))


class PublishHandler:
    """Takes messages from clients and from wills."""

    def __init__(
        self,
        state: BrokerState,
        short_way: FastPath,
        answering: Acknowledger,
        subscribing: SubscribeHandler,
        releasing: HandoverInbox,
        questions: NodeQuestions,
        warnings: MatchWarnings,
    ) -> None:
        self._state = state
        self._warnings = warnings
        self._short_way = short_way
        self._answering = answering
        self._vetting = PublishChecks(state)
        self._queueing = InputQueue(state)
        self._commanding = CommandHandler(
            state, subscribing, releasing, answering, self._vetting, self._queueing, questions
        )

    def publish(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> None:
        """Take a message from a client."""
        qos, topic = packet.qos, packet.topic
        if qos and not self._answering.begin(connection, session, packet):
            return
        if not self._short_way.suits(connection, packet):
            self._publish_closely(connection, session, packet, now)
            return
        route = None
        if not self._short_way.overtakes(connection, topic, qos):
            route = self._state.engine.route(session.node, topic)
        if route is None:
            self.leave(connection, session, packet, now)
            return
        self._short_way.send(session, packet, route, now)
        if qos:
            self._answering.accept(connection, qos, packet.packet_id)

    def leave(self, connection: Connection, session: Session, packet: Publish, now: float) -> None:
        """Leave a message that suits the short way, but has no route, to the engine."""
        raw = packet.raw_properties
        self._queueing.queue(connection, session, packet, raw, NO_PROPERTIES, NO_EVENT_OPTIONS, now)

    def move(self, session: Session, packet: Publish) -> bool:
        """Take what most messages of a moving client say; False if it is to be looked at closely.

        The same as the command, but nobody waits for an answer. Of QoS 0, to its own position.
        """
        if packet.raw_properties:
            return False
        position = usual_position(packet.payload)
        if position is None:
            return False
        self._state.ask(Moved(session.node, position))
        return True

    def publish_will(self, session: Session, will: Will, now: float) -> None:
        """Publish what a client left behind, if it still may."""
        properties = replace(will.properties, will_delay_interval=None)
        try:
            packet, spoken = told_by(will)
            packet = packet.with_(properties)
            raw = stripped(packet.raw_properties, _DROPPED, PREFIX)
            retain = will.retain or spoken.stays
            if not session.permissions.may_publish(packet.topic, will.qos, retain):
                raise RefusedError(ReasonCode.NOT_AUTHORIZED, "a rule forbids the will")
            self._vetting.check_room(session, packet, spoken)
        except RefusedError:
            self._state.counters["refused"] += 1
            return
        self._queueing.queue(None, session, packet, raw, properties, spoken, now)

    def _publish_closely(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> None:
        """Take a message that is a command, or says more than its topic and its payload."""
        state, vetting = self._state, self._vetting
        raw, packet_id = packet.raw_properties, packet.packet_id
        properties, spoken = NO_PROPERTIES, NO_EVENT_OPTIONS
        topic = packet.topic
        try:
            if raw:
                properties = packet.properties
                if properties.topic_alias is not None:
                    packet = vetting.unaliased(connection, packet, properties.topic_alias)
                    if not packet.topic:
                        if packet_id:
                            session.release(packet_id, state.journal)
                        return
                vetting.check_properties(packet, properties)
                topic = packet.topic
                if OURS in raw:
                    spoken = event_options(properties.user_properties)
                if OURS in raw or properties.message_expiry_interval or properties.topic_alias:
                    raw = stripped(raw, _DROPPED, PREFIX)
            if topic[0] == "$":
                if not topic.startswith(_PUBLISH):
                    self._commanding.take(connection, session, packet, raw, now)
                    return
                if spoken is not NO_EVENT_OPTIONS:
                    raise RefusedError(BAD, "say it in the JSON or in nc- properties, not in both")
                spoken, body = event_options_from_json(packet.payload)
                packet = _instead(packet, topic[len(_PUBLISH) :], body)
            vetting.check_topic(connection, packet, spoken)
            vetting.check_room(session, packet, spoken)
        except RefusedError as refusal:
            answer = Answer(connection, packet.qos, packet_id, topic)
            self._answering.refuse_in_turn(connection, answer, refusal)
            return
        if packet.topic.startswith(own_tracks.PREFIX):
            fix = own_tracks.fix_of(
                session, packet, _may_act(connection, packet.topic), state.engine.rights.protected
            )
            if not isinstance(fix, own_tracks.Ignored):
                state.ask(fix)
            elif fix.why:
                state.counters["owntracks_ignored"] += 1
                self._warnings.warn(session, packet.topic, fix.why, now)
        if spoken.to is not None:
            self._warnings.check_target(session, packet.topic, spoken.to, now)
        if (
            not packet.retain
            and spoken is NO_EVENT_OPTIONS
            and not self._short_way.overtakes(connection, packet.topic, packet.qos)
        ):
            route = state.engine.route(session.node, packet.topic)
            if route is not None:
                self._short_way.send_with(session, packet, raw, properties, route, now)
                self._answering.accept(connection, packet.qos, packet.packet_id)
                return
        self._queueing.queue(connection, session, packet, raw, properties, spoken, now)


def told_by(will: Will) -> tuple[Publish, EventOptions]:
    """The message that a will is, and what it says in words of ours, in JSON or in properties.

    Raises `RefusedError` if it cannot be.
    """
    spoken = event_options(will.properties.user_properties)
    packet = Publish(will.topic, will.payload, will.qos, will.retain)
    if not will.topic.startswith(_PUBLISH):
        return packet, spoken
    if spoken is not NO_EVENT_OPTIONS:
        raise RefusedError(BAD, "say it in the JSON or in nc- properties, not in both")
    spoken, body = event_options_from_json(will.payload)
    return _instead(packet, will.topic[len(_PUBLISH) :], body), spoken


def _instead(packet: Publish, topic: str, payload: bytes) -> Publish:
    """The message that a message to `$me/publish/` stands for."""
    if not topic or not {"+", "#"}.isdisjoint(topic):
        raise RefusedError(ReasonCode.TOPIC_NAME_INVALID, "no subject after $me/publish/")
    return Publish(topic, payload, packet.qos, packet.retain, packet.dup, packet.packet_id)


def _may_act(connection: Connection, topic: str) -> bool:
    """Whether a client may speak for the user in an OwnTracks topic who is not its own node."""
    admitted = connection.admitted
    user = own_tracks.user_of(topic)
    if admitted is None or user is None:
        return False
    identity = admitted.identity
    return identity.superuser or identity.user == user or connection.permissions.may_be(user)
