"""PUBLISH: messages become events, along the route of their topic or through the engine.

Consecutive messages with the same topic, properties and QoS are a run: they are parsed and checked
once. If the topic alone decides who gets them, and no pending input would be overtaken, a run is
delivered along its route at once. Everything else becomes an input of the engine, and its publisher
is answered when it is decided.
"""

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.durability.disk_space import DiskStage
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.command_handler import CommandHandler
from nearcast.broker.ingest.disk_refusals import DiskRefusals
from nearcast.broker.ingest.pending_inputs import Answer
from nearcast.broker.ingest.publish_request import (
    NC_PREFIX,
    PublishChecks,
    PublishRequest,
    request_of_will,
)
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.input_limiter import InputLimiter
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation import own_tracks
from nearcast.broker.situation.match_warnings import MatchWarnings
from nearcast.broker.situation.nc_properties import BAD, NO_EVENT_OPTIONS
from nearcast.core.engine.delivery.routes import Route
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.event_run import EventRun
from nearcast.core.model.geometry.position import usual_position
from nearcast.core.model.inputs import Moved
from nearcast.placement.worker_messages import PublishedOutput
from nearcast.wire.mqtt import Packet, Publish, ReasonCode, Will

POSITION = "$me/position"
_READ_ONE_BY_ONE = ("$", own_tracks.PREFIX)
"""Topics whose payload is interpreted by the broker."""
_IS_TEXT = b"\x01\x01"
"""The payload format indicator of text; each payload must be checked."""


