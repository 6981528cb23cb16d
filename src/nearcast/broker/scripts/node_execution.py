"""Scripts that run at their node: it makes the calls, if it runs the SDK's host.

A client that subscribes to `$me/calls` runs the scripts that its own node has placed there. The
broker keeps their subscriptions, queues and states as for all scripts; a call goes to the node, and
what comes of it is checked and applied like what comes of a worker. If the node is away, or does
not answer in time, the calls that have no result are made here. Scripts of other nodes, which see
what their sender sees, and scripts that read contexts, which the broker has, stay here.
"""

import re
from collections.abc import Sequence
from math import inf

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.ingest.command_handler import Answered
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.scripts.hosted_script import HostedScript
from nearcast.broker.scripts.placed_script import PlacedScript, subscriptions_of
from nearcast.broker.scripts.script_book import ScriptBook
from nearcast.broker.scripts.script_runner import ScriptRunner
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.nc_properties import BAD, BAD_JSON, SubscriptionOptions
from nearcast.broker.situation.topic_names import CALLS
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Input, Left, Presence
from nearcast.placement.hosting_messages import (
    CallOrders,
    HostedSource,
    HostOrders,
    HostReport,
)
from nearcast.placement.limits import STATE_BYTES
from nearcast.placement.worker_messages import CallDone
from nearcast.placement.worker_pool import ScriptBatch
from nearcast.wire.mqtt import Publish, PublishFrame

RESULTS = f"{CALLS}/results"
ANSWER_WITHIN_S = 30.0
"""A node that gives no result of a call for longer does not host any more."""
_CONTEXT = re.compile(r"\bcontext\b")
_PLAIN = SubscriptionOptions()
_DECODER = msgspec.json.Decoder(HostReport)


class _Host(msgspec.Struct):
    session: Session
    run: int
    has_scripts: bool = False
    """It was told its scripts."""


class _Ordered(msgspec.Struct):
    host: _Host
    batch: ScriptBatch
    due: float


