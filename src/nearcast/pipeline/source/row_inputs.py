"""The inputs that rows of a log record, and the rows of events."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Input, Published, TimePassed
from nearcast.core.model.payload import attributes_of
from nearcast.pipeline.decide.plain_events import PlainEvents
from nearcast.store import GAP, TICK, CorruptError, Row, input_of, is_input, plain_event
from nearcast.wire.mqtt import ProtocolError


class Unusable(Struct, frozen=True):
    """Rows that could not be applied, and the reason."""

    seq: int
    last: int
    reason: str


class EventSeqs:
    """The seqs and ingest times of events, by the identity of the event object."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Event, int, float]] = {}

    def put(self, event: Event, row: Row) -> None:
        """Record the row of an event."""
        self._found[id(event)] = event, row.seq, row.ingested

    def get(self, event: Event) -> tuple[int, float] | None:
        """Return seq and ingest time of an event; None if it is not among these rows."""
        found = self._found.get(id(event))
        return None if found is None else found[1:]


class Inputs:
    """The inputs that some rows record.

    A damaged row is unusable and skipped, since the broker could not have applied it either. A row
    that a later release wrote raises `UpgradeError` instead.
    """

    def __init__(self, rows: Sequence[Row], seqs: EventSeqs, quietly: bool = False) -> None:
        self.values: list[Input | TimePassed] = []
        self.times: list[float] = []
        self.seqs: list[int] = []
        self.unusable: list[Unusable] = []
        self.event_seqs = seqs
        self.last = rows[-1].seq if rows else 0
        for row in rows:
            if row.kind == TICK:
                self.values.append(TimePassed())
                self.times.append(row.ingested)
                self.seqs.append(row.seq)
                continue
            if not is_input(row.kind):
                if row.kind == GAP:
                    gap = gap_in(row)
                    self.unusable.append(gap)
                    self.last = max(self.last, gap.last)
                continue
            try:
                value = input_in(row, quietly)
            except (CorruptError, ProtocolError) as error:
                self.unusable.append(Unusable(row.seq, row.seq, str(error)))
                continue
            if isinstance(value, Published):
                seqs.put(value.event, row)
            self.values.append(value)
            self.times.append(row.ingested)
            self.seqs.append(row.seq)


def noticed_at(events: PlainEvents, seqs: EventSeqs) -> Inputs:
    """Return inputs for changes by time alone, which get the seq and time of the first event."""
    inputs = Inputs((), seqs)
    inputs.seqs, inputs.times = [events.seq(0)], [float(events.times[0])]
    return inputs


def input_in(row: Row, quietly: bool) -> Input:
    """The input that a row records, with a shortcut for plain events.

    The payload of a plain event that is only applied (`quietly`) is not parsed; if a later count
    needs its attributes, they are parsed from the payload then.
    """
    event = plain_event(row)
    if event is None:
        return input_of(row)
    if not quietly:
        event = replace(event, attributes=attributes_of(event.payload))
    return Published(event)


def gap_in(row: Row) -> Unusable:
    """Return the missing rows that a row of kind `gap` stands for; raises `CorruptError`."""
    try:
        told = msgspec.json.decode(row.data, type=_GapData)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CorruptError(
            f"row {row.seq} of {row.broker}, a gap, cannot be read: {error}"
        ) from None
    return Unusable(row.seq, told.last, told.reason)


class _GapData(Struct):
    last: int
    reason: str
