"""Turns of scripts: what they may cost in one tick, and whose next command waits for an answer.

To place or remove a script costs a hundred times what a message costs, and a commit. So scripts
have a small part of the budget of a tick, whoever sent them; what is left of their work waits for
the next one. A client whose commands used it up goes on when their answers are on disk and written:
others wait for one such piece, however many commands follow.
"""

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.net.connection import Connection
from nearcast.broker.scheduling.cost_ledger import MICROSECONDS, CostKind
from nearcast.broker.scheduling.input_scheduler import InputScheduler
from nearcast.broker.sessions.session import Session

SCRIPT_BUDGET = 2_000.0
"""Cost units of one tick."""
SCRIPT = 300.0
"""Of a script that is placed, changed or removed."""
SCRIPT_CALL = 30.0
"""Of calls that are begun together, and of what came of a call."""


class ScriptTurns:
    """Charges for the work of scripts, and divides it among ticks."""

    def __init__(self, state: BrokerState, scheduler: InputScheduler) -> None:
        self._state = state
        self._scheduler = scheduler
        self._tick = 0
        self._spent = 0.0
        """Units in that tick."""
        self._ended: dict[Connection, None] = {}
        """Clients whose turn ended in this tick."""
        self._unwritten: set[Connection] = set()
        """Clients that wait for answers to be written."""
        self._answered: list[Connection] = []
        """Clients that go on in the next tick."""

    @property
    def is_due(self) -> bool:
        """Whether clients go on."""
        return bool(self._answered)

    @property
    def is_over(self) -> bool:
        """Whether scripts have used up their part of this tick."""
        return self._spent_now() >= SCRIPT_BUDGET or self._scheduler.is_late()

    def clock(self) -> float:
        """Seconds of work so far but engine steps, which are charged by themselves."""
        costs = self._state.costs
        return costs.clock() - costs.step_s

    def charge(self, session: Session, cost: float, since: float | None = None) -> None:
        """Charge a session for work since a time of the clock, which costs that time if it is more.

        None: the time is charged with the turn of a client.
        """
        if since is not None:
            cost = max(cost, MICROSECONDS * (self.clock() - since))
        self._spent = self._spent_now() + cost
        self._state.costs.charge_session(session, CostKind.SCRIPTS, cost)

    def end(self, connection: Connection) -> None:
        """End the turn of a client: nothing more of it is processed until it is answered."""
        self._scheduler.suspend(connection)
        self.await_answer(connection)

    def await_answer(self, connection: Connection) -> None:
        """Let a suspended client go on once it is answered."""
        self._ended[connection] = None

    def end_of_tick(self) -> None:
        """Note which of the clients whose turn ended are answered by a write of this tick."""
        for connection in self._ended:
            if connection.acknowledgements and not connection.closing:
                self._unwritten.add(connection)
            else:
                self._answered.append(connection)
        self._ended.clear()

    def written(self, connection: Connection) -> bool:
        """Note a write with answers; True if its client goes on."""
        if connection not in self._unwritten:
            return False
        self._unwritten.remove(connection)
        self._answered.append(connection)
        return True

    def go_on(self, now: float) -> None:
        """Process again what answered clients send."""
        answered, self._answered = self._answered, []
        for connection in answered:
            self._scheduler.resume(connection, now)

    def _spent_now(self) -> float:
        if self._tick != self._state.costs.ticks:
            self._tick, self._spent = self._state.costs.ticks, 0.0
        return self._spent
