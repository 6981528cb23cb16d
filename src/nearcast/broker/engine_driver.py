"""The only path from inputs to results: the engine decides, then the results are carried out.

Deliveries are dispatched, records and changes are noted in the journal, clients are answered, and
the registered followers are called.
"""

from collections.abc import Callable, Sequence, Sized

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.durability.outcome_recorder import OutcomeRecorder
from nearcast.broker.ingest.acknowledgements import Acknowledger, refused_for
from nearcast.broker.ingest.pending_inputs import DECIDED, Answer
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.scheduling.phase_timer import Phase
from nearcast.broker.situation.errors import ErrorReports
from nearcast.core.engine.dependent import overriding
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Input, Moved, Published
from nearcast.store import LiveSeen

_FREQUENT = (Moved, Published)
MOST_INPUTS = 256
"""Inputs of one engine step; with more, a step is made before the tick ends."""
MOST_PAIRS = 250
"""Pairs of an event and a subscription that one step may have to evaluate outside kernels."""
MOST_SCRIPT_COPIES = 500
"""Copies for scripts that one step may have to queue; an event for more is a step by itself."""
FEW_SCRIPTS = 50
FEW_LIVE = 100
"""A move that takes along more live events than this is the last input of its step."""


class EngineDriver:
    """Runs engine steps and carries out their results."""

    def __init__(
        self,
        state: BrokerState,
        dispatcher: DeliveryDispatcher,
        recorder: OutcomeRecorder,
        acknowledger: Acknowledger,
        errors: ErrorReports,
    ) -> None:
        self._state = state
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._acknowledger = acknowledger
        self._errors = errors
        self._followers: list[OutcomeFollower] = []
        self._reminders: list[Callable[[float], None]] = []
        self._timers: list[Callable[[], float | None]] = []
        self.scripts: Sized = ()
        """The scripts of this broker."""
        self._script_copies = 0
        """Copies of the pending events that may be for scripts."""
        self._busy_tick = -1
        """The tick of the last step with more of them than a step is to have."""

    def register(self, follower: OutcomeFollower) -> None:
        """Call a follower after every step from now on."""
        self._followers.append(follower)
        self._reminders += overriding([follower], OutcomeFollower, "remind")
        self._timers += overriding([follower], OutcomeFollower, "next_timer")

    def next_timer(self) -> float | None:
        """The time when the engine or a follower is due next."""
        due = self._state.engine.next_timer()
        for next_timer in self._timers:
            at = next_timer()
            if at is not None and (due is None or at < due):
                due = at
        return due

    @property
    def is_step_due(self) -> bool:
        """True if a step with the pending inputs is work enough for one piece."""
        inputs, engine = self._state.pending.inputs, self._state.engine
        if not inputs:
            return False
        last = inputs[-1]
        if type(last) is Moved and engine.live_events_moved_by(last.node) > FEW_LIVE:
            return True
        return len(inputs) >= self._most_inputs or self._script_copies >= MOST_SCRIPT_COPIES

    @property
    def is_tick_full(self) -> bool:
        """True if a step of this tick had so many copies for scripts that other input waits."""
        return self._busy_tick == self._state.costs.ticks

    def script_copies(self, topic: str) -> int:
        """How many copies of an event may be for scripts, at most; 0 if there are few scripts.

        They are queued one by one, whereas clients mostly share what is written to them.
        """
        scripts = len(self.scripts)
        if scripts <= FEW_SCRIPTS:
            return 0
        # A topic alias may stand for any topic.
        return min(scripts, self._state.engine.count_fitting(topic)) if topic else scripts

    def most_together(self, topic: str) -> int | None:
        """How many messages on a topic may be one run; None: any number."""
        copies = self.script_copies(topic)
        return max(1, MOST_SCRIPT_COPIES // copies) if copies > FEW_SCRIPTS else None

    @property
    def _most_inputs(self) -> int:
        """How many inputs may be pending before a step is due.

        Fewer if each of them may be evaluated for many subscriptions outside kernels.
        """
        evaluated = self._state.engine.matcher.evaluated_subscriptions
        return MOST_INPUTS if not evaluated else max(1, min(MOST_INPUTS, MOST_PAIRS // evaluated))

    def publish(self, event: Event, now: float, answer: Answer | None = None) -> None:
        """Queue an event for the next engine step, with the answer for its publisher."""
        pending = self._state.pending
        if pending.has_event(event.publisher, event.id):
            # A repeat or a withdrawal of a pending event: decide the first one before.
            self.step(now)
        if answer is not None:
            pending.answer_next(answer)
        pending.publish(event)
        self._script_copies += self.script_copies(event.subject)
        if event.qos:
            self._state.journal.must_sync = True

    def step(self, now: float) -> None:
        """Deliver what took a route, and run an engine step if one is due."""
        self._dispatcher.flush()
        self.decide(now)

    def decide(self, now: float) -> None:
        """Run an engine step on all pending inputs and due timers, if there are any.

        Otherwise events that took a route wait on, to be delivered together at the end of the tick.
        """
        pending = self._state.pending
        if not pending:
            timer = self._state.engine.next_timer()
            if timer is None or timer > now:
                return
        # Deliveries that took a route in this tick precede those that the engine decides.
        self._dispatcher.flush()
        inputs, answers = pending.take()
        if self._script_copies >= MOST_SCRIPT_COPIES:
            self._busy_tick = self._state.costs.ticks
        self._script_copies = 0
        outcome = self._decide(inputs, now)
        self._answer(inputs, answers, outcome)
        self._tell_followers(inputs, outcome, now)

    def apply(self, value: Input, now: float) -> None:
        """Apply an operator's input at once; raises `ModelError` if it is refused."""
        self.step(now)
        outcome = self._decide([value], now)
        for refusal in outcome.refusals:
            raise ModelError(refusal.reason)
        self._tell_followers([value], outcome, now)

    def remind_followers(self, now: float) -> None:
        """Let all followers do what is due."""
        for remind in self._reminders:
            remind(now)

    def _tell_followers(self, inputs: Sequence[Input], outcome: Outcome, now: float) -> None:
        self._state.is_woken = True
        others = [each for each in inputs if type(each) not in _FREQUENT]
        for follower in self._followers:
            follower.follow(others, outcome, now)

    def _decide(self, inputs: Sequence[Input], now: float) -> Outcome:
        state, engine = self._state, self._state.engine
        began = state.costs.clock()
        before = state.phases.switch(Phase.ENGINE)
        state.now = now
        outcome = engine.step(inputs, now)
        state.phases.switch(Phase.DISPATCH)
        # Deliver before recording: a recipient of a live event that a newer one replaces gets the
        # older one.
        for deliveries in outcome.sent:
            self._dispatcher.deliver(deliveries)
        state.priorities.withheld += engine.take_withheld()
        state.costs.charge_step(inputs, outcome.sent, engine.take_evaluations(), began)
        state.phases.switch(Phase.RECORDING)
        self._recorder.record(outcome, now)
        self._recorder.record_undelivered(now)
        for owner in outcome.behind:
            session = state.sessions.get(owner)
            if session is not None:
                session.misses = True
                if session.connection is not None:
                    state.touch(session.connection)
        for event, owner in outcome.passed_over:
            session = state.sessions.get(owner)
            if session is not None and session.durable:
                state.seen.append((event, session))
        for event, session in state.seen:
            if engine.has_seen(event, session.client_id):
                seen = LiveSeen(engine.live_key(event), session.lifetime)
                state.journal.note(seen, sync=False)
        state.seen.clear()
        state.phases.switch(before)
        return outcome

    def _answer(
        self,
        inputs: Sequence[Input],
        answers: Sequence[tuple[int, Answer, RefusedError | None]],
        outcome: Outcome,
    ) -> None:
        refusals = {refusal.index: refusal.reason for refusal in outcome.refusals}
        for index, answer, refused in answers:
            if index != DECIDED and index in refusals:
                refused = refused_for(inputs[index], refusals[index])
            if refused is None:
                for change in answer.keep:
                    self._state.journal.note(change)
            elif answer.connection.session is not None:
                self._errors.tell(answer.connection.session, answer.topic, refused.why)
            self._acknowledger.answer(answer, refused)
