"""Silence at the broker: nodes that follow regions, and the members' protocol on behalf of others.

A client that subscribes to `$me/follow` is told the pairs in which its node may keep silent, and
what their other members say. It reports to `$me/follow/report`. For members that report all their
fixes, or are not connected, the broker runs the same protocol itself. What is settled between the
members becomes an input of the engine, which decides and records it.
"""

from collections.abc import Sequence

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.ingest.command_handler import TO_BE_ANSWERED, Answered
from nearcast.broker.ingest.pending_inputs import Answer
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.quotas.input_limiter import InputLimiter
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.silence.silent_pairs import SilentPairs
from nearcast.broker.situation.nc_properties import BAD, BAD_JSON
from nearcast.broker.situation.topic_names import FOLLOW
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import position_from_json
from nearcast.core.model.inputs import (
    Input,
    Left,
    Moved,
    PlaceDefined,
    Presence,
    RelationshipDefined,
    RelationshipEnded,
    RulesSet,
    SightSet,
    SilenceTold,
)
from nearcast.core.relationships.silence.follow_messages import FollowOrders, FollowReport
from nearcast.core.relationships.silence.pair_message import PairMessage
from nearcast.store import standing_change, standing_end
from nearcast.wire.mqtt import Publish, PublishFrame

REPORT = f"{FOLLOW}/report"
ANSWER_WITHIN_S = 60.0
"""A node that leaves its peers without an answer for longer follows no more."""
_RIGHTS = (RulesSet, SightSet, PlaceDefined)
_DECODER = msgspec.json.Decoder(FollowReport)


class _Follower(msgspec.Struct):
    """A session whose node follows regions."""

    session: Session
    run: int
    has_reported: bool = False
    told_all: bool | None = None


