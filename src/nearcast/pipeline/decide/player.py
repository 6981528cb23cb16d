"""Replay of a broker's log: the same engine and the same inputs, so the same decisions.

A decision depends only on the inputs before it in its broker's log. A player has applied all of
them up to some seq. From there it either decides on the following rows, or only applies them to
advance to the seq where it is needed. A player of a shard decides for the sessions of its shard;
what is not about sessions is reported by the first shard alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.engine.delivery.judged_copies import JudgedCopies
from nearcast.core.engine.delivery.string_pair_table import Texts
from nearcast.core.engine.engine import Engine, EngineInputs, Outcome
from nearcast.core.engine.outcome import Notice
from nearcast.core.engine.shard import WHOLE, Shard
from nearcast.core.matching.tables import F64
from nearcast.core.model.context import NodeState
from nearcast.core.model.inputs import Restarted
from nearcast.core.model.subject import SubjectRules
from nearcast.core.relationships import TrackSettings
from nearcast.pipeline.decide.plain_events import LEAST, PlainEvents, stretches, windows
from nearcast.pipeline.movement.suspects import Suspect, doubt
from nearcast.pipeline.source.row_inputs import EventSeqs, Inputs, Unusable, noticed_at
from nearcast.store import Row, rows_of

BELIEVED = TrackSettings()
FIRST_AT_ONCE, MOST_AT_ONCE = 128, 8_192
"""Rows in one batch for the engine: at first, and at most, if events have few recipients."""
MOST_COPIES = 400_000
"""Target for the copies of events in memory together; known only after a batch is decided."""


class PlayedDeliveries(Struct, frozen=True):
    """Events and their recipients."""

    deliveries: Deliveries
    seqs: Sequence[int | None]
    """The seq of each event's row; None if the event is older than these rows."""
    ingested: Sequence[float] | F64
    """The ingest time of each event's row; of a live event, of the row that made it match."""
    elsewhere: SubjectRules
    """The subjects whose events the broker leaves to the pipeline to decide."""
    recorded: bool
    """True if the broker recorded its deliveries."""
    names: tuple[Texts, Texts] | None = None
    """For deliveries held as columns: the sessions of copies, and the subscriptions of rows."""
    judged: JudgedCopies | None = None
    """The copies that can get another priority while they wait."""
    cause: int | None = None
    """The seq of the row that made sessions match live events; None: each event's own row."""


class ContextChange(Struct, frozen=True):
    """The new state of a node; None if it was forgotten."""

    seq: int
    time: float
    node: str
    state: NodeState | None


class NextRelease(Struct, frozen=True):
    """When something leaves by time alone, as of a row of the log; None if nothing does."""

    seq: int
    time: float | None


class Played(Struct):
    """The results of some rows."""

    sent: list[PlayedDeliveries] = []
    contexts: list[ContextChange] = []
    unusable: list[Unusable] = []
    suspects: list[Suspect] = []
    notices: list[Notice] = []
    seq: int = 0
    """The seq of the last row."""
    recorded: bool = False
    """True if the broker recorded its deliveries and notices."""
    releases: list[NextRelease] = []


