"""The inputs that rows of a log record, and what rows tell of events beside themselves."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Input, Published
from nearcast.core.model.payload import attributes_of
from nearcast.pipeline.decide.plain_events import PlainEvents
from nearcast.store import GAP, CorruptError, Row, input_of, is_input, plain_event
from nearcast.wire.mqtt import first_message_expiry

NO_HEADERS: "Headers" = ((), None)
Headers = tuple[tuple[tuple[str, str], ...], bytes | None]
"""The user properties that a message carried, and all its properties if there were others."""


class Unusable(Struct, frozen=True):
    """Rows that could not be applied, and why."""

    seq: int
    last: int
    reason: str


class MessageHeaders(Struct, frozen=True):
    """What is told of an event beside itself."""

    headers: Headers
    expires: float | None


NOTHING_CARRIED = MessageHeaders(NO_HEADERS, None)


class ToldOf(Struct, frozen=True):
    """An event of these rows, and what is told of it."""

    event: Event
    seq: int
    carried: MessageHeaders


Told = dict[int, ToldOf]
"""The events of some rows, by the identity of the value."""


class Inputs:
    """The inputs that some rows record.

    A damaged row is unusable and passed over, as the broker could not have applied it either. Of a
    row that a later release wrote that is not so: it raises `UpgradeError`.
    """

    def __init__(self, rows: Sequence[Row], told: Told, quietly: bool = False) -> None:
        self.values: list[Input] = []
        self.times: list[float] = []
        self.seqs: list[int] = []
        self.unusable: list[Unusable] = []
        self.told = told
        self.last = rows[-1].seq if rows else 0
        for row in rows:
            if not is_input(row.kind):
                if row.kind == GAP:
                    gap = _gap(row)
                    self.unusable.append(gap)
                    self.last = max(self.last, gap.last)
                continue
            try:
                value = input_in(row, quietly)
            except CorruptError as error:
                self.unusable.append(Unusable(row.seq, row.seq, str(error)))
                continue
            if isinstance(value, Published):
                event = value.event
                told[id(event)] = ToldOf(event, row.seq, _carried(row, event))
            self.values.append(value)
            self.times.append(row.ingested)
            self.seqs.append(row.seq)


def noticed_at(events: PlainEvents, told: Told) -> Inputs:
    """What time ended is noticed at the first of these."""
    inputs = Inputs((), told)
    inputs.seqs, inputs.times = [events.seq(0)], [float(events.times[0])]
    return inputs


def _carried(row: Row, event: Event) -> MessageHeaders:
    if row.headers is None:
        lasts_s, raw = event.valid_s, None
    else:
        # Where it says when it expires, that is sooner than it ceases to be valid.
        expiry, left = first_message_expiry(row.headers)
        lasts_s, raw = event.valid_s if expiry is None else expiry, left or None
    headers = (row.properties, raw)
    if not lasts_s and headers == NO_HEADERS:
        return NOTHING_CARRIED
    return MessageHeaders(headers, row.ingested + lasts_s if lasts_s else None)


def input_in(row: Row, quietly: bool) -> Input:
    """The input that a row records; that of a plain event sooner.

    Nobody looks into a plain event that is only applied, unless somebody counts it later: then
    its payload says what it carried.
    """
    event = plain_event(row)
    if event is None:
        return input_of(row)
    if not quietly:
        event = replace(event, attributes=attributes_of(event.payload))
    return Published(event)


def _gap(row: Row) -> Unusable:
    told = msgspec.json.decode(row.data, type=dict[str, object])
    return Unusable(row.seq, int(str(told["last"])), str(told["reason"]))
