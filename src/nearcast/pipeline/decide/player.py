"""Playing a broker's log again: the same engine, the same inputs, so the same decisions.

A decision depends only on the inputs before it in its broker's log. A player has applied all of
them up to some seq; from there it either decides on the rows that follow, or just applies them
to come to where it is needed.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from msgspec import Struct

from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.engine.fan import Fan
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Delivery, Event
from nearcast.core.model.inputs import Restarted
from nearcast.core.model.subject import SubjectRules
from nearcast.core.relationships import TrackSettings
from nearcast.pipeline.decide.plain_events import LEAST, PlainEvents, deliveries, stretches, windows
from nearcast.pipeline.movement.suspects import Suspect, doubt
from nearcast.pipeline.source.row_inputs import (
    NOTHING_CARRIED,
    Headers,
    Inputs,
    MessageHeaders,
    Told,
    Unusable,
    noticed_at,
)
from nearcast.store import Recipient, Row, rows_of

BELIEVED = TrackSettings()
FIRST_AT_ONCE, MOST_AT_ONCE = 2_048, 8_192
"""Rows that are one batch for the engine: at first, and if few get each event."""
MOST_COPIES = 400_000
"""Copies of events that are to be in memory together; how many come of rows shows only then."""


class PlayedDelivery(Struct, frozen=True):
    """An event and who gets it."""

    sent: Fan | Delivery
    headers: Headers
    seq: int | None
    """The event's own row; None if it was there before these rows."""
    elsewhere: bool
    """Its broker leaves it to the pipeline to decide."""
    recorded: bool
    """Its broker recorded to whom events went."""
    expires: float | None = None
    """When it is of no use any more."""

    @property
    def event(self) -> Event:
        """The event."""
        return self.sent.event

    @property
    def recipients(self) -> list[Recipient]:
        """Who gets it."""
        sent = self.sent
        if isinstance(sent, Fan):
            return [(filed.owner, (filed.id,), sent.priority, False) for filed in sent.filed]
        return [(sent.owner, sent.subscriptions, sent.priority, sent.replayed)]


class ContextChange(Struct, frozen=True):
    """How what is known of a node changed; None: it was forgotten."""

    seq: int
    time: float
    node: str
    state: NodeState | None


class Played(Struct):
    """What came of some rows."""

    sent: list[PlayedDelivery] = []
    contexts: list[ContextChange] = []
    unusable: list[Unusable] = []
    suspects: list[Suspect] = []


