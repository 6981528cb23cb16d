"""Commanding: what a client says to the broker itself, in messages to `$` topics."""

from msgspec.structs import replace

from nearcast.broker.broker_state import Answer, BrokerState
from nearcast.broker.handover.inbox import HandoverInbox
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.input_queue import InputQueue
from nearcast.broker.ingest.publish_checks import PublishChecks
from nearcast.broker.ingest.subscribe import SubscribeHandler
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.commands import (
    PLACE,
    ParsedCommand,
    command,
    defining,
    place_key,
    place_of,
)
from nearcast.broker.situation.nc_properties import NO_EVENT_OPTIONS
from nearcast.broker.situation.node_questions import NodeQuestions
from nearcast.broker.situation.topic_names import NODES, normalize_topic
from nearcast.core.model.inputs import PlaceDefined
from nearcast.wire.handover import PREFIX as HANDOVER
from nearcast.wire.mqtt import NO_PROPERTIES, Publish

_OWN, _SUBSCRIPTIONS = "$me/", "$me/subscriptions/"
AREAS = "$area/"
FIRST_ORDER = 1 << 32
"""Places that an earlier release kept without an order come before all others."""


class CommandHandler:
    """Takes commands."""

    def __init__(
        self,
        state: BrokerState,
        subscribing: SubscribeHandler,
        releasing: HandoverInbox,
        answering: Acknowledger,
        vetting: PublishChecks,
        queueing: InputQueue,
        questions: NodeQuestions,
    ) -> None:
        self._state = state
        self._subscribing = subscribing
        self._releasing = releasing
        self._answering = answering
        self._vetting = vetting
        self._queueing = queueing
        self._questions = questions
        self._watched: dict[str, str] | None = None
        """Topics of watched areas in the spelling that they were first given, by their one."""
        self._orders: dict[str, int] | None = None
        """The order of places, by their keys."""
        self._last_order = 0
        self._shown: dict[str, str] | None = None
        """Of places, and in which spelling: the subjects of the messages that show them."""

    def take(
        self, connection: Connection, session: Session, packet: Publish, raw: bytes, now: float
    ) -> None:
        """Do what a message to a `$` topic says; raises `RefusedError` if that may not be."""
        if packet.topic.startswith(_SUBSCRIPTIONS):
            # What came before goes by the subscriptions of then.
            self._state.settle(now)
            self._subscribing.named(connection, session, packet)
        elif packet.topic == NODES:
            self._questions.take(connection, session, packet, now)
        elif packet.topic.startswith(HANDOVER):
            self._releasing.take(connection, packet)
        else:
            self._ask(connection, session, packet, raw, now)
            return
        self._answering.accept_in_turn(connection, packet)

    def _ask(
        self, connection: Connection, session: Session, packet: Publish, raw: bytes, now: float
    ) -> None:
        """Ask of the engine what a message means."""
        state = self._state
        if packet.topic.startswith(PLACE):
            # The message that defines a place is retained, whatever it says.
            self._vetting.check_rights(connection, replace(packet, retain=True))
            if (place := place_of(packet.topic)) is not None:
                self._vetting.check_place(connection, *place)
        elif not packet.topic.startswith(_OWN):
            self._vetting.check_rights(connection, packet)
        meant = self._as_watched(packet)
        asked = command(session, meant, state.engine.rights.protected)
        subject = normalize_topic(packet.topic)
        if asked.shows:
            asked = self._in_order(asked)
            shown = replace(packet, topic=subject, retain=True)
            self._vetting.check_room(session, shown, NO_EVENT_OPTIONS)
        answer = Answer(connection, packet.qos, packet.packet_id, packet.topic, asked.keep)
        state.answers.append((len(state.inputs), answer, None))
        connection.waits = True
        for value in asked.inputs:
            state.ask(value)
        if asked.shows:
            self._show(session, packet, raw, subject, now)
        if packet.qos:
            state.journal.must_sync = True

    def _as_watched(self, packet: Publish) -> Publish:
        """The message, to the topic in whose spelling the area that it means is watched."""
        if not packet.topic.startswith(AREAS):
            return packet
        if self._watched is None:
            topics = (AREAS + name for name in self._state.engine.watched_areas)
            self._watched = {normalize_topic(topic): topic for topic in topics}
        meant = normalize_topic(packet.topic)
        watched = self._watched.pop(meant, packet.topic)
        if packet.payload:
            self._watched[meant] = watched
        return packet if watched == packet.topic else replace(packet, topic=watched)

    def _in_order(self, asked: ParsedCommand) -> ParsedCommand:
        """What a command asks, where places have their order: that in which they first came."""
        (value,) = asked.inputs
        assert isinstance(value, PlaceDefined)
        if self._orders is None:
            places = self._state.engine.matcher.places
            self._orders = {place_key(each.kind, each.name): each.order for each in places}
            self._last_order = max((FIRST_ORDER, *self._orders.values()))
        key = place_key(value.place_kind, value.name)
        if value.geometry is None:
            self._orders.pop(key, None)
            return asked
        if key not in self._orders:
            self._last_order += 1
            self._orders[key] = self._last_order
        return defining(replace(value, order=self._orders[key]))

    def _show(
        self, session: Session, packet: Publish, raw: bytes, subject: str, now: float
    ) -> None:
        """Let a message that defines a place be read, as it was sent; an empty one ends that."""
        queue = self._queueing.queue
        if self._shown is None:
            subjects = (key.partition("\0")[2] for key in self._state.live)
            self._shown = {normalize_topic(s): s for s in subjects if s.startswith(PLACE)}
        before = self._shown.pop(subject, subject)
        if before != subject:
            # Earlier releases kept it as it was spelt.
            gone = Publish(before, b"", packet.qos, True)
            queue(None, session, gone, b"", NO_PROPERTIES, NO_EVENT_OPTIONS, now)
        if packet.payload:
            self._shown[subject] = subject
        shown = replace(packet, retain=True)
        queue(None, session, shown, raw, NO_PROPERTIES, NO_EVENT_OPTIONS, now, subject)
