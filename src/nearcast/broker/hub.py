"""The hub: connections, sessions and the engine, one tick at a time, without I/O.

A host passes in received packets and calls `tick`, which returns a batch: the entries to store, and
the data to write to each connection once they are stored. All input of one tick is one batch for
the engine, and every connection gets at most one write. The time is passed in.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf

from nearcast.broker.auth import Admitted, CredentialCheck
from nearcast.broker.auth import AuthRefusal as Refusal
from nearcast.broker.auth.admission import Admission, OpenAccess
from nearcast.broker.auth.rights_review import RightsReview
from nearcast.broker.awareness.link_classes import LinkClasses
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.config.engine_settings import engine_settings
from nearcast.broker.config.settings import Settings
from nearcast.broker.delivery.batch import Batch, Write
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.delivery.loss_reports import LossReports
from nearcast.broker.delivery.reprioritisation import Reprioritisation
from nearcast.broker.durability.disk_policy import DiskPolicy
from nearcast.broker.durability.journal import Journal
from nearcast.broker.durability.outcome_recorder import OutcomeRecorder
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.handover.inbox import HandoverInbox
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.packet_handler import PacketHandler
from nearcast.broker.ingest.publish import PublishHandler
from nearcast.broker.ingest.random_ids import RandomBytes
from nearcast.broker.ingest.subscribe import NAMED, SubscribeHandler
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.engine_usage import EngineUsage
from nearcast.broker.quotas.memory_guard import MemoryGuard
from nearcast.broker.quotas.usage_recount import validate_usage
from nearcast.broker.scheduling.filter_budgets import FilterBudgets
from nearcast.broker.scheduling.input_scheduler import InputScheduler
from nearcast.broker.scheduling.phase_timer import Phase
from nearcast.broker.scheduling.uplink_shares import UplinkShares
from nearcast.broker.scripts.script_host import ScriptHost
from nearcast.broker.sessions.connect_handler import ConnectHandler
from nearcast.broker.sessions.session import Session
from nearcast.broker.sessions.session_lifecycle import SessionLifecycle
from nearcast.broker.sessions.session_review import SessionReview
from nearcast.broker.silence.silence_host import REPORT, SilenceHost
from nearcast.broker.situation.errors import ErrorReports
from nearcast.broker.situation.match_warnings import MatchWarnings
from nearcast.broker.situation.node_expiry import NodeExpiry
from nearcast.broker.situation.node_list import NodeList
from nearcast.broker.situation.node_questions import NodeQuestions
from nearcast.broker.situation.node_topics import NodeTopics
from nearcast.broker.situation.relationship_topics import RelationshipTopics
from nearcast.broker.situation.system_topics import SystemTopics
from nearcast.broker.situation.topic_names import NODES, PRIVATE
from nearcast.broker.situation.topic_readers import TopicReaders
from nearcast.core.engine.engine import Engine
from nearcast.core.model.context import NodeState
from nearcast.core.model.geometry.position import plain
from nearcast.core.model.inputs import RulesSet
from nearcast.logs import log_event
from nearcast.store import standing_change, standing_end
from nearcast.wire.handover import PREFIX as HANDOVER
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    ConnAck,
    Disconnect,
    Packet,
    Properties,
    ProtocolError,
    ReasonCode,
    encode,
    encode_within,
)
from nearcast.wire.peer_frames import CHAIN_TOPIC

log = logging.getLogger("nearcast.broker")


class Hub:
    """The broker's logic."""

    def __init__(
        self,
        settings: Settings | None = None,
        journal: Journal | None = None,
        admission: Admission | None = None,
        *,
        random_bytes: RandomBytes = os.urandom,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.state = BrokerState(
            Engine(engine_settings(self.settings)),
            self.settings.limits,
            Journal() if journal is None else journal,
            self.settings.node.name,
            random_bytes,
            self.settings.adaptation,
            self.settings.propagation,
        )
        clock = self.settings.gathering
        self.state.hidden_clock = f"every {plain(clock.every_s)} wait {plain(clock.wait_s)}"
        self._due_at = inf
        state = self.state
        self._dispatcher = dispatcher = DeliveryDispatcher(state)
        errors = ErrorReports(dispatcher)
        acknowledger = Acknowledger(state, errors)
        self._acknowledger = acknowledger
        self.recorder = OutcomeRecorder(state, self.settings.record.deliveries)
        """Notes what the store and the log are to have of each step."""
        self.disk_policy = DiskPolicy(state)
        self._driver = driver = EngineDriver(state, dispatcher, self.recorder, acknowledger, errors)
        readers = TopicReaders(state, dispatcher)
        self._system_topics = SystemTopics(state, readers)
        self.warnings = warnings = MatchWarnings(state, driver, errors)
        self._filter_budgets = FilterBudgets(state, errors)
        self.usage = EngineUsage(state.engine, state.quotas, state.journal)
        """Counts what the engine keeps against the quotas."""
        self.link_classes = LinkClasses(state)
        """Paces and classifies links of sessions with relevance, once a host has begun it."""
        for follower in (
            self.usage, NodeTopics(state, readers), RelationshipTopics(state, readers),
            self._system_topics, warnings, self._filter_budgets, Reprioritisation(state, warnings),
            self.link_classes,
        ):  # fmt: skip
            driver.register(follower)
        if self.settings.adaptation.uplink_kbps:
            driver.register(UplinkShares(state, self.settings.adaptation.uplink_kbps))
        self._subscribing = SubscribeHandler(state, driver, errors, warnings)
        self.releasing = HandoverInbox(state, driver, dispatcher)
        self.node_list = NodeList(state)
        """The connected and known nodes, for queries."""
        self._publishing = PublishHandler(state, driver, dispatcher, acknowledger, warnings)
        commands = self._publishing.commands
        commands.register(NAMED, self._subscribing.named)
        commands.register(NODES, NodeQuestions(driver, dispatcher, self.node_list).take)
        commands.register(HANDOVER, self.releasing.take)
        commands.register(CHAIN_TOPIC, state.peers.confirm)
        self._silence = silence = SilenceHost(state, driver, dispatcher, self._publishing.limiter)
        driver.register(silence)
        commands.register(REPORT, silence.take)
        self._subscribing.follows = silence.listen
        self._rights_review = RightsReview(state, errors)
        admission = OpenAccess() if admission is None else admission
        rights_review = self._rights_review
        self.lifecycle = lifecycle = SessionLifecycle(state, self._publishing)
        self.connect_handler = ConnectHandler(state, lifecycle, admission, rights_review)
        self._loss_reports = LossReports(state, lifecycle, errors)
        self.connect_handler.tell_losses = self._loss_reports.tell_all
        packets = PacketHandler(
            state, driver, acknowledger, self._subscribing, lifecycle,
            self.connect_handler, rights_review, self._loss_reports, self.link_classes,
        )  # fmt: skip
        publish = self._publishing.publish
        self.scheduler = InputScheduler(state, driver, publish, packets.process, self.broken)
        self.take = self.scheduler.take
        """Process received bytes, at once or in a later tick if it is not the client's turn yet."""
        self.scheduler.on_left = lifecycle.lost
        self._node_expiry = NodeExpiry(
            state, self.usage.live_nodes, self.settings.situation.node_ttl_s
        )
        self.memory = MemoryGuard(state, self.settings.limits.memory)
        """Sheds load when memory is short; the host measures it."""
        self._publishing.limiter.make_room = self._node_expiry.make_room
        self.session_review = SessionReview(state, lifecycle, admission, rights_review)
        self.scripts = ScriptHost(
            state, driver, dispatcher, acknowledger, errors, admission, lifecycle,
            self._publishing, self._subscribing, self.scheduler,
        )  # fmt: skip

    @property
    def engine(self) -> Engine:
        """The engine."""
        return self.state.engine

    @property
    def sessions(self) -> dict[str, Session]:
        """All sessions, by client id."""
        return self.state.sessions

    # Called by the host

    def receive(self, connection: Connection, packets: Sequence[Packet], now: float) -> None:
        """Process packets of a part of the broker that acts as a client."""
        self.scheduler.receive(connection, packets, now)

    def broken(self, connection: Connection, error: ProtocolError) -> None:
        """Close a connection that violated the protocol."""
        self.state.counters["protocol_errors"] += 1
        client = connection.peer.address
        if connection.session is not None:
            client = connection.session.client_id
        log_event(log, logging.INFO, "broken packet", client=client, why=str(error))
        if connection.session is None:
            if connection.version == 0 and error.reason_code in _REFUSALS_OF_MQTT_3:
                data = encode(ConnAck(False, error.reason_code), MQTT_3_1_1)
                connection.out.append(data)
            connection.close()
            self.state.touch(connection)
            return
        self.close(connection, error.reason_code, str(error))

    def close(self, connection: Connection, reason: ReasonCode, why: str) -> None:
        """Close a connection from the broker's side; its will is due."""
        self.state.close(connection, reason, why)

    def lost(self, connection: Connection) -> None:
        """Handle the loss of a connection; its input that still waits is processed before."""
        self.connect_handler.forget(connection)
        self.state.peers.leave(connection)
        if not self.scheduler.leave(connection):
            self.lifecycle.lost(connection)

    def set_rules(self, rules: RulesSet, now: float) -> None:
        """Put sight rules in force if they changed; raises `ModelError` if they are invalid.

        The next tick stores them.
        """
        if rules == self.engine.rights.rules:
            return
        self._driver.apply(rules, now)
        self.state.journal.note(standing_change(rules))

    def review_rights(self, now: float) -> None:
        """Check all sessions against the rules and users now in force.

        Inputs that came before are decided by the previous rules first. Subscriptions and sessions
        without permission have ended on return; the next tick stores that.
        """
        self._driver.step(now)
        self.state.is_woken = True
        for session in list(self.sessions.values()):
            self.session_review.review(session, now)
        self._driver.step(now)
        self.look_ahead()

    def resume_moves(self, moved: Iterable[NodeState], marked: bool) -> None:
        """Continue with nodes whose moves the store lacks; `marked`: it has a row mark for them."""
        self.recorder.begin(moved, marked)

    def keep_moves(self) -> None:
        """Store all moves soon, since the log may be rewritten."""
        self.recorder.hurry()

    def begin(self, now: float) -> None:
        """Start operation with the restored state."""
        self._system_topics.begin(now)
        self.look_ahead()

    def note_restart(self, now: float) -> None:
        """Record that the broker restarted with its current sessions."""
        for silence in self.engine.silences:
            self.state.journal.note(standing_end(silence), sync=False)
        record = self.engine.restarted(self.sessions, now)
        if record is not None and self.state.journal.keeps:
            self.state.journal.rows.append_record(record)

    def block(self, connection: Connection, blocked: bool) -> None:
        """Stop sending to a client whose write buffer is full, or continue."""
        connection.block(blocked)
        if not blocked:
            self.state.touch(connection)

    def admit(self, connection: Connection, answer: Admitted | Refusal, now: float) -> None:
        """Finish a CONNECT whose slow credential check is done."""
        self.state.is_woken = True
        self.connect_handler.decide(connection, answer, now)
        self.scheduler.decided(connection)

    def tick(self, now: float) -> Batch:
        """Decide on all input since the last tick, and return what to store and to write."""
        state = self.state
        state.now = now
        slow: list[tuple[Connection, CredentialCheck]] = []
        if (
            state.is_woken
            or self._due_at <= now
            or state.pending.inputs
            or state.leaving
            or state.arriving
            or self.releasing.staging.ready
            or self.scheduler.is_due(now)
        ):
            releasing = self.releasing
            state.phases.switch(Phase.INPUT)
            self.lifecycle.detach_lost(now)
            slow = self.connect_handler.decide_some(now, self.scheduler.decided)
            self.lifecycle.expire(now)
            releasing.go_on(now)
            self.scripts.go_on(now)
            self._driver.decide(now)
            self.scheduler.serve(now)
            self.scheduler.serve_replays(now)
            self._driver.remind_followers(now)
            while state.pending:
                # What followers asked for.
                self._driver.step(now)
            self._dispatcher.flush()
            self.scripts.run_ready(now)
            self.look_ahead()
            self.scripts.tell_hosts()
            state.is_woken = self._has_work
        limits, journal = state.limits, state.journal
        if journal.rows.payloads:
            state.phases.switch(Phase.RECORDING)
            self.recorder.catch_up(now)
        state.phases.switch(Phase.OUTPUT)
        self._dispatcher.flush()
        if state.undelivered:
            # What it dropped from full queues.
            self.recorder.record_undelivered(now)
        if state.peers.is_used:
            self._pass_on(now)
        writes: list[Write] = []
        parts: list[bytes] = []
        data, sent_bytes = b"", 0
        touched, state.touched = state.touched, []
        for connection in touched:
            connection.touched = False
            session, pace = connection.session, None
            if session is not None:
                if session.outbox.waiting_bytes:
                    session.pump(now, limits, journal)
                pace = session.pace
                if session.losses:
                    state.losers.add(session)
                if session.misses and session.has_room(limits) and not connection.blocked:
                    session.misses = False
                    self.scheduler.replays.append(session)
            if connection.out or connection.closing:
                if parts and parts == connection.out and not connection.farewell:
                    # Who gets the same events as the one before gets the same bytes.
                    connection.out.clear()
                else:
                    parts = [] if connection.farewell else connection.out.copy()
                    data = connection.take()
                size = len(data)
                sent_bytes += size
                if session is not None:
                    session.account.bytes_sent += size
                writes.append(
                    Write(connection, data, connection.acknowledgements, connection.closing, pace)
                )
                connection.acknowledgements = 0
        state.traffic.bytes_sent += sent_bytes
        state.costs.end_of_tick()
        if state.quotas.reserved:
            for usage in state.quotas.settle():
                state.quotas.tidy(usage)
        served, self.scheduler.served = self.scheduler.served, []
        return Batch(journal.take(), writes, slow, served)

    def _pass_on(self, now: float) -> None:
        """Write what goes along chains of peers, and what is late there."""
        state = self.state
        if not state.peers.has_work:
            return
        for connection in state.touched.copy():
            if connection.chains is not None and connection.session is not None:
                connection.session.pump(now, state.limits, state.journal)
        for connection in state.peers.flush(now):
            state.touch(connection)

    def sweep(self, now: float) -> None:
        """Do what is due about once a second; a tick has to follow."""
        # What is queued may concern a node that is idle so far.
        self._driver.step(now)
        self.state.quotas.watch(now)
        self._node_expiry.sweep(now)
        self._loss_reports.sweep(now)

    def written(self, write: Write) -> None:
        """Follow a write with acknowledgements, or to a paced link, that was just made."""
        connection = write.connection
        connection.inbound -= write.acknowledgements
        if write.acknowledgements:
            self.scripts.written(connection)
        if write.pace is not None:
            write.pace.wrote = True
            session = connection.session
            if session is not None and session.written() and not connection.blocked:
                self.state.touch(connection)

    def next_timer(self, now: float) -> float | None:
        """The time of the next tick without input; `now` if work is left, None if none is due."""
        state = self.state
        if (
            state.is_woken
            or state.arriving
            or state.leaving
            or state.pending.inputs
            or state.touched
            or self.scheduler.is_busy
        ):
            return now
        due = min(self._due_at, self.scheduler.next_due)
        if self.releasing.staging.ready:
            due = min(due, self.releasing.due(now))
        if state.peers.is_used:
            due = min(due, state.peers.next_due)
        return None if due == inf else due

    @property
    def _has_work(self) -> bool:
        """Whether a part has something left for the next tick, other than input."""
        return self.scripts.is_due or self._silence.is_due

    def look_ahead(self) -> None:
        """Update the time when a session timer or an engine timer is due next."""
        first, second = self.lifecycle.next_timer(), self._driver.next_timer()
        self._due_at = min(inf if first is None else first, inf if second is None else second)

    def silent(self, now: float) -> list[Connection]:
        """Connections that sent nothing for more than 1.5 times their keep-alive interval."""
        found = []
        for session in self.sessions.values():
            connection = session.connection
            if connection is None or not connection.keep_alive_s or connection.must_wait:
                continue
            if now - connection.heard_at > 1.5 * connection.keep_alive_s:
                found.append(connection)
        return found

    def shut_down(self) -> None:
        """Disconnect all clients; MQTT 5 clients get the redirect server, if one is set."""
        redirect = self.settings.shutdown.redirect
        for session in self.sessions.values():
            connection = session.connection
            if connection is None:
                continue
            if redirect and connection.version == MQTT_5:
                told = Properties(server_reference=redirect, reason_string="shutting down")
                packet = Disconnect(ReasonCode.USE_ANOTHER_SERVER, told)
                data = encode_within(packet, MQTT_5, connection.largest_packet or 1 << 28)
                connection.farewell = data or b""
                connection.close()
                self.state.touch(connection)
            else:
                self.close(connection, ReasonCode.SERVER_SHUTTING_DOWN, "shutting down")

    def statistics(self) -> dict[str, float]:
        """Counters and gauges of the broker."""
        state = self.state
        counters = {f"{name}_total": float(count) for name, count in state.counters.items()}
        return (
            counters
            | state.traffic.statistics()
            | {
                "connections": sum(s.connection is not None for s in state.sessions.values()),
                "sessions": len(state.sessions),
                "subscriptions": len(self.engine.subscriptions),
                "live": len(self.engine.live),
                "unrecorded_total": self.engine.policy.left_out,
                "waiting_bytes": sum(s.waiting_bytes for s in state.sessions.values()),
                **state.costs.statistics(),
                **self.scheduler.statistics(),
                **self._filter_budgets.statistics(),
                **self.engine.statistics(),
                **state.quotas.statistics(),
                **self.memory.statistics(),
                **self.releasing.staging.statistics(),
                **self.scripts.statistics(),
            }
        )

    def validate_state(self) -> None:
        """Assert the invariants that hold between ticks."""
        state = self.state
        assert state.is_woken or not self._has_work
        assert not state.pending
        assert not state.pending.answers
        assert sum(state.parts.values()) == len(state.sessions)
        connected = Counter(s.node for s in self.sessions.values() if s.connection is not None)
        assert state.online == connected
        wanted = {
            id_
            for session in state.sessions.values()
            for id_, granted in session.granted.items()
            if granted.wanted.filter not in PRIVATE
        }
        assert wanted == {*self.engine.subscriptions, *self.engine.suspended}
        for session in state.sessions.values():
            session.validate_state(state.limits)
        validate_usage(state, self.lifecycle, self.scripts.book)
        self.releasing.staging.validate_state()


_REFUSALS_OF_MQTT_3 = (
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
)
