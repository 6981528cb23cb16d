"""Playing a broker's log again: the same engine, the same inputs, so the same decisions.

A decision depends only on the inputs before it in its broker's log. A player has applied all of
them up to some seq; from there it either decides on the rows that follow, or just applies them
to come to where it is needed.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from nearcast.core.engine import Engine, Outcome
from nearcast.core.fan import Fan
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Delivery, Event
from nearcast.core.model.inputs import Input, Published, Restarted
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.position import Position
from nearcast.core.model.subject import SubjectRules
from nearcast.store import GAP, NO_INPUTS, Recipient, Row, StoreError, input_of
from nearcast.store.rows import SCHEMA

MOST_AT_ONCE = 4_096
"""Rows that are one batch for the engine."""
PLAIN = {"{}": 0, '{"qos":1}': 1, '{"qos":2}': 2}
"""What `data` is of events that their columns say all of, and their QoS."""

NO_HEADERS: "Headers" = ((), None)
Headers = tuple[tuple[tuple[str, str], ...], bytes | None]
"""The user properties that a message carried, and all its properties if there were others."""


class Sent(Struct, frozen=True):
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


class Unusable(Struct, frozen=True):
    """Rows that could not be applied, and why."""

    seq: int
    last: int
    reason: str


class Played(Struct):
    """What came of some rows."""

    sent: list[Sent] = []
    contexts: list[ContextChange] = []
    unusable: list[Unusable] = []


class Player:
    """The engine of one broker as it was after some row of its log."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.seq = 0
        """The last row that was applied."""
        self.engine = Engine()
        self._elsewhere = SubjectRules(())
        self._recorded = False
        self._headers: dict[str, Headers] = {}
        """What live events carry, by their key."""

    @property
    def size(self) -> int:
        """How many things it knows."""
        return len(self.engine.subscriptions) + len(self.engine.nodes)

    def apply(self, rows: Iterable[Row]) -> None:
        """Apply rows without asking who gets what, except where that matters later."""
        for batch in _batches(rows):
            self._run(_Inputs(batch, quietly=True), quietly=True)

    def decide(self, rows: Iterable[Row]) -> Iterator[Played]:
        """Apply rows, and yield what comes of them."""
        for batch in _batches(rows):
            inputs = _Inputs(batch)
            outcome = self._run(inputs)
            yield Played(
                [self._sent(each, inputs) for each in outcome.sent],
                list(_contexts(outcome, inputs)),
                [*inputs.unusable, *_refused(outcome, inputs)],
            )

    def _run(self, inputs: "_Inputs", quietly: bool = False) -> Outcome:
        begun = inputs.values[0] if inputs.values else None
        if isinstance(begun, Restarted):
            self._elsewhere, self._recorded = SubjectRules(begun.elsewhere), begun.deliveries
        outcome = self.engine.play(inputs.values, inputs.times, again=True, quietly=quietly)
        for changed in outcome.changes:
            self._headers.pop(changed.key, None)
            if isinstance(changed.value, Event):
                headers = inputs.headers.get(_name(changed.value))
                if headers is not None:
                    self._headers[changed.key] = headers
        self.seq = inputs.last
        return outcome

    def _sent(self, sent: Fan | Delivery, inputs: "_Inputs") -> Sent:
        event = sent.event
        name = _name(event)
        headers = inputs.headers.get(name)
        if headers is None and event.stays:
            headers = self._headers.get(self.engine.live_key(event))
        elsewhere = self._elsewhere.fits(event.subject)
        seq = inputs.seq_of(name)
        expires = self.engine.expiry_of(self.engine.live_key(event)) if event.stays else None
        carried = headers or NO_HEADERS
        return Sent(sent, carried, seq, elsewhere, self._recorded, expires)


class _Inputs:
    """The inputs that some rows record."""

    def __init__(self, rows: Sequence[Row], quietly: bool = False) -> None:
        self.values: list[Input] = []
        self.times: list[float] = []
        self.seqs: list[int] = []
        self.unusable: list[Unusable] = []
        self.headers: dict[tuple[str, str], Headers] = {}
        self._events: dict[tuple[str, str], int] = {}
        self.last = rows[-1].seq
        for row in rows:
            if row.kind in NO_INPUTS:
                if row.kind == GAP:
                    gap = _gap(row)
                    self.unusable.append(gap)
                    self.last = max(self.last, gap.last)
                continue
            try:
                value = _input(row, quietly)
            except StoreError as error:
                self.unusable.append(Unusable(row.seq, row.seq, str(error)))
                continue
            if isinstance(value, Published):
                name = _name(value.event)
                self._events[name] = row.seq
                if row.properties or row.headers is not None:
                    self.headers[name] = (row.properties, row.headers)
            self.values.append(value)
            self.times.append(row.ingested)
            self.seqs.append(row.seq)

    def seq_of(self, name: tuple[str, str]) -> int | None:
        """The row of an event by its publisher and id."""
        return self._events.get(name)


def _contexts(outcome: Outcome, inputs: _Inputs) -> Iterator[ContextChange]:
    for changed in outcome.changes:
        state, index = changed.value, changed.index
        if isinstance(state, NodeState) or (state is None and changed.before is not None):
            yield ContextChange(inputs.seqs[index], inputs.times[index], changed.key, state)


def _refused(outcome: Outcome, inputs: _Inputs) -> Iterator[Unusable]:
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


def _input(row: Row, quietly: bool) -> Input:
    """The input that a row records; that of a plain event sooner.

    Nobody looks into a plain event that is only applied, unless somebody counts it later: then
    its payload says what it carried.
    """
    qos = PLAIN.get(row.data)
    if row.kind != "event" or qos is None or row.schema != SCHEMA:
        return input_of(row)
    payload = row.payload or b""
    at = None if row.lat is None or row.lon is None else Position(row.lat, row.lon)
    if row.event_id is None or row.subject is None or row.publisher is None or row.time is None:
        return input_of(row)
    attributes = {} if quietly else attributes_of(payload)
    return Published(
        Event(
            row.event_id, row.subject, row.publisher, row.time, attributes, at,
            payload=payload, qos=qos,
        )
    )  # fmt: skip


def _gap(row: Row) -> Unusable:
    told = msgspec.json.decode(row.data, type=dict[str, object])
    return Unusable(row.seq, int(str(told["last"])), str(told["reason"]))


def _name(event: Event) -> tuple[str, str]:
    return event.publisher, event.id