class PublishHandler:
    """Handles PUBLISH packets and wills."""

    def __init__(
        self,
        state: BrokerState,
        driver: EngineDriver,
        dispatcher: DeliveryDispatcher,
        acknowledger: Acknowledger,
        warnings: MatchWarnings,
    ) -> None:
        self._state = state
        self._driver = driver
        self._dispatcher = dispatcher
        self._acknowledger = acknowledger
        self._warnings = warnings
        self._checks = PublishChecks(state)
        self.limiter = InputLimiter(state)
        self.commands = CommandHandler(state, driver, acknowledger, self._checks, self.limiter)
        self._disk_refusals = DiskRefusals(state, self._checks, acknowledger)

    def publish(
        self,
        connection: Connection,
        session: Session,
        packets: Sequence[Packet],
        at: int,
        now: float,
    ) -> int:
        """Process the run of messages that starts at index `at`; return its length."""
        first = packets[at]
        assert type(first) is Publish
        if first.topic == POSITION and self._move(connection, session, first):
            return 1
        is_short = self._state.disk.stage >= DiskStage.UNRECORDED
        if is_short and self._disk_refusals.refuse(connection, session, first):
            return 1
        run, taken = self._run(connection, session, packets, at)
        if not run:
            return taken
        first = run[0]
        properties = self._checks.properties_of(first)
        if properties is not None and properties.topic_alias is not None:
            resolved = self._checks.unaliased(connection, first, properties.topic_alias)
            if resolved is None:
                # They were not published, so the client may send them again.
                for packet in run:
                    session.release(packet.packet_id, self._state.journal)
                return taken
            first = resolved
        try:
            request = self._checks.request(connection, session, first, properties)
            if request.topic[0] == "$":
                self.commands.take(connection, session, first, request, now)
                return taken
            if is_short:
                self._disk_refusals.check_unpromised(request)
        except RefusedError as refusal:
            for packet in run:
                answer = Answer(connection, packet.qos, packet.packet_id, first.topic)
                self._acknowledger.refuse_in_turn(connection, answer, refusal)
            return taken
        if request.topic.startswith(own_tracks.PREFIX):
            self._take_fix(connection, session, request, now)
        if request.options.to is not None:
            self._warnings.check_target(session, request.topic, request.options.to, now)
        route = self._route(connection, session, request)
        if route is not None:
            self._send_along(route, connection, session, request, run, now)
        else:
            self._leave_to_engine(connection, session, request, run, now)
        return taken

    def publish_will(self, session: Session, will: Will, now: float) -> None:
        """Publish a will, if the permissions and limits still allow it."""
        try:
            request = self._checks.hidden(session, request_of_will(will))
            retain = request.retain or request.options.stays
            if not session.permissions.may_publish(request.topic, request.qos, retain):
                raise RefusedError(ReasonCode.NOT_AUTHORIZED, "a rule forbids the will")
            self._checks.check_room(session, request)
        except RefusedError:
            self._state.counters["refused"] += 1
            return
        self._driver.publish(self._event(session, request, request.payload, now), now)

    def script_events(
        self, session: Session, outputs: Sequence[PublishedOutput], hops: int, now: float
    ) -> list[Event]:
        """Return the events that a call of a script publishes; raises `RefusedError` for all.

        `hops` is how many events of scripts led to them, themselves included.
        """
        events = []
        for output in outputs:
            try:
                request = self._checks.script_request(session, output)
                if self._state.disk.stage >= DiskStage.UNRECORDED:
                    self._disk_refusals.check_unpromised(request)
                event = self._event(session, request, request.payload, now)
                self._checks.check_room_for(session, request, event)
                self._state.engine.vet(event)
            except ModelError as error:
                why = f"publish to {output.subject!r}: to: {error}"
                raise RefusedError(BAD, why) from None
            except RefusedError as refusal:
                why = f"publish to {output.subject!r}: {refusal.why}"
                raise RefusedError(refusal.reason, why) from None
            events.append(replace(event, script_hops=hops))
        return events

    def publish_events(self, events: Sequence[Event], now: float) -> None:
        """Queue events that were checked for the engine."""
        for event in events:
            self._driver.publish(event, now)

    def _move(self, connection: Connection, session: Session, packet: Publish) -> bool:
        """Queue the position of a plain `$me/position` message; False if it is a command."""
        if packet.raw_properties or packet.qos:
            return False
        position = usual_position(packet.payload)
        if position is None:
            return False
        try:
            if session.node not in self._state.engine.nodes:
                self.limiter.claim_node(session, session.node)
        except RefusedError as refusal:
            answer = Answer(connection, packet.qos, packet.packet_id, POSITION)
            self._acknowledger.refuse_in_turn(connection, answer, refusal)
            return True
        self._state.pending.ask(Moved(session.node, position))
        return True

    def _run(
        self, connection: Connection, session: Session, packets: Sequence[Packet], at: int
    ) -> tuple[list[Publish], int]:
        """Return the messages of a run that are to be published, and its length in packets."""
        first = packets[at]
        assert type(first) is Publish
        topic, raw, qos = first.topic, first.raw_properties, first.qos
        run = [first]
        is_last = at + 1 == len(packets)
        if not qos and is_last:
            return run, 1
        alone = is_last or first.retain or topic.startswith(_READ_ONE_BY_ONE)
        # What is searched comes last, because it may be large.
        if not (alone or NC_PREFIX in raw or _IS_TEXT in raw):
            most = self._driver.most_together(topic)
            for each in packets[at + 1 :] if most is None else packets[at + 1 : at + most]:
                if (
                    type(each) is not Publish
                    or each.topic != topic
                    or each.qos != qos
                    or each.raw_properties != raw
                    or each.retain
                ):
                    break
                run.append(each)
        taken = len(run)
        if qos:
            begin = self._acknowledger.begin
            run = [packet for packet in run if begin(connection, session, packet)]
        return run, taken

    def _take_fix(
        self, connection: Connection, session: Session, request: PublishRequest, now: float
    ) -> None:
        """Queue the position that an OwnTracks message contains, or warn why it was ignored."""
        may_act = _may_act(connection, request.topic)
        protected = self._state.engine.rights.protected
        fix = own_tracks.fix_of(session, request.topic, request.payload, may_act, protected)
        if not isinstance(fix, own_tracks.Ignored):
            try:
                self.limiter.claim(session, fix)
            except RefusedError as refusal:
                fix = own_tracks.Ignored(refusal.why)
            else:
                self._state.pending.ask(fix)
                return
        if fix.why:
            self._state.counters["owntracks_ignored"] += 1
            self._warnings.warn(session, request.topic, fix.why, now)

    def _route(
        self, connection: Connection, session: Session, request: PublishRequest
    ) -> Route | None:
        """Return the route of a run, if its topic alone decides and nothing would be overtaken."""
        if request.retain or request.options is not NO_EVENT_OPTIONS:
            return None
        state = self._state
        pending = state.pending
        if pending.inputs and pending.must_precede(connection, request.topic, request.qos):
            return None
        return state.engine.route(session.node, request.topic)

    def _send_along(
        self,
        route: Route,
        connection: Connection,
        session: Session,
        request: PublishRequest,
        run: Sequence[Publish],
        now: float,
    ) -> None:
        """Deliver, record and acknowledge a run."""
        state, node, client_id = self._state, session.node, session.client_id
        expiry_s, qos = request.expiry_s, request.qos
        events = EventRun(
            list(islice(state.ids, len(run))), request.topic, node, now,
            state.engine.position(node), [packet.payload for packet in run], qos,
            client_id if client_id != node else "",
            request.headers, None if expiry_s is None else now + expiry_s,
        )  # fmt: skip
        first_seq = state.engine.note(events)
        if first_seq is not None and state.journal.keeps:
            state.journal.rows.append_run(first_seq, now, events)
            if qos:
                state.journal.must_sync = True
        if route.recipients:
            state.costs.note_copies(session, len(run) * len(route.recipients))
            if route.no_local:
                route = route.without(client_id)
            self._dispatcher.deliver_along(route, events)
            if self._driver.most_together(request.topic) is not None:
                self._dispatcher.flush()
        if qos:
            for packet in run:
                self._acknowledger.accept(connection, qos, packet.packet_id)

    def _leave_to_engine(
        self,
        connection: Connection,
        session: Session,
        request: PublishRequest,
        run: Sequence[Publish],
        now: float,
    ) -> None:
        """Queue a run for the engine; its publisher is answered when it is decided."""
        for packet in run:
            payload = request.payload if packet is run[0] else packet.payload
            event = self._event(session, request, payload, now)
            answer = Answer(connection, packet.qos, packet.packet_id, packet.topic)
            self._driver.publish(event, now, answer)

    def _event(
        self, session: Session, request: PublishRequest, payload: bytes, now: float
    ) -> Event:
        state = self._state
        reads = state.engine.matcher.reads_attributes
        return request.event(session, payload, state.unique_id(), now, read_attributes=reads)


def _may_act(connection: Connection, topic: str) -> bool:
    """Whether a client may report the position of another user in an OwnTracks topic."""
    admitted = connection.admitted
    user = own_tracks.user_of(topic)
    if admitted is None or user is None:
        return False
    identity = admitted.identity
    return identity.superuser or identity.user == user or connection.permissions.may_be(user)