class SilenceHost(OutcomeFollower):
    """Follows what nodes and members of relationships do, and tells them their regions."""

    def __init__(
        self,
        state: BrokerState,
        driver: EngineDriver,
        dispatcher: DeliveryDispatcher,
        limiter: InputLimiter,
    ) -> None:
        self._state = state
        self._driver = driver
        self._dispatcher = dispatcher
        self._limiter = limiter
        self._followers: dict[str, _Follower] = {}
        """By node."""
        self._runs = 0
        self._pairs = SilentPairs(state.engine, self._followers, state.pending.ask)
        self._arrived: list[tuple[str, int, tuple[int, PairMessage]]] = []
        """Messages of nodes, each with its run."""

    # Messages of clients

    def listen(self, session: Session) -> None:
        """Begin to follow: a session has subscribed, or its client is back."""
        node = session.node
        before = self._followers.get(node)
        if before is not None and before.session is not session:
            self._put(before.session, FollowOrders(0, why="another part of the node follows"))
            self._end(before)
        self._runs = max(self._runs + 1, int(self._state.now * 1000.0))
        self._followers[node] = _Follower(session, self._runs)
        self._pairs.begin(node)

    def take(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> Answered:
        """Take a report of a node; raises `RefusedError`."""
        report = _report(packet.payload)
        follower = self._followers.get(session.node)
        is_current = follower is not None and follower.session is session
        if follower is not None and is_current and report.run == follower.run:
            self._take_current(follower, report)
        if report.position is None:
            return None
        try:
            at = position_from_json(list(report.position))
        except ModelError as error:
            raise RefusedError(BAD, str(error)) from None
        value = Moved(session.node, at)
        self._limiter.claim(session, value)
        pending = self._state.pending
        pending.answer_next(Answer(connection, packet.qos, packet.packet_id, packet.topic))
        pending.ask(value)
        if packet.qos:
            self._state.journal.must_sync = True
        return TO_BE_ANSWERED

    def _take_current(self, follower: _Follower, report: FollowReport) -> None:
        session = follower.session
        node = session.node
        if report.end:
            self._end(follower)
            self._tell_silence(session, False)
            return
        self._arrived += [
            (node, follower.run, each) for each in report.messages if each[1].sender == node
        ]
        if not follower.has_reported and report.position is not None:
            follower.has_reported = True
            self._tell_silence(session, True)

    def _tell_silence(self, session: Session, silent: bool) -> None:
        value = _silence(session, silent)
        self._state.pending.ask(value)
        self._state.journal.note(standing_change(value), sync=False)

    def _end(self, follower: _Follower) -> None:
        node = follower.session.node
        if self._followers.get(node) is follower:
            del self._followers[node]
            self._pairs.end(node)

    # Decisions of the engine

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Take note of a step."""
        for value in others:
            if isinstance(value, Presence):
                self._note_presence(value.session or value.node, value.here)
            elif isinstance(value, Left):
                self._note_presence(value.session or value.node, False)
            elif isinstance(value, RelationshipDefined):
                self._pairs.redefined(value.name)
            elif isinstance(value, RelationshipEnded):
                self._pairs.review(value.name)
            elif isinstance(value, _RIGHTS):
                self._pairs.review_all()
        if self._followers or self._pairs:
            self._pairs.follow(outcome)

    def _note_presence(self, client_id: str, here: bool) -> None:
        session = self._state.sessions.get(client_id)
        if here:
            if session is not None and session.granted_filter(FOLLOW) is not None:
                self.listen(session)
            return
        for follower in list(self._followers.values()):
            if follower.session.client_id == client_id:
                self._end(follower)
                if follower.has_reported:
                    # The engine ends the silence of who is gone.
                    change = standing_end(_silence(follower.session, False))
                    self._state.journal.note(change, sync=False)

    def remind(self, now: float) -> None:
        """Let members here go on, pass on what the others say, and say what is settled."""
        pairs = self._pairs
        if not self._followers and not pairs:
            return
        # What is settled must not be judged with positions that members here do not know yet.
        self._driver.step(now)
        pairs.replan(now)
        pairs.take_fixes(now)
        arrived, self._arrived = self._arrived, []
        for node, run, (number, message) in arrived:
            follower = self._followers.get(node)
            if follower is not None and follower.run == run:
                pairs.receive(node, number, message, now)
        pairs.wake(now)
        pairs.settle()
        for node in pairs.unanswered_by(now - ANSWER_WITHIN_S):
            follower = self._followers[node]
            why = f"no answer for {ANSWER_WITHIN_S:g} s"
            self._put(follower.session, FollowOrders(0, why=why))
            self._tell_silence(follower.session, False)
            self._end(follower)
        self._tell_orders(now)

    @property
    def is_due(self) -> bool:
        """Whether something waits to be done in the next tick."""
        return bool(self._arrived) or self._pairs.is_due

    def next_timer(self) -> float | None:
        """The time when something is due next."""
        return self._pairs.next_timer(ANSWER_WITHIN_S)

    # Messages to clients

    def _tell_orders(self, now: float) -> None:
        for node, follower in list(self._followers.items()):
            if follower.session.granted_filter(FOLLOW) is None:
                self._tell_silence(follower.session, False)
                self._end(follower)
                continue
            reports_all = self._pairs.reports_all(node)
            changed, messages = self._pairs.take_orders(node)
            is_first = follower.told_all is None
            if not (is_first or changed or messages or reports_all != follower.told_all):
                continue
            follower.told_all = reports_all
            watched = self._pairs.watched_by(node) if changed or is_first else None
            orders = FollowOrders(follower.run, now, reports_all, watched, messages)
            self._put(follower.session, orders)

    def _put(self, session: Session, orders: FollowOrders) -> None:
        granted = session.granted_filter(FOLLOW)
        if granted is not None:
            message = OutboundMessage(PublishFrame(FOLLOW, msgspec.json.encode(orders)))
            self._dispatcher.put(session, QueuedDelivery(message, min(1, granted.wanted.qos)))


def _silence(session: Session, silent: bool) -> SilenceTold:
    part = "" if session.client_id == session.node else session.client_id
    return SilenceTold(session.node, silent, part)


def _report(payload: bytes) -> FollowReport:
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(BAD_JSON, f"this is no report: {error}") from None