class Player:
    """The engine of one broker, or of a shard of it, as it was after some row of its log."""

    def __init__(self, broker: str, shard: Shard = WHOLE) -> None:
        self.broker = broker
        self.seq = 0
        """The seq of the last applied row."""
        self.engine = Engine(shard=shard)
        self._begin(Restarted())

    @classmethod
    def restored(cls, broker: str, seq: int, inputs: EngineInputs, shard: Shard = WHOLE) -> Self:
        """Return a player that has applied all rows up to `seq`, from the inputs in force there."""
        player = cls(broker, shard)
        player.seq = seq
        player.engine.restore(seq, inputs)
        player._begin(inputs.restarted)
        return player

    @property
    def shard(self) -> Shard:
        """The shard that it decides for."""
        return self.engine.shard

    def in_force(self) -> EngineInputs:
        """The inputs in force, from which a player that goes on alike can be restored."""
        inputs = self.engine.in_force()
        begun = replace(
            inputs.restarted, elsewhere=self._begun.elsewhere, deliveries=self._begun.deliveries
        )
        return replace(inputs, restarted=begun)

    def _begin(self, begun: Restarted) -> None:
        """Apply what a start of the broker says, apart from the engine."""
        # Sessions are kept by the engine, those of its shard.
        self._begun = replace(begun, sessions=())
        self._elsewhere = SubjectRules(begun.elsewhere)

    @property
    def size(self) -> int:
        """The number of subscriptions and nodes, estimated for all shards together."""
        return len(self.engine.subscriptions) * self.shard.of + len(self.engine.nodes)

    @property
    def decides_alone(self) -> bool:
        """True if the broker leaves the events of some subjects to the pipeline."""
        return not self._elsewhere.is_empty

    def next_release(self) -> NextRelease:
        """When something that is gathered leaves though nothing happens.

        Only where the pipeline decides alone: a broker that decides itself records the time.
        """
        return NextRelease(self.seq, self.engine.next_release() if self.decides_alone else None)

    def apply(self, rows: Iterable[Row]) -> None:
        """Apply rows without computing recipients, except where later decisions depend on them."""
        for batch in _batches(rows):
            self._run(Inputs(batch, EventSeqs(), quietly=True), quietly=True)

    def apply_columns(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Apply rows that are columns."""
        for window in windows(batches, lambda: MOST_AT_ONCE):
            for plain, rows in stretches(window):
                if plain:
                    rows = self._apply_plain(PlainEvents(rows)).rows
                self.apply(rows_of(rows))

    def decide(self, rows: Iterable[Row]) -> Iterator[Played]:
        """Apply rows, and yield the results."""
        for batch in _batches(rows):
            yield self._decide(batch, EventSeqs())

    def decide_columns(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[Played]]:
        """Apply rows that are columns, and yield the results of each window."""
        # A new one for each call, so that a retried batch gives the same rows.
        pace = _Pace()
        for window in windows(batches, lambda: pace.rows):
            seqs, parts = EventSeqs(), list[Played]()
            for plain, rows in stretches(window):
                if plain:
                    rows = self._decide_plain(PlainEvents(rows), seqs, parts).rows
                if rows.num_rows:
                    parts.append(self._decide(list(rows_of(rows)), seqs))
            pace.learn(window.num_rows, sum(map(_copies, parts)))
            for part in parts:
                # What is told belongs to the window, however it was divided.
                part.seq = self.seq
            yield parts

    def _decide(self, rows: Sequence[Row], seqs: EventSeqs) -> Played:
        inputs = Inputs(rows, seqs)
        return self._played(self._run(inputs), inputs)

    def _decide_plain(
        self, events: PlainEvents, seqs: EventSeqs, parts: list[Played]
    ) -> PlainEvents:
        """Decide on events as columns, appending to `parts`; return the events left over."""
        while len(events) and (found := self.engine.play_columns(events)) is not None:
            many, ended, deliveries = found
            played = self._played(ended, noticed_at(events, seqs))
            done, events = self._split(events, many)
            # Names are looked up now: with the next input these numbers may be reassigned.
            names = self.engine.names_in(deliveries)
            played.sent.append(
                PlayedDeliveries(
                    deliveries,
                    done.seqs,
                    done.times,
                    self._elsewhere,
                    self._begun.deliveries,
                    names,
                    self.engine.judged_copies(deliveries),
                )
            )
            parts.append(played)
            if not done.are_many:
                break
        return events

    def _apply_plain(self, events: PlainEvents) -> PlainEvents:
        """Apply events as columns; return those that must be applied one by one."""
        while len(events) and (found := self.engine.play_columns(events, quietly=True)) is not None:
            done, events = self._split(events, found[0])
            if not done.are_many:
                break
        return events

    def _split(self, events: PlainEvents, many: int) -> tuple[PlainEvents, PlainEvents]:
        """Split into applied events and the rest, and advance `seq`."""
        self.seq = events.seq(many - 1)
        return events.part(0, many), events.part(many, len(events))

    def _run(self, inputs: Inputs, quietly: bool = False) -> Outcome:
        begun = inputs.values[0] if inputs.values else None
        if isinstance(begun, Restarted):
            self._begin(begun)
        outcome = self.engine.play(inputs.values, inputs.times, again=True, quietly=quietly)
        self.seq = inputs.last
        return outcome

    def _played(self, outcome: Outcome, inputs: Inputs) -> Played:
        sent = [self._sent(each, inputs) for each in outcome.sent]
        if self.shard.number:
            return Played(sent)
        return Played(
            sent,
            list(_contexts(outcome, inputs)),
            [*inputs.unusable, *_refused(outcome, inputs)],
            list(_suspects(outcome, inputs)),
            outcome.notices,
            self.seq,
            self._begun.deliveries,
        )

    def _sent(self, deliveries: Deliveries, inputs: Inputs) -> PlayedDeliveries:
        rows = [inputs.event_seqs.get(event) for event in deliveries.events]
        seqs = [None if row is None else row[0] for row in rows]
        # A live event may be older, or not: that depends on which rows are decided together.
        caused_at = deliveries.caused_at
        ingested = [row[1] if caused_at is None and row else caused_at or 0.0 for row in rows]
        recorded = self._begun.deliveries
        cause = None if caused_at is None else inputs.seqs[deliveries.caused_by]
        return PlayedDeliveries(
            deliveries, seqs, ingested, self._elsewhere, recorded,
            judged=self.engine.judged_copies(deliveries), cause=cause,
        )  # fmt: skip


class _Pace:
    """The number of rows to decide at once."""

    def __init__(self) -> None:
        self.rows = FIRST_AT_ONCE

    def learn(self, rows: int, copies: int) -> None:
        """Adapt to the number of copies that some rows made; grow at most fourfold."""
        fits = MOST_COPIES * rows // max(copies, 1)
        self.rows = max(LEAST, min(MOST_AT_ONCE, fits, 4 * self.rows))


def _copies(part: Played) -> int:
    """The number of copies in a part."""
    return sum(len(each.deliveries) for each in part.sent)


def _contexts(outcome: Outcome, inputs: Inputs) -> Iterator[ContextChange]:
    for changed in outcome.node_changes:
        seq, time = inputs.seqs[changed.index], inputs.times[changed.index]
        yield ContextChange(seq, time, changed.node, changed.state)


def _suspects(outcome: Outcome, inputs: Inputs) -> Iterator[Suspect]:
    for changed in outcome.node_changes:
        if changed.state is not None:
            reason = doubt(changed.state, changed.before, BELIEVED)
            if reason is not None:
                seq, time = inputs.seqs[changed.index], inputs.times[changed.index]
                yield Suspect(seq, time, changed.node, reason)


def _refused(outcome: Outcome, inputs: Inputs) -> Iterator[Unusable]:
    for refusal in outcome.refusals:
        seq = inputs.seqs[refusal.index]
        yield Unusable(seq, seq, f"refused when it was applied again: {refusal.reason}")


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows in batches for the engine; a restart row begins a new batch."""
    batch: list[Row] = []
    for row in rows:
        if batch and (len(batch) >= MOST_AT_ONCE or row.kind == "restart"):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