class NodeExecution(OutcomeFollower):
    """Lets nodes make the calls of their scripts."""

    def __init__(
        self,
        state: BrokerState,
        book: ScriptBook,
        runner: ScriptRunner,
        dispatcher: DeliveryDispatcher,
    ) -> None:
        self._state = state
        self._book = book
        self._runner = runner
        self._dispatcher = dispatcher
        self._hosts: dict[str, _Host] = {}
        """By node."""
        self._ordered: dict[int, _Ordered] = {}
        self._numbers = 0
        self._changed: set[str] = set()
        """Nodes whose scripts are others than they were told."""

    # Hosts

    def listen(self, session: Session) -> None:
        """Let a session host: it has subscribed, or its client is back."""
        before = self._hosts.get(session.node)
        if before is not None:
            if before.session is not session:
                self._put(before.session, HostOrders(0, why="another part of the node hosts"))
            self._end(before)
        self._numbers = max(self._numbers + 1, int(self._state.now * 1000.0))
        self._hosts[session.node] = _Host(session, self._numbers)
        self._changed.add(session.node)

    def note_changed(self, node: str) -> None:
        """Note that the scripts at a node are others."""
        if node in self._hosts:
            self._changed.add(node)

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Follow who comes and goes."""
        for value in others:
            if not isinstance(value, Presence | Left):
                continue
            client_id = value.session or value.node
            if isinstance(value, Presence) and value.here:
                session = self._state.sessions.get(client_id)
                if session is not None and session.granted_filter(CALLS) is not None:
                    self.listen(session)
                continue
            host = self._hosts.get(value.node)
            if host is not None and host.session.client_id == client_id:
                self._end(host)

    def remind(self, now: float) -> None:
        """Tell hosts their scripts, and end those that do not answer."""
        changed, self._changed = self._changed, set()
        for node in sorted(changed):
            host = self._hosts.get(node)
            if host is not None:
                mine = [each for each in self._book.at(node) if is_portable(each.placed)]
                if not host.has_scripts:
                    host.has_scripts = True
                    for script in mine:
                        # What a worker does meanwhile would make another state.
                        self._runner.abandon(script)
                self._put(host.session, HostOrders(host.run, tuple(map(_hosted, mine))))
        for ordered in [each for each in self._ordered.values() if each.due <= now]:
            why = f"no result for {ANSWER_WITHIN_S:g} s"
            self._put(ordered.host.session, HostOrders(0, why=why))
            self._end(ordered.host)

    def next_timer(self) -> float | None:
        """The time when a result is overdue."""
        due = min((each.due for each in self._ordered.values()), default=inf)
        return None if due == inf else due

    @property
    def is_due(self) -> bool:
        """Whether hosts are to be told something."""
        return bool(self._changed)

    def _end(self, host: _Host) -> None:
        """Make the calls here that have no result."""
        node = host.session.node
        if self._hosts.get(node) is host:
            del self._hosts[node]
        for number, ordered in list(self._ordered.items()):
            if ordered.host is host:
                del self._ordered[number]
                ordered.batch.listener.finished(False)

    # Calls

    def submit(self, script: HostedScript, batch: ScriptBatch) -> bool:
        """Let the node of a script make calls; False if it does not host it."""
        placed = script.placed
        host = self._hosts.get(placed.node)
        if host is None or not is_portable(placed):
            return False
        if not host.has_scripts or placed.node in self._changed:
            # It is told of the script before it is to run it.
            self.remind(self._state.now)
        self._numbers += 1
        calls = CallOrders(self._numbers, placed.id, placed.version, batch.calls)
        if not self._put(host.session, HostOrders(host.run, calls=calls)):
            self._end(host)
            return False
        due = self._state.now + ANSWER_WITHIN_S
        self._ordered[self._numbers] = _Ordered(host, batch, due)
        return True

    def take(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> Answered:
        """Take what came of calls; raises `RefusedError`."""
        report = _report(packet.payload)
        host = self._hosts.get(session.node)
        if host is None or host.session is not session or host.run != report.run:
            if report.number or report.end:
                return None
            raise RefusedError(BAD, "the broker runs the scripts of this node meanwhile")
        if report.end:
            self._end(host)
            return None
        for result in report.results:
            _check(result)
        if packet.qos:
            self._state.journal.must_sync = True
        if report.number:
            self._take_ordered(report, now)
            return None
        script = self._book.get(f"{session.node}~{report.id}")
        if script is None or not is_portable(script.placed):
            raise RefusedError(BAD, f"there is no script {report.id!r} to run here")
        if script.placed.version != report.version:
            raise RefusedError(BAD, f"the script {report.id!r} was edited meanwhile")
        while self._runner.has_results:
            # Results that came before are applied before.
            self._runner.apply_results(now)
        for result in report.results:
            self._runner.apply_made(script, result, now)
        return None

    def _take_ordered(self, report: HostReport, now: float) -> None:
        ordered = self._ordered.get(report.number)
        if ordered is None:
            return
        ordered.due = now + ANSWER_WITHIN_S
        for result in report.results[: len(ordered.batch.calls)]:
            ordered.batch.listener.called(result)
        if report.done:
            del self._ordered[report.number]
            ordered.batch.listener.finished(False)

    def _put(self, session: Session, orders: HostOrders) -> bool:
        granted = session.granted_filter(CALLS)
        if granted is None:
            return False
        message = OutboundMessage(PublishFrame(CALLS, msgspec.json.encode(orders)))
        return self._dispatcher.put(session, QueuedDelivery(message, min(1, granted.wanted.qos)))


def is_portable(placed: PlacedScript) -> bool:
    """Whether a script may run at its node: of the node itself, and not about contexts."""
    return not placed.is_foreign and _CONTEXT.search(placed.source) is None


def _hosted(script: HostedScript) -> HostedSource:
    placed = script.placed
    plain = [each for each in subscriptions_of(placed.events) if each.options == _PLAIN]
    return HostedSource(
        placed.id, placed.version, placed.source, tuple(each.subject for each in plain),
        script.state, bool(placed.problem),
    )  # fmt: skip


def _check(result: CallDone) -> None:
    """Refuse a state that no worker would have left."""
    if result.state is None:
        return
    if len(result.state) > STATE_BYTES:
        raise RefusedError(BAD, f"a state has at most {STATE_BYTES} bytes")
    try:
        msgspec.json.decode(result.state, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(BAD, f"a state is a JSON object: {error}") from None


def _report(payload: bytes) -> HostReport:
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(BAD_JSON, f"this is no report of calls: {error}") from None
