"""Recording: the outcome of a step as rows for the log and changes for the store.

A move is in the log at once; the store gets moves only periodically, many at a time. Recovery reads
the log from the row up to which the store has all moves.
"""

from collections.abc import Iterable
from itertools import groupby
from math import inf

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.durability.waiting_recorder import HIDDEN, HIDDEN_GROUPS, WaitingRecorder
from nearcast.core.engine.engine import Outcome
from nearcast.core.engine.updates.recorded_notices import recorded_notices
from nearcast.core.model.context import NodeState
from nearcast.core.model.inputs import Undelivered
from nearcast.store import (
    Forgotten,
    Kept,
    Live,
    LiveDropped,
    LiveMissed,
    LivePut,
    delivery_row,
    encoded_node,
    notice_row,
    tick_row,
)

NODES = "nodes"
"""The space of the store for node states."""
NODES_UNTIL = "nodes until"
"""The space for the log row up to which the store has all moves."""
BEHIND_S = 10.0
"""About how long, in seconds, the store may lag behind the log in moves."""
MOST_AT_ONCE = 1_000
"""The most nodes that are stored in one tick."""


class OutcomeRecorder:
    """Notes the outcome of steps in the journal; with `deliveries` also who gets which event."""

    def __init__(self, state: BrokerState, deliveries: bool) -> None:
        self._state = state
        self._deliveries = deliveries
        self.waiting = WaitingRecorder()
        self.hidden = WaitingRecorder(HIDDEN_GROUPS, HIDDEN)
        self._behind: dict[str, NodeState] = {}
        """Nodes with moves that the store does not have yet."""
        self._round: list[str] = []
        """Nodes of the current round that are still to be stored, some in each tick."""
        self._until = 0
        """The log row up to which the store has all moves once the round is complete."""
        self._marked = False
        """Whether the store has such a row number."""
        self._told_at = -inf

    def begin(self, moved: Iterable[NodeState], marked: bool) -> None:
        """Begin with nodes whose moves the store lacks, and whether it has a row mark."""
        self._behind = {state.node: state for state in moved}
        self._marked = marked

    def hurry(self) -> None:
        """Let the next tick with rows start storing all moves."""
        self._told_at = -inf

    def catch_up(self, now: float) -> None:
        """Store moved nodes periodically, in ticks that write to the log anyway."""
        journal, behind = self._state.journal, self._behind
        if abs(now - self._told_at) < BEHIND_S:
            return
        seq = self._state.engine.seq
        if not self._round:
            self._round, self._until = list(behind), seq
        names, self._round = self._round[:MOST_AT_ONCE], self._round[MOST_AT_ONCE:]
        for node in names:
            state = behind.pop(node, None)
            if state is not None:
                journal.note(Kept(NODES, node, encoded_node(state, seq)), sync=False)
        if not self._round:
            self._mark(self._until)
            self._told_at = now

    def _mark(self, seq: int) -> None:
        until = Kept(NODES_UNTIL, "", msgspec.msgpack.encode(seq))
        self._state.journal.note(until, sync=False)
        self._marked = True

    def record(self, outcome: Outcome, now: float) -> None:
        """Note rows for the log, and changes of live events and node states."""
        journal = self._state.journal
        if not journal.keeps:
            return
        self._note_changes(outcome)
        if outcome.waiting_changes:
            self.waiting.record(outcome.waiting_changes, journal)
        if outcome.hidden_changes:
            self.hidden.record(outcome.hidden_changes, journal)
        if not outcome.records and (outcome.waiting_changes or outcome.hidden_changes):
            # Time alone made something leave: a log that is played says so before the next input.
            journal.rows.append(tick_row(self._state.name, self._state.engine.next_seq(), now))
        for record in outcome.records:
            journal.rows.append_record(record)
        if self._deliveries:
            self._note_deliveries(outcome, now)

    def record_undelivered(self, now: float) -> None:
        """Pass live events that did not fit into queues to the engine, as a regular input."""
        state = self._state
        if not state.undelivered:
            return
        undelivered, state.undelivered = state.undelivered, {}
        for name, live in undelivered.items():
            session = state.sessions.get(name)
            if session is not None and session.durable:
                for key, _ in live:
                    # It may have been stored as seen when its copy was queued.
                    state.journal.note(LiveMissed(key, session.lifetime), sync=False)
        missed = [
            Undelivered(session.node, tuple(live), session.part)
            for name, live in undelivered.items()
            if (session := state.sessions.get(name)) is not None
        ]
        if missed:
            self.record(state.engine.step(missed, now), now)

    def _note_changes(self, outcome: Outcome) -> None:
        state, journal, behind = self._state, self._state.journal, self._behind
        # Promised changes are stored twice, in case a log file gets damaged.
        may_wait = not journal.must_sync
        kept: set[str] = set()
        for changed in outcome.node_changes:
            node, known = changed.node, changed.state
            if known is None:
                behind.pop(node, None)
                journal.note(Forgotten(NODES, node), sync=False)
            elif changed.by_move and may_wait and node not in kept:
                behind[node] = known
            else:
                behind.pop(node, None)
                kept.add(node)
                journal.note(Kept(NODES, node, encoded_node(known, state.engine.seq)), sync=False)
        for change in outcome.live_changes:
            key, event = change.key, change.event
            if event is None:
                journal.note(LiveDropped(key), sync=False)
            else:
                live = Live(key, event, state.engine.expiry_of(key))
                journal.note(LivePut(live), sync=event.qos > 0)
        if behind and not self._marked:
            self._mark(outcome.records[0].seq - 1)

    def _note_deliveries(self, outcome: Outcome, now: float) -> None:
        """Note the recipients of events, and the states that were told."""
        state = self._state
        for deliveries in outcome.sent:
            for _, copies in groupby(deliveries, key=lambda each: id(each.event)):
                some = list(copies)
                to = [(c.owner, c.subscriptions, c.priority, c.replayed) for c in some]
                row = delivery_row(some[0].event, to, state.name, state.engine.next_seq(), now)
                state.journal.rows.append(row)
        for notice, members in recorded_notices(outcome.notices):
            row = notice_row(notice, members, state.name, state.engine.next_seq(), now)
            state.journal.rows.append(row)
