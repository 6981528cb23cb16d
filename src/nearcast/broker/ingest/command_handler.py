"""Commands: messages of clients to the broker itself, on `$` topics."""

from collections.abc import Callable
from enum import Enum

from msgspec.structs import replace

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.pending_inputs import Answer
from nearcast.broker.ingest.publish_request import PublishChecks, PublishRequest
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.input_limiter import InputLimiter
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.commands import (
    PLACE,
    POLICY,
    ParsedCommand,
    command,
    kept_place,
    place_of,
)
from nearcast.broker.situation.nc_properties import BAD, BAD_JSON
from nearcast.broker.situation.topic_names import normalize_topic
from nearcast.core.adaptation.errors import AdaptationError, PolicySyntaxError
from nearcast.core.model.inputs import Input, PlaceDefined, PolicySet
from nearcast.wire.mqtt import Publish

_OWN = "$me/"
AREAS = "$area/"
RELATIONSHIPS = "$relate/"
FIRST_ORDER = 1 << 32
"""Places that an earlier release stored without an order precede all others."""


class AnsweredLater(Enum):
    """What a handler returns that answers by itself, later."""

    TO_BE_ANSWERED = 0


TO_BE_ANSWERED = AnsweredLater.TO_BE_ANSWERED
Answered = str | AnsweredLater | None
"""A text that goes with the acknowledgement, if it is not acknowledged later."""
TopicHandler = Callable[[Connection, Session, Publish, float], Answered]
"""Carries out a message to a topic; raises `RefusedError` if it is not allowed."""


class CommandHandler:
    """Handles messages to `$` topics."""

    def __init__(
        self,
        state: BrokerState,
        driver: EngineDriver,
        acknowledger: Acknowledger,
        checks: PublishChecks,
        limiter: InputLimiter,
    ) -> None:
        self._state = state
        self._driver = driver
        self._acknowledger = acknowledger
        self._checks = checks
        self._limiter = limiter
        self._handlers: dict[str, TopicHandler] = {}
        self._watched: dict[str, str] | None = None
        """Topics of watched areas and relationships as first spelt, by normalized topic."""
        self._orders: dict[tuple[str, str], int] | None = None
        """The order of places, by kind and name."""
        self._last_order = 0
        self._shown: dict[str, str] | None = None
        """Subjects of the retained messages that show places, by normalized topic."""

    def register(self, topic: str, handler: TopicHandler) -> None:
        """Register a handler for a topic, or for all topics below it if it ends with a slash."""
        self._handlers[topic] = handler

    def take(
        self,
        connection: Connection,
        session: Session,
        packet: Publish,
        request: PublishRequest,
        now: float,
    ) -> None:
        """Carry out a message to a `$` topic; raises `RefusedError` if it is not allowed."""
        self._state.is_woken = True
        for topic, handler in self._handlers.items():
            if packet.topic == topic or (topic[-1] == "/" and packet.topic.startswith(topic)):
                told = handler(connection, session, packet, now)
                if isinstance(told, AnsweredLater):
                    return
                if told is None:
                    self._acknowledger.accept_in_turn(connection, packet)
                else:
                    # All that came before is answered before.
                    self._driver.step(now)
                    self._acknowledger.accept_with(connection, packet, told)
                return
        self._ask(connection, session, packet, request, now)

    def _ask(
        self,
        connection: Connection,
        session: Session,
        packet: Publish,
        request: PublishRequest,
        now: float,
    ) -> None:
        """Turn a message into engine inputs, and queue them."""
        state, checks = self._state, self._checks
        if packet.topic.startswith((PLACE, POLICY)):
            # The message that defines a place or a policy is always retained.
            request = replace(request, retain=True)
            checks.check_rights(connection, request)
            if (place := place_of(packet.topic)) is not None:
                checks.check_place(connection, *place)
        elif not packet.topic.startswith(_OWN):
            checks.check_rights(connection, request)
        meant = self._as_watched(packet)
        asked = command(session, meant, state.engine.rights.protected)
        is_policy = isinstance(asked.inputs[0], PolicySet)
        if is_policy:
            self._check_policy(asked.inputs[0], now)
        if asked.shows:
            asked = asked if is_policy else self._in_order(asked)
            request = replace(request, topic=normalize_topic(packet.topic))
            checks.check_room(session, request)
        for value in asked.inputs:
            self._limiter.claim(session, value)
        answer = Answer(connection, packet.qos, packet.packet_id, packet.topic, asked.keep)
        state.pending.answer_next(answer)
        for value in asked.inputs:
            state.pending.ask(value)
        if asked.shows:
            self._show(session, request, packet.topic, now)
        if packet.qos:
            state.journal.must_sync = True

    def _check_policy(self, value: Input, now: float) -> None:
        """Refuse a wrong policy before its message is published."""
        assert isinstance(value, PolicySet)
        # It must fit the other policies as they are once all that came before is applied.
        self._driver.step(now)
        if value.document is None:
            return
        try:
            self._state.engine.policies.check(value.policy_kind, value.name, value.document)
        except PolicySyntaxError as error:
            raise RefusedError(BAD_JSON, str(error)) from None
        except AdaptationError as error:
            raise RefusedError(BAD, str(error)) from None

    def _as_watched(self, packet: Publish) -> Publish:
        """Return the message with its topic spelt as when that name was first defined."""
        if not packet.topic.startswith((AREAS, RELATIONSHIPS)):
            return packet
        if self._watched is None:
            engine = self._state.engine
            topics = [AREAS + each.name for each in engine.watched_areas]
            topics += [RELATIONSHIPS + name for name in engine.relationships.names()]
            self._watched = {normalize_topic(topic): topic for topic in topics}
        meant = normalize_topic(packet.topic)
        watched = self._watched.pop(meant, packet.topic)
        if packet.payload:
            self._watched[meant] = watched
        return packet if watched == packet.topic else replace(packet, topic=watched)

    def _in_order(self, asked: ParsedCommand) -> ParsedCommand:
        """Return a place command to be kept with the order of its place: of first definition."""
        (value,) = asked.inputs
        assert isinstance(value, PlaceDefined)
        if self._orders is None:
            places = self._state.engine.matcher.places
            self._orders = {(each.kind, each.name): each.order for each in places}
            self._last_order = max((FIRST_ORDER, *self._orders.values()))
        key = value.place_kind, value.name
        if value.geometry is None:
            self._orders.pop(key, None)
            return kept_place(value)
        if key not in self._orders:
            self._last_order += 1
            self._orders[key] = self._last_order
        return kept_place(replace(value, order=self._orders[key]))

    def _show(self, session: Session, request: PublishRequest, topic: str, now: float) -> None:
        """Publish the retained message that shows a place or policy; an empty one removes it."""
        subject = request.topic
        if self._shown is None:
            subjects = [event.subject for event in self._state.engine.live if event.retain]
            self._shown = {normalize_topic(s): s for s in subjects if s.startswith(PLACE)}
        before = self._shown.pop(subject, subject)
        if before != subject:
            # Earlier releases stored it under the topic as spelt.
            self._publish(session, PublishRequest(before, b"", request.qos, True), before, now)
        if request.payload:
            self._shown[subject] = subject
        self._publish(session, request, topic, now)

    def _publish(self, session: Session, request: PublishRequest, topic: str, now: float) -> None:
        name = self._state.unique_id()
        event = request.event(session, request.payload, name, now, read_attributes=True)
        if topic != event.subject:
            event = replace(event, topic=topic)
        self._driver.publish(event, now)
