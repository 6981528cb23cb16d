"""The input scheduler: whose received packets are processed next, and how many in one tick.

While nothing waits and the budget of the tick is not used up, input is processed as it arrives.
Beyond that it stays with its connection, mostly as bytes that are not even decoded, and each tick
serves the waiting connections in fair turns within its budget. A connection whose input waits is
not read, so that the client's system stops sending; it cannot be late with its keep-alive.

Between the arrival of a client's input and its turn, others get at most the rest of one tick: the
budget, and the piece of work that exceeded it. A piece is bounded in packets, and in inputs of one
engine step.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from nearcast.broker.auth.identities import counted_as
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.net.connection import Connection
from nearcast.broker.scheduling.cost_account import Flow
from nearcast.broker.scheduling.cost_ledger import MICROSECONDS
from nearcast.broker.scheduling.phase_timer import Phase
from nearcast.broker.sessions.session import Session
from nearcast.core.model.inputs import QueueDrained
from nearcast.wire.mqtt import Decoder, Packet, ProtocolError, Publish

TICK_BUDGET = 20_000.0
PIECE_COST = 2_000.0
MOST_PACKETS = 2_000
"""The most packets that are decoded for one turn."""
SMALL_BYTES = 2_048
"""Fewer bytes than this are decoded in one go."""
BROKER = "broker"
"""The user of connections inside the broker."""

Process = Callable[[Connection, Packet], bool]
"""Processes a packet of a connection; raises `ProtocolError` if it violates the protocol.

