"""Recording: what comes of a step, as rows for the log and changes for the store."""

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.carried import NOTHING, carried_with
from nearcast.broker.session import Parcel
from nearcast.core.engine import Outcome
from nearcast.core.fan import Fan
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


class Recording:
    """Notes in the journal what a step decided; with `deliveries` also who gets what."""

    def __init__(self, state: BrokerState, deliveries: bool) -> None:
        self._state = state
        self._deliveries = deliveries

    def record(self, outcome: Outcome, now: float) -> None:
        """Note rows for the log and changes of what is live or known."""
        self._note_changes(outcome)
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

    def _note_changes(self, outcome: Outcome) -> None:
        state, journal = self._state, self._state.journal
        for changed in outcome.changes:
            key, value = changed.key, changed.value
            if isinstance(value, Event):
                parcel = state.parcels[value.publisher, value.id]
                state.live[key] = Parcel(parcel.frame, parcel.publisher, parcel.expires_at)
                raw = parcel.frame.raw_properties
                live = Live(key, value, state.engine.expiry_of(key), headers=raw or None)
                journal.note(LivePut(live), sync=value.qos > 0)
            elif value is not None:
                journal.note(Kept(NODES, key, encoded_node(value)), sync=False)
            elif "\0" in key:
                state.live.pop(key, None)
                journal.note(LiveDropped(key), sync=False)
            else:
                journal.note(Forgotten(NODES, key), sync=False)

    def _note_deliveries(self, outcome: Outcome, now: float) -> None:
        """Note to whom events go."""
        state = self._state
        for sent in outcome.sent:
            copies = sent.deliveries() if isinstance(sent, Fan) else (sent,)
            to = [(each.owner, each.subscriptions, each.priority, each.replayed) for each in copies]
            row = delivery_row(sent.event, to, state.name, state.engine.next_seq(), now)
            state.journal.rows.append(row)
