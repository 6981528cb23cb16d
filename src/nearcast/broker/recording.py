"""Recording: what comes of a step, as rows for the log and changes for the store.

Where a node is now is in the log as soon as it moves; the store is told only now and then, of
many moves at once. Whoever recovers reads on in the log from what the store was told last.
"""

from collections.abc import Iterable
from math import inf

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.carried import NOTHING, carried_with
from nearcast.broker.session import Parcel
from nearcast.core.engine import Outcome
from nearcast.core.fan import Fan
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Published
from nearcast.store import (
    Forgotten,
    Kept,
    Live,
    LiveDropped,
    LivePut,
    delivery_row,
    encoded_node,
    record_row,
)

NODES = "nodes"
"""Where the store keeps what is known of nodes."""
NODES_UNTIL = "nodes until"
"""Where it keeps up to which row of the log it was told of all of them."""
BEHIND_S = 10.0
"""So long the store may not know of a move that the log knows of."""


class Recording:
    """Notes in the journal what a step decided; with `deliveries` also who gets what."""

    def __init__(self, state: BrokerState, deliveries: bool) -> None:
        self._state = state
        self._deliveries = deliveries
        self._behind: dict[str, NodeState] = {}
        """Nodes whose moves the store does not know of yet."""
        self.due = inf
        """When the store is to be told of them."""

    def begin(self, moved: Iterable[NodeState]) -> None:
        """Begin with a store that does not know of some moves yet."""
        self._behind = {state.node: state for state in moved}
        self.catch_up()

    def catch_up(self) -> None:
        """Tell the store where all nodes are that moved since it was told last."""
        journal, seq = self._state.journal, self._state.engine.seq
        for node, state in self._behind.items():
            journal.note(Kept(NODES, node, encoded_node(state, seq)), sync=False)
        journal.note(Kept(NODES_UNTIL, "", msgspec.msgpack.encode(seq)), sync=False)
        self._behind.clear()
        self.due = inf

    def record(self, outcome: Outcome, now: float) -> None:
        """Note rows for the log and changes of what is live or known."""
        self._note_changes(outcome, now)
        state, journal = self._state, self._state.journal
        if not journal.keeps:
            return
        for record in outcome.records:
            carried = NOTHING
            if isinstance(record.input, Published):
                event = record.input.event
                carried = carried_with(event, state.parcels[event.publisher, event.id], now)
            journal.rows.append(record_row(record, state.name, *carried))
        if self._deliveries:
            self._note_deliveries(outcome, now)

    def _note_changes(self, outcome: Outcome, now: float) -> None:
        state, journal, behind = self._state, self._state.journal, self._behind
        # What was promised is kept twice, lest a file of the log be damaged.
        may_wait = journal.keeps and not journal.must_sync
        told: set[str] = set()
        for changed in outcome.changes:
            key, value = changed.key, changed.value
            if changed.by_move and may_wait and key not in told:
                behind[key] = value  # type: ignore[assignment]  # a move leaves a state
            elif isinstance(value, Event):
                parcel = state.parcels[value.publisher, value.id]
                state.live[key] = Parcel(parcel.frame, parcel.publisher, parcel.expires_at)
                raw = parcel.frame.raw_properties
                live = Live(key, value, state.engine.expiry_of(key), headers=raw or None)
                journal.note(LivePut(live), sync=value.qos > 0)
            elif value is not None:
                behind.pop(key, None)
                told.add(key)
                journal.note(Kept(NODES, key, encoded_node(value, state.engine.seq)), sync=False)
            elif "\0" in key:
                state.live.pop(key, None)
                journal.note(LiveDropped(key), sync=False)
            else:
                behind.pop(key, None)
                journal.note(Forgotten(NODES, key), sync=False)
        if behind and self.due == inf:
            self.due = now + BEHIND_S

    def _note_deliveries(self, outcome: Outcome, now: float) -> None:
        """Note to whom events go."""
        state = self._state
        for sent in outcome.sent:
            copies = sent.deliveries() if isinstance(sent, Fan) else (sent,)
            to = [(each.owner, each.subscriptions, each.priority, each.replayed) for each in copies]
            row = delivery_row(sent.event, to, state.name, state.engine.next_seq(), now)
            state.journal.rows.append(row)