class Player:
    """The engine of one broker as it was after some row of its log."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.seq = 0
        """The last row that was applied."""
        self.engine = Engine()
        self._elsewhere = SubjectRules(())
        self._recorded = False
        self._carried: dict[str, MessageHeaders] = {}
        """What is told of live events, by their key."""

    @property
    def size(self) -> int:
        """How many things it knows."""
        return len(self.engine.subscriptions) + len(self.engine.nodes)

    def apply(self, rows: Iterable[Row]) -> None:
        """Apply rows without asking who gets what, except where that matters later."""
        for batch in _batches(rows):
            inputs = Inputs(batch, {}, quietly=True)
            self._keep(self._run(inputs, quietly=True), inputs)

    def apply_columns(self, batches: Iterable[pa.RecordBatch]) -> None:
        """The same for rows that are columns."""
        for window in windows(batches, lambda: MOST_AT_ONCE):
            for plain, rows in stretches(window):
                if plain:
                    rows = self._apply_plain(PlainEvents(rows)).rows
                self.apply(rows_of(rows))

    def decide(self, rows: Iterable[Row]) -> Iterator[Played]:
        """Apply rows, and yield what comes of them."""
        for batch in _batches(rows):
            yield self._decide(batch, {})

    def decide_columns(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[list[Played | pa.RecordBatch]]:
        """The same for rows that are columns, with decided rows of what went as columns."""
        # For each call anew: a batch that is done again gives the same rows.
        pace = _Pace()
        for window in windows(batches, lambda: pace.rows):
            told: Told = {}
            parts: list[Played | pa.RecordBatch] = []
            for plain, rows in stretches(window):
                if plain:
                    rows = self._decide_plain(PlainEvents(rows), told, parts).rows
                if rows.num_rows:
                    parts.append(self._decide(list(rows_of(rows)), told))
            pace.learn(window.num_rows, sum(map(_copies, parts)))
            yield parts

    def _decide(self, rows: Sequence[Row], told: Told) -> Played:
        inputs = Inputs(rows, told)
        return self._played(self._run(inputs), inputs)

    def _decide_plain(
        self, events: PlainEvents, told: Told, parts: list[Played | pa.RecordBatch]
    ) -> PlainEvents:
        """Decide on events as columns, into `parts`; those that are to be decided one by one."""
        while len(events) and (found := self.engine.play_columns(events)) is not None:
            many, ended, copies = found
            parts.append(self._played(ended, noticed_at(events, told)))
            done, events = self._split(events, many)
            words, elsewhere = self.engine.words, self._elsewhere.fits
            parts.append(deliveries(self.broker, done, copies, words, elsewhere, self._recorded))
            if not done.are_many:
                break
        return events

    def _apply_plain(self, events: PlainEvents) -> PlainEvents:
        """Apply events as columns; those that are to be applied one by one."""
        while len(events) and (found := self.engine.play_columns(events, quietly=True)) is not None:
            many, ended, _ = found
            self._keep(ended, noticed_at(events, {}))
            done, events = self._split(events, many)
            if not done.are_many:
                break
        return events

    def _split(self, events: PlainEvents, many: int) -> tuple[PlainEvents, PlainEvents]:
        """Those that were applied, and the others."""
        self.seq = events.seq(many - 1)
        return events.part(0, many), events.part(many, len(events))

    def _run(self, inputs: Inputs, quietly: bool = False) -> Outcome:
        begun = inputs.values[0] if inputs.values else None
        if isinstance(begun, Restarted):
            self._elsewhere, self._recorded = SubjectRules(begun.elsewhere), begun.deliveries
        outcome = self.engine.play(inputs.values, inputs.times, again=True, quietly=quietly)
        self.seq = inputs.last
        return outcome

    def _played(self, outcome: Outcome, inputs: Inputs) -> Played:
        played = Played(
            [self._sent(each, inputs) for each in outcome.event_by_event()],
            list(_contexts(outcome, inputs)),
            [*inputs.unusable, *_refused(outcome, inputs)],
            list(_suspects(outcome, inputs)),
        )
        self._keep(outcome, inputs)
        return played

    def _keep(self, outcome: Outcome, inputs: Inputs) -> None:
        """Know what is to be told of live events; only now, for others went out until now."""
        for changed in outcome.changes:
            if isinstance(changed.value, NodeState) or changed.before is not None:
                continue
            self._carried.pop(changed.key, None)
            if isinstance(changed.value, Event):
                self._carried[changed.key] = inputs.told[id(changed.value)].carried

    def _sent(self, sent: Fan | Delivery, inputs: Inputs) -> PlayedDelivery:
        event = sent.event
        told = inputs.told.get(id(event))
        if told is not None:
            seq, carried = told.seq, told.carried
        else:
            key = self.engine.live_key(event)
            seq, carried = None, self._carried.get(key, NOTHING_CARRIED)
        elsewhere = self._elsewhere.fits(event.subject)
        return PlayedDelivery(
            sent, carried.headers, seq, elsewhere, self._recorded, carried.expires
        )


class _Pace:
    """How many rows are decided at once."""

    def __init__(self) -> None:
        self.rows = FIRST_AT_ONCE

    def learn(self, rows: int, copies: int) -> None:
        """So many copies came of some rows; of the next there are not many more than before."""
        fits = MOST_COPIES * rows // max(copies, 1)
        self.rows = max(LEAST, min(MOST_AT_ONCE, fits, 4 * self.rows))


def _copies(part: Played | pa.RecordBatch) -> int:
    """How many get what is decided."""
    if isinstance(part, Played):
        sent = [each.sent for each in part.sent]
        return sum(len(each.filed) if isinstance(each, Fan) else 1 for each in sent)
    return len(part["recipients"].values)


def _contexts(outcome: Outcome, inputs: Inputs) -> Iterator[ContextChange]:
    for changed in outcome.changes:
        state, index = changed.value, changed.index
        if isinstance(state, NodeState) or (state is None and changed.before is not None):
            yield ContextChange(inputs.seqs[index], inputs.times[index], changed.key, state)


def _suspects(outcome: Outcome, inputs: Inputs) -> Iterator[Suspect]:
    for changed in outcome.changes:
        state, index = changed.value, changed.index
        if isinstance(state, NodeState):
            reason = doubt(state, changed.before, BELIEVED)
            if reason is not None:
                yield Suspect(inputs.seqs[index], inputs.times[index], changed.key, reason)


def _refused(outcome: Outcome, inputs: Inputs) -> Iterator[Unusable]:
    for refusal in outcome.refusals:
        seq = inputs.seqs[refusal.index]
        yield Unusable(seq, seq, f"refused when it was applied again: {refusal.reason}")


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows in batches for the engine; a restart begins one of its own."""
    batch: list[Row] = []
    for row in rows:
        if batch and (len(batch) >= MOST_AT_ONCE or row.kind == "restart"):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
