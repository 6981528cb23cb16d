"""Running scripts: what waits for one becomes calls, and what they do is applied in its tick.

A call reads one message: an event, or a command to run. Its state and its events are applied
together with taking the message off the queue, in one commit, or not at all if it failed. The event
loop never waits: workers run the calls, and results are applied within the budget of ticks.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.ingest.publish import PublishHandler
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.quotas.quota_book import user_name
from nearcast.broker.scheduling.input_scheduler import InputScheduler
from nearcast.broker.scripts.hosted_script import EXECUTE, HostedScript, hops_of
from nearcast.broker.scripts.placed_script import PlacedScript
from nearcast.broker.scripts.ready_scripts import ReadyScripts
from nearcast.broker.scripts.script_book import ScriptBook
from nearcast.broker.scripts.script_reports import ScriptReports
from nearcast.broker.scripts.script_turns import SCRIPT_CALL, ScriptTurns
from nearcast.broker.sessions.loss_reason import LossReason
from nearcast.broker.sessions.outbound_message import QueuedDelivery
from nearcast.core.model.visibility import SEE_ATTRIBUTES, SEE_POSITION
from nearcast.placement.limits import CALL_EVENTS, FAILURES
from nearcast.placement.worker_messages import CallDone, ScriptCall, SourceChecked
from nearcast.placement.worker_pool import BatchListener, ScriptBatch

MOST_CALLS = 100
"""Calls of one batch."""


class Executor(Protocol):
    """Makes the calls of scripts; results come to the listener of a batch."""

    def submit(self, batch: ScriptBatch) -> None:
        """Queue a batch."""

    def statistics(self) -> dict[str, float]:
        """Counters and gauges."""


class RunningBatch(BatchListener):
    """The calls of one script that are being made, and the messages that they read."""

    def __init__(
        self, runner: "ScriptRunner", script: HostedScript, reading: deque[QueuedDelivery]
    ) -> None:
        self._runner = runner
        self.script = script
        self.reading = reading
        """Messages whose call has no result yet."""
        self.is_stale = False
        """Results that come from now on have no effect."""
        self.batch: ScriptBatch | None = None

    def checked(self, result: SourceChecked) -> None:
        """The script cannot be loaded any more: its first call fails."""
        self._runner.note(self, CallDone(problem=result.problem))

    def called(self, result: CallDone) -> None:
        """Let a result be applied in the next tick."""
        self._runner.note(self, result)

    def context(self, node: str) -> bytes:
        """Return what the sender may see of a node."""
        return self._runner.context(self.script, node)

    def finished(self, broken: bool) -> None:
        """Let the rest be run again."""
        self._runner.note(self, broken)


class ScriptRunner:
    """Runs the scripts of a broker."""

    def __init__(
        self,
        state: BrokerState,
        book: ScriptBook,
        publishing: PublishHandler,
        reports: ScriptReports,
        dispatcher: DeliveryDispatcher,
        scheduler: InputScheduler,
        turns: ScriptTurns,
    ) -> None:
        self._state = state
        self._book = book
        self._publishing = publishing
        self._reports = reports
        self._dispatcher = dispatcher
        self._scheduler = scheduler
        self._turns = turns
        self.executor: Executor | None = None
        self.submit_to_node: Callable[[HostedScript, ScriptBatch], bool] = lambda *_: False
        """Lets the node of a script make calls; False if it does not."""
        self.wake: Callable[[], object] = lambda: None
        """Lets the host run a tick."""
        self._ready = ReadyScripts()
        """Scripts with something to read, that no batch is running for."""
        self._results: deque[tuple[RunningBatch, CallDone | bool]] = deque()
        self._calls = self._failures = 0

    def start(self, executor: Executor, wake: Callable[[], object]) -> None:
        """Run scripts from now on; `wake` lets the host run a tick."""
        self.executor, self.wake = executor, wake

    @property
    def has_results(self) -> bool:
        """Whether results wait to be applied."""
        return bool(self._results)

    @property
    def is_due(self) -> bool:
        """Whether results wait to be applied, or calls to be begun."""
        return bool(self._results) or (bool(self._ready) and self.executor is not None)

    def note(self, running: RunningBatch, result: CallDone | bool) -> None:
        """Take a result, or the end of a batch; it is applied in the next tick."""
        self._results.append((running, result))
        self._state.is_woken = True
        self.wake()

    def note_queued(self, script: HostedScript) -> None:
        """Note that a script has something to read."""
        if script.batch is None:
            self._ready.add(script)
            self._state.is_woken = True

    def queue(self, script: HostedScript, args: bytes) -> bool:
        """Queue a call of `run`; False if too much waits already."""
        return self._dispatcher.put(script.session, script.execution(args))

    # In a tick

    def apply_results(self, now: float) -> None:
        """Apply the results that there are, as long as it is the turn of scripts."""
        turns = self._turns
        while self._results:
            since = turns.clock()
            running, result = self._results.popleft()
            if isinstance(result, CallDone):
                if not running.is_stale:
                    self._apply(running, result, now)
            else:
                self._finish(running, result)
            turns.charge(running.script.session, SCRIPT_CALL, since)
            if turns.is_over:
                break

    def start_ready(self, now: float) -> None:
        """Let workers make the calls of scripts that have something to read, likewise."""
        turns = self._turns
        while self._ready and self.executor is not None:
            since = turns.clock()
            script = self._ready.pop()
            if script.batch is None and not script.placed.problem:
                self._start(script, now)
            turns.charge(script.session, SCRIPT_CALL, since)
            if turns.is_over:
                break

    def abandon(self, script: HostedScript) -> None:
        """Let the calls of a script that are being made have no effect; they are made again."""
        running = script.batch
        if running is not None:
            running.is_stale = True
            script.held.extendleft(reversed(running.reading))
            running.reading.clear()

    def forget(self, script: HostedScript) -> None:
        """Drop a script that has ended."""
        self.abandon(script)
        script.held.clear()
        self._ready.discard(script)

    def context(self, script: HostedScript, node: str) -> bytes:
        """Return the context of a node as its sender may see it; empty if there is none."""
        state = self._state
        sees = state.engine.matcher.world.may_see(script.placed.sender_node, node)
        if sees & SEE_ATTRIBUTES != SEE_ATTRIBUTES:
            return b""
        members = state.engine.rights.context(node)
        known = state.engine.nodes.get(node)
        at = state.engine.position(node) if sees & SEE_POSITION else None
        if at is not None:
            members["position"] = [at.lon, at.lat]
        return msgspec.json.encode(members) if members or known is not None else b""

    def statistics(self) -> dict[str, float]:
        """Counters and gauges."""
        found: dict[str, float] = {
            "scripts": len(self._book),
            "script_calls_total": self._calls,
            "script_failures_total": self._failures,
        }
        return found if self.executor is None else found | self.executor.statistics()

    def _start(self, script: HostedScript, now: float) -> None:
        state, session, placed = self._state, script.session, script.placed
        if session.losses:
            self._tell_losses(script)
        if not script.held:
            script.held.extend(session.take(now, state.journal))
            if session.misses and session.has_room(state.limits):
                session.misses = False
                self._scheduler.replays.append(session)
        if not script.held or self.executor is None:
            return
        most = 1 if script.is_careful else MOST_CALLS
        reading = deque(script.held.popleft() for _ in range(min(most, len(script.held))))
        running = script.batch = RunningBatch(self, script, reading)
        running.batch = ScriptBatch(
            user_name(placed.owner), placed.version, placed.source, script.state,
            tuple(map(_call, reading)), running, together=not script.is_careful,
        )  # fmt: skip
        if not self.submit_to_node(script, running.batch):
            self.executor.submit(running.batch)

    def apply_made(self, script: HostedScript, result: CallDone, now: float) -> None:
        """Apply what came of a call that a node made by itself; raises `RefusedError`."""
        self._calls += 1
        if not result.problem:
            self._put_in_effect(script, result, 0, now)
            script.failures = 0
        else:
            self._note_failure(script, "on_event", result.problem, now)

    def _apply(self, running: RunningBatch, result: CallDone, now: float) -> None:
        """Apply the result of a call, or tell why it failed."""
        script, delivery = running.script, running.reading.popleft()
        self._calls += 1
        problem = result.problem
        if not problem:
            try:
                self._put_in_effect(script, result, hops_of(delivery), now)
            except RefusedError as refusal:
                # The calls after it had a state that it did not leave.
                problem = str(refusal)
                self.abandon(script)
        script.session.finish_reading(delivery, self._state.journal)
        if not problem:
            script.failures = 0
            return
        what = "run" if delivery.message.frame.topic == EXECUTE else "on_event"
        self._note_failure(script, what, problem, now)

    def _note_failure(self, script: HostedScript, what: str, problem: str, now: float) -> None:
        self._failures += 1
        script.failures += 1
        self._reports.tell(script.placed, f"{what} failed: {problem}", now)
        if script.failures >= FAILURES:
            self._stop(script, problem, now)

    def _put_in_effect(self, script: HostedScript, result: CallDone, hops: int, now: float) -> None:
        outputs = self._publishing.script_events(
            script.session, result.outputs[:CALL_EVENTS], hops + 1, now
        )
        if result.state is not None:
            self._book.set_state(script, result.state)
        self._publishing.publish_events(outputs, now)

    def _stop(self, script: HostedScript, problem: str, now: float) -> None:
        """Stop a script that failed too often, until it is edited."""
        self.abandon(script)
        with self._state.journal.aside():
            self._book.change(script, _stopped(script.placed, problem))
        waiting = len(script.held) + script.session.waiting
        for delivery in script.held:
            script.session.finish_reading(delivery, self._state.journal)
        script.held.clear()
        script.session.drop(lambda each: True, self._state.journal)
        lost = f"; {waiting} events that waited were dropped" if waiting else ""
        why = f"stopped after {FAILURES} failures in a row, until it is edited{lost}"
        self._reports.tell(script.placed, why, now)
        self._reports.note_changed(script.placed.node)

    def _finish(self, running: RunningBatch, broken: bool) -> None:
        """Let a script go on with what no call was made for, and with what came meanwhile."""
        script = running.script
        if script.batch is not running:
            return
        self.abandon(script)
        script.batch = None
        script.is_careful = broken
        if script.held or script.session.waiting:
            self._ready.add(script)

    def _tell_losses(self, script: HostedScript) -> None:
        losses, script.session.losses = script.session.losses or {}, None
        for key, count in losses.items():
            reason, _ = LossReason.parts(key)
            why = f"{count} events were dropped on the way to it: {reason}"
            self._reports.tell(script.placed, why, self._state.now)


def _call(delivery: QueuedDelivery) -> ScriptCall:
    frame = delivery.message.frame
    return ScriptCall("run" if frame.topic == EXECUTE else "on_event", frame.payload)


def _stopped(placed: PlacedScript, problem: str) -> PlacedScript:
    return msgspec.structs.replace(placed, problem=problem)