Returns False if a part of it is left, for which it is to be called again.
"""
ProcessRun = Callable[[Connection, Session, Sequence[Packet], int, float], int]
"""Processes the messages of a session from an index on that are one run; returns how many."""
Broken = Callable[[Connection, ProtocolError], None]
_IDLE, _INPUT = int(Phase.IDLE), int(Phase.INPUT)


class InputScheduler:
    """Processes the input of all connections in fair turns."""

    def __init__(
        self,
        state: BrokerState,
        driver: EngineDriver,
        publish: ProcessRun,
        process: Process,
        broken: Broken,
    ) -> None:
        self._state = state
        self._driver = driver
        self._publish = publish
        self._process = process
        self._broken = broken
        self.budget = TICK_BUDGET
        """Cost units of one tick."""
        self.piece_cost = PIECE_COST
        """Cost units of one turn."""
        self.is_late: Callable[[], bool] = lambda: False
        """Whether the tick has taken too long, by the clock of the host."""
        self.served: list[Connection] = []
        """Connections whose input no longer waits, so that they can be read again."""
        self.replays: deque[Session] = deque()
        """Sessions with room for live events that are still to be brought to them."""
        self._paced: list[tuple[float, int, Connection]] = []
        """Connections that exceed the limit of their rate: until when, order, connection."""
        self._paced_count = 0
        self.on_left: Callable[[Connection], None] = lambda connection: None
        """Called when the input of a client that is gone has been processed."""

    @property
    def is_busy(self) -> bool:
        """Whether input waits that can be processed now, or live events for sessions."""
        return self._state.costs.is_contended or bool(self.replays)

    def is_due(self, now: float) -> bool:
        """Whether input waits that can be processed at a time."""
        return (
            self._state.costs.is_contended
            or bool(self.replays)
            or (bool(self._paced) and self._paced[0][0] <= now)
        )

    def take(self, connection: Connection, data: bytes, now: float) -> None:
        """Process received bytes, or keep them until it is the connection's turn."""
        state, flow, decoder = self._state, connection.flow, connection.decoder
        if flow is None:
            flow = self._open(connection)
        if decoder is None:
            decoder = connection.decoder = Decoder(state.limits.packet_bytes)
        size, costs = len(data), state.costs
        state.traffic.bytes_received += size
        flow.kept_bytes += size
        connection.heard_at = now
        if (
            costs.is_contended
            or costs.spent >= self.budget
            or connection.is_undecided
            or flow.paced_until
        ):
            decoder.keep(data)
            self._wait(connection, flow)
            return
        took_s = self._turn(flow, decoder, data, now)
        # Between ticks, all that the broker does is this.
        seconds = state.phases.seconds
        seconds[_INPUT] += took_s
        seconds[_IDLE] -= took_s
        if decoder.unread or connection.backlog:
            self._wait(connection, flow)

    def receive(self, connection: Connection, packets: Sequence[Packet], now: float) -> None:
        """Process packets that were decoded elsewhere, or keep them until it is their turn."""
        flow = connection.flow or self._open(connection)
        connection.heard_at = now
        costs = self._state.costs
        if costs.is_contended or costs.spent >= self.budget or connection.is_undecided:
            connection.keep(packets)
            self._wait(connection, flow)
            return
        self._serve(flow, packets, now)
        if connection.has_input:
            self._wait(connection, flow)

    def decided(self, connection: Connection) -> None:
        """Go on with the input of a connection whose CONNECT was decided."""
        connection.is_undecided = False
        flow = self._open(connection)
        session = connection.session
        if session is not None:
            flow.account = session.account
        if connection.has_input and not connection.closing:
            self._wait(connection, flow)

    def suspend(self, connection: Connection) -> None:
        """Process nothing more of a connection until what it asked for is decided elsewhere."""
        flow = connection.flow or self._open(connection)
        connection.is_undecided, flow.paced_until = True, inf

    def resume(self, connection: Connection, now: float) -> None:
        """Go on with the input of a suspended connection."""
        flow = connection.flow
        connection.is_undecided = False
        if flow is None or connection.closing:
            return
        flow.paced_until, connection.heard_at = 0.0, now
        if connection.has_input:
            self._wait(connection, flow)
        else:
            self.served.append(connection)

    def serve(self, now: float) -> None:
        """Serve waiting connections in turns, within the budget of the tick."""
        costs, pending = self._state.costs, self._state.pending
        self._go_on_with_paced(now)
        while (flow := costs.next_flow()) is not None:
            connection = flow.connection
            packets = connection.backlog
            connection.heard_at = now
            if packets:
                connection.backlog = ()
                self._serve_rest(flow, packets, now)
            elif connection.decoder is not None:
                self._turn(flow, connection.decoder, b"", now)
            if connection.closing:
                self.drop(connection)
            elif flow.paced_until:
                costs.dequeue(flow)
            elif not connection.has_input or connection.is_undecided:
                self._finish(connection, flow)
            if costs.spent >= self.budget or self.is_late() or self._driver.is_tick_full:
                break
        if pending:
            self._driver.step(now)

    def serve_replays(self, now: float) -> None:
        """Bring live events to sessions that have room for them, in turns, within the budget."""
        costs = self._state.costs
        for _ in range(len(self.replays)):
            session = self.replays.popleft()
            if self._state.sessions.get(session.client_id) is session:
                self._state.pending.ask(QueueDrained(session.node, session.part))
                self._driver.step(now)
            if costs.spent >= self.budget or self.is_late():
                break

    def leave(self, connection: Connection) -> bool:
        """Note that a client is gone; False if nothing of it waits."""
        if not connection.must_wait or not connection.has_input or connection.closing:
            self.drop(connection)
            self._state.costs.close(connection)
            return False
        connection.has_left = True
        return True

    def drop(self, connection: Connection) -> None:
        """Discard the waiting input of a connection."""
        connection.backlog = ()
        connection.decoder = None
        if connection.flow is not None:
            self._finish(connection, connection.flow)

    @property
    def next_due(self) -> float:
        """The time when a connection that exceeded its rate goes on; infinite without any."""
        return self._paced[0][0] if self._paced else inf

    def statistics(self) -> dict[str, float]:
        """The number of connections that exceed the limit of their rate."""
        return {"paced_links": len(self._paced)}

    def _pace(self, flow: Flow, packets: int, now: float) -> None:
        """Let a connection wait that exceeds the limit of its rate."""
        if flow.pace(packets, self._state.limits.messages_per_s, now):
            self._paced_count += 1
            heappush(self._paced, (flow.paced_until, self._paced_count, flow.connection))

    def _go_on_with_paced(self, now: float) -> None:
        while self._paced and self._paced[0][0] <= now:
            connection = heappop(self._paced)[2]
            flow = connection.flow
            if flow is None or connection.closing or connection.is_undecided:
                continue
            flow.paced_until, connection.heard_at = 0.0, now
            if connection.has_input:
                self._wait(connection, flow)
            else:
                self.served.append(connection)

    def _finish(self, connection: Connection, flow: Flow) -> None:
        if flow.is_waiting:
            self._state.costs.dequeue(flow)
            self.served.append(connection)
            if connection.has_left:
                self._state.costs.close(connection)
                self.on_left(connection)

    def _wait(self, connection: Connection, flow: Flow) -> None:
        if not (connection.is_undecided or connection.closing or flow.paced_until):
            self._state.costs.enqueue(flow)

    def _turn(self, flow: Flow, decoder: Decoder, data: bytes, now: float) -> float:
        """Decode and process packets of a connection until its turn is over.

        Returns how long it took, by the clock of the ledger and without engine steps.
        """
        state, connection = self._state, flow.connection
        costs = state.costs
        began, step_s = costs.clock(), costs.step_s
        most = MOST_PACKETS
        if connection.session is None:
            # Nothing after a CONNECT is read before it is decided.
            most = 1
        elif flow.kept_bytes > SMALL_BYTES or not data:
            most = int(min(MOST_PACKETS, max(1.0, self.piece_cost / flow.price)))
        try:
            packets = decoder.feed(data, most) if data else decoder.read(most)
        except ProtocolError as error:
            packets, error.packets = error.packets, []
            connection.failure = error
        state.traffic.packets_received += len(packets)
        self._serve(flow, packets, now)
        took_s = costs.clock() - began - (costs.step_s - step_s)
        costs.charge_turn(flow, len(packets), took_s)
        if state.limits.messages_per_s:
            self._pace(flow, len(packets), now)
        return took_s

    def _serve_rest(self, flow: Flow, packets: Sequence[Packet], now: float) -> None:
        """Process packets that an earlier turn decoded, and charged for."""
        costs = self._state.costs
        began, step_s = costs.clock(), costs.step_s
        self._serve(flow, packets, now)
        costs.charge_turn(flow, 0, costs.clock() - began - (costs.step_s - step_s))

    def _serve(self, flow: Flow, packets: Sequence[Packet], now: float) -> None:
        """Process packets until the turn is over; the rest stay with the connection."""
        connection, costs, pending = flow.connection, self._state.costs, self._state.pending
        limit, at, count = costs.spent + self.piece_cost, 0, len(packets)
        ends_at = costs.clock() + self.piece_cost / MICROSECONDS
        publish, session = self._publish, connection.session
        try:
            while at < count and not connection.closing and not connection.is_undecided:
                if type(packets[at]) is Publish and session is not None:
                    at += publish(connection, session, packets, at, now)
                elif self._process(connection, packets[at]):
                    at += 1
                else:
                    self._driver.step(now)
                if pending.inputs and self._driver.is_step_due:
                    self._driver.step(now)
                if costs.spent > limit or costs.clock() > ends_at or self._driver.is_tick_full:
                    break
        except ProtocolError as error:
            self._broken(connection, error)
            return
        if at < count:
            if not connection.closing:
                connection.backlog = [*packets[at:], *connection.backlog]
        elif connection.failure is not None and not connection.closing:
            failure, connection.failure = connection.failure, None
            self._broken(connection, failure)

    def _open(self, connection: Connection) -> Flow:
        """Give a connection its share: of its user, or of its address."""
        if connection.trusted is not None:
            user = BROKER
        elif connection.admitted is not None and connection.admitted.identity.user is not None:
            user = f"user {connection.admitted.identity.user}"
        else:
            user = f"address {counted_as(connection.peer.address)}"
        return self._state.costs.open(connection, user)
