"""The scripts of a broker: one place for its hub, its host and its store."""

from collections.abc import Callable

from nearcast.broker.auth.admission import Admission
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.publish import PublishHandler
from nearcast.broker.ingest.subscribe import SubscribeHandler
from nearcast.broker.net.connection import Connection
from nearcast.broker.scheduling.input_scheduler import InputScheduler
from nearcast.broker.scripts.aggregability_calls import AggregabilityCalls
from nearcast.broker.scripts.node_execution import RESULTS, NodeExecution
from nearcast.broker.scripts.script_book import ScriptBook
from nearcast.broker.scripts.script_commands import OWN, ScriptCommands
from nearcast.broker.scripts.script_reports import ScriptReports
from nearcast.broker.scripts.script_runner import Executor, ScriptRunner
from nearcast.broker.scripts.script_subscriptions import ScriptSubscriptions
from nearcast.broker.scripts.script_turns import ScriptTurns
from nearcast.broker.sessions.session_lifecycle import SessionLifecycle
from nearcast.broker.situation.errors import ErrorReports

NODE = "$node/"


class ScriptHost:
    """Hosts scripts on behalf of nodes."""

    def __init__(
        self,
        state: BrokerState,
        driver: EngineDriver,
        dispatcher: DeliveryDispatcher,
        acknowledger: Acknowledger,
        errors: ErrorReports,
        admission: Admission,
        lifecycle: SessionLifecycle,
        publishing: PublishHandler,
        subscribing: SubscribeHandler,
        scheduler: InputScheduler,
    ) -> None:
        self._state = state
        self.book = book = ScriptBook(state)
        driver.scripts = book
        self._reports = reports = ScriptReports(state, book, dispatcher, errors)
        self._turns = turns = ScriptTurns(state, scheduler)
        self.runner = runner = ScriptRunner(
            state, book, publishing, reports, dispatcher, scheduler, turns
        )
        """Runs them, once it has an executor."""
        subscriptions = ScriptSubscriptions(state, subscribing)
        self._commands = commands = ScriptCommands(
            state, driver, acknowledger, admission, lifecycle, scheduler, subscriptions, book,
            runner, reports, turns,
        )  # fmt: skip
        self._lifecycle = lifecycle
        publishing.commands.register(NODE, commands.place)
        publishing.commands.register(OWN, commands.evict)
        subscribing.listens_to_scripts = reports.listen
        self._at_nodes = at_nodes = NodeExecution(state, book, runner, dispatcher)
        driver.register(at_nodes)
        runner.submit_to_node = at_nodes.submit
        reports.on_changed = at_nodes.note_changed
        publishing.commands.register(RESULTS, at_nodes.take)
        self.aggregability = AggregabilityCalls(state, errors)
        """Asks functions what events that wait need."""
        driver.register(self.aggregability)
        subscribing.hosts = at_nodes.listen

    @property
    def is_due(self) -> bool:
        """Whether something of scripts is to be done in the next tick."""
        return (
            self._turns.is_due
            or self.runner.is_due
            or self._commands.is_due
            or self._at_nodes.is_due
            or self.aggregability.is_due
        )

    def start(self, executor: Executor, wake: Callable[[], object]) -> None:
        """Run scripts and functions from now on; `wake` lets the host run a tick."""
        self.runner.start(executor, wake)
        self.aggregability.start(executor, wake)

    def go_on(self, now: float) -> None:
        """Apply what workers have done since the last tick."""
        self._turns.go_on(now)
        if self._commands.is_due:
            self._commands.apply_checks(now)
        if self.runner.has_results:
            self.runner.apply_results(now)
        if self.aggregability.is_due:
            self.aggregability.go_on(now)

    def run_ready(self, now: float) -> None:
        """Let workers run what has come, once all input of a tick was processed."""
        self.runner.start_ready(now)
        self._turns.end_of_tick()

    def written(self, connection: Connection) -> None:
        """Let a client go on whose answers were written."""
        if self._turns.written(connection):
            self._state.is_woken = True
            self.runner.wake()

    def tell_hosts(self) -> None:
        """Tell hosts what has changed."""
        self._reports.tell_hosts()

    def forget(self, node: str, now: float) -> None:
        """End the scripts that a node sent; those that it hosts end with their sessions."""
        for script in self.book:
            if script.placed.sender_node == node:
                self._lifecycle.end(script.session, now)

    def drop_from(self, node: str) -> None:
        """Drop what scripts were about to read of a node's events."""
        for script in self.book:
            for delivery in [each for each in script.held if each.message.publisher == node]:
                script.held.remove(delivery)
                script.session.finish_reading(delivery, self._state.journal)

    # After a restart

    def resume(self) -> None:
        """Put the scripts of the store in force; their sessions are restored."""
        for placed, state in self.book.take_restored():
            script = self._commands.host(placed, self._state.sessions[placed.client_id])
            self.book.resume(script, state)
            self._commands.announce(script)
            self.runner.note_queued(script)
        self._reports.resume()

    def statistics(self) -> dict[str, float]:
        """Counters and gauges."""
        return self.runner.statistics() | self.aggregability.statistics()
