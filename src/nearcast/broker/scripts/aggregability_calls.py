"""Calls of the functions that say what events need before they leave (`{"function": …}`).

The engine asks, a worker answers in its own time, and what the function said becomes an input. A
function that fails, takes too long or says nonsense hurts only its owner: the need beside `else`
applies, the owner is told, and after some failures in a row it is not called any more.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.quotas.quota_book import user_name
from nearcast.broker.scripts.script_event import script_event
from nearcast.broker.scripts.script_runner import Executor
from nearcast.broker.situation.errors import ErrorReports
from nearcast.core.engine.engine import NeedQuestion, Outcome
from nearcast.core.gathering.needs.aggregability import parse_aggregability
from nearcast.core.gathering.needs.needs import needs_of_text
from nearcast.core.gathering.needs.needs_by_function import FUNCTION, NeedsByFunction
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Input, NeedTold
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.core.model.visibility import SEE_ATTRIBUTES, SEE_IDENTITY, SEE_POSITION
from nearcast.placement.limits import FAILURES
from nearcast.placement.worker_messages import CallDone, ScriptCall, SourceChecked
from nearcast.placement.worker_pool import BatchListener, ScriptBatch

MOST_CALLS = 100
"""Calls of one batch."""


class _Function(BatchListener):
    """The function of one subscription, and the events that it is asked about."""

    def __init__(self, calls: "AggregabilityCalls", subscription: Subscription) -> None:
        self.calls = calls
        self.subscription = subscription
        self.by = _function_of(subscription)
        digest = hashlib.sha256(self.by.source.encode()).hexdigest()[:16]
        self.version = f"{subscription.id} {digest}"
        self.asked: dict[tuple[str, str], Event] = {}
        """Events that are still to be asked about, by publisher and id."""
        self.reading: deque[Event] = deque()
        """Those of the running batch that have no answer yet."""
        self.is_running = False
        self.failures = 0
        self._said = b""

    def begin(self) -> None:
        """Begin a batch."""
        self.is_running, self._said = True, b""

    def checked(self, result: SourceChecked) -> None:
        """The source cannot be loaded: the first call fails."""
        self.called(CallDone(problem=result.problem))

    def called(self, result: CallDone) -> None:
        """Take what the function said of the next event; the same as before is not repeated."""
        if self.reading:
            self._said = result.state or self._said
            self.calls.note(self, self.reading.popleft(), self._said, result.problem)

    def context(self, node: str) -> bytes:
        """Return what the subscriber may see of a node."""
        return msgspec.json.encode(self.calls.side(self.subscription.node, node)["context"])

    def finished(self, broken: bool) -> None:
        """Let the rest be asked again; if the worker broke, the first one is what broke it."""
        self.calls.note_finished(self, broken)


class AggregabilityCalls(OutcomeFollower):
    """Asks functions what events need, and tells the engine."""

    def __init__(self, state: BrokerState, errors: ErrorReports) -> None:
        self._state = state
        self._errors = errors
        self._executor: Executor | None = None
        self._wake: Callable[[], object] = lambda: None
        self._functions: dict[str, _Function] = {}
        """By subscription."""
        self._told: deque[tuple[_Function, Event, str, str]] = deque()
        """Needs that were said, or problems, which are not applied yet."""
        self._calls = self._failures = 0

    def start(self, executor: Executor, wake: Callable[[], object]) -> None:
        """Ask from now on, first about what waited before a restart."""
        self._executor, self._wake = executor, wake
        self._ask(self._state.engine.unanswered_needs())

    @property
    def is_due(self) -> bool:
        """Whether answers wait to be applied."""
        return bool(self._told)

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Ask about events of a step."""
        if outcome.need_questions:
            self._ask(outcome.need_questions)
        engine = self._state.engine
        if self._functions and others:
            for id_ in [id_ for id_ in self._functions if id_ not in engine.subscriptions]:
                del self._functions[id_]

    def go_on(self, now: float) -> None:
        """Apply what functions said since the last tick."""
        while self._told:
            function, event, need, problem = self._told.popleft()
            wanted = function.subscription
            self._calls += 1
            if problem:
                self._failures += 1
                self._tell_owner(function, problem)
            self._state.pending.ask(
                NeedTold(wanted.node, wanted.id, event.publisher, event.id, need)
            )

    def note(self, function: _Function, event: Event, said: bytes, problem: str) -> None:
        """Take what a function said; it is applied in the next tick."""
        need = ""
        if not problem:
            try:
                need = _need_in(said)
            except ModelError as error:
                problem = str(error)
        function.failures = function.failures + 1 if problem else 0
        self._told.append((function, event, need, problem))
        self._state.is_woken = True
        self._wake()

    def note_finished(self, function: _Function, broken: bool) -> None:
        """Begin the next batch of a function."""
        function.is_running = False
        if broken and function.reading:
            why = "it broke the process that it ran in"
            self.note(function, function.reading.popleft(), b"", why)
        again = {(event.publisher, event.id): event for event in function.reading}
        function.asked = again | function.asked
        function.reading.clear()
        self._start(function)

    def statistics(self) -> dict[str, float]:
        """Counters."""
        return {
            "aggregability_calls_total": self._calls,
            "aggregability_failures_total": self._failures,
        }

    def _ask(self, questions: Sequence[NeedQuestion]) -> None:
        touched: dict[str, _Function] = {}
        for question in questions:
            wanted = self._state.engine.subscriptions.get(question.subscription)
            if wanted is None:
                continue
            function = self._functions.get(wanted.id)
            if function is None or function.subscription.aggregate != wanted.aggregate:
                function = self._functions[wanted.id] = _Function(self, wanted)
            event = question.event
            function.asked[event.publisher, event.id] = event
            touched[wanted.id] = function
        for function in touched.values():
            self._start(function)

    def _start(self, function: _Function) -> None:
        if function.is_running or not function.asked or self._executor is None:
            return
        if self._functions.get(function.subscription.id) is not function:
            return
        if function.failures >= FAILURES:
            asked, function.asked = function.asked, {}
            self._told += ((function, event, "", "") for event in asked.values())
            self._state.is_woken = True
            self._wake()
            return
        session = self._state.sessions.get(function.subscription.owner)
        owner = None if session is None else session.owner
        if owner is None:
            return
        keys = list(function.asked)[:MOST_CALLS]
        function.reading.extend(function.asked.pop(key) for key in keys)
        function.begin()
        me = self.side(function.subscription.node, function.subscription.node)
        calls = tuple(
            ScriptCall(FUNCTION, msgspec.json.encode([me, self._other(function, event)]))
            for event in function.reading
        )
        self._executor.submit(
            ScriptBatch(
                user_name(owner), function.version, function.by.source, b"{}", calls, function
            )
        )

    def _other(self, function: _Function, event: Event) -> dict[str, object]:
        """Return the sender as the subscriber may see it, with its event."""
        viewer = function.subscription.node
        sees = self._state.engine.matcher.world.may_see(viewer, event.publisher)
        if not event.publisher:
            # Nobody is behind a base set or an aggregate.
            sees = 0
        told = script_event(event, sees)
        return self.side(viewer, event.publisher, sees) | {"event": msgspec.Raw(told)}

    def side(self, viewer: str, node: str, sees: int | None = None) -> dict[str, object]:
        """Return a node as another may see it: its name, context and position."""
        engine = self._state.engine
        if sees is None:
            sees = engine.matcher.world.may_see(viewer, node)
        at = engine.position(node) if sees & SEE_POSITION else None
        return {
            "node": node if sees & SEE_IDENTITY else None,
            "context": engine.rights.context(node) if sees & SEE_ATTRIBUTES else None,
            "position": None if at is None else [at.lon, at.lat],
        }

    def _tell_owner(self, function: _Function, problem: str) -> None:
        id_ = SubscriptionId.parse(function.subscription.id)
        session = self._state.sessions.get(id_.client_id)
        if session is None:
            return
        rest = function.by.otherwise.text
        why = f"{FUNCTION} failed: {problem}; {rest} applies"
        if function.failures >= FAILURES:
            why += f"; after {FAILURES} failures in a row it is not called any more"
        if function.failures <= FAILURES:
            self._errors.tell_now_or_later(session, id_.name or id_.filter, why)


def _function_of(subscription: Subscription) -> NeedsByFunction:
    found = parse_aggregability(subscription.aggregate).by_function
    assert found is not None
    return found


def _need_in(said: bytes) -> str:
    """Return the need that a function returned, as text; raise `ModelError` if it is none."""
    need = msgspec.json.decode(said, type=dict[str, object]).get("need") if said else None
    if isinstance(need, dict) and len(need) == 1:
        ((kind, number),) = need.items()
        need = f"{kind} {number:g}" if isinstance(number, int | float) else f"{kind} {number}"
    if not isinstance(need, str):
        raise ModelError('it returns a need such as "volume 5" or {"people": 10}')
    return needs_of_text(need).text
