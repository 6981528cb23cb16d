"""Rows of the sink: the columns of a DataFrame for brokers, and how batches are read.

Only `broker`, `kind`, `id` and `subject` are required; other missing or null values default as in
`nearcast.wire.handover`. Batches are read a column at a time: a recipient costs well below a
microsecond.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from nearcast.pipeline.errors import PipelineInputError
from nearcast.wire.handover import (
    PUBLISHER,
    DeliveryRow,
    EventRow,
    HandedRow,
    RowJudged,
    RowRecipient,
    RowUrgency,
)
from nearcast.wire.mqtt import user_properties

EVENT, DELIVERY, DUE = "event", "delivery", "due"
"""The kinds of rows. One of kind `due` goes to no broker: its `time` is when a timer will fire. If
it names a broker, that is the only timer of the broker's log as of a row, whose number is the `id`;
without a time there is none."""
SINK_SCHEMA = (
    "broker string, kind string, id string, subject string, publisher string, session string, "
    "time double, lat double, lon double, at_given boolean, payload binary, "
    "properties array<struct<name: string, value: string>>, headers binary, qos int, "
    "retain boolean, valid_s double, expires double, object string, to string, "
    "recipients array<struct<session: string, subscriptions: array<string>, priority: int, "
    "replayed: boolean>>, about array<string>, "
    "urgency struct<priority: int, raises: boolean, deadline: double>, "
    "judged array<struct<filter: binary, levels: array<int>, true_bits: bigint, "
    "false_bits: bigint, subscriptions: array<string>>>, gathered int"
)
"""All columns, as Spark DDL. In `recipients`, `subscriptions` are ids."""
MOST_RECIPIENTS = 100_000
NEEDED = ("broker", "kind", "id", "subject")


def bounded(batch: pa.RecordBatch, most: int = MOST_RECIPIENTS) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of at most `most` recipients, or of one row with more.

    A recipient takes some hundred bytes as a Python object, and an event may have thousands.
    """
    if "recipients" not in batch.schema.names:
        yield batch
        return
    lengths = batch.column("recipients").value_lengths().fill_null(0).to_numpy()
    ends = lengths.cumsum()
    start, done = 0, 0
    while start < batch.num_rows:
        end = max(start + 1, int(ends.searchsorted(done + most, side="right")))
        yield batch.slice(start, end - start)
        start, done = end, int(ends[end - 1])


class DueRow(Struct, frozen=True):
    """A row of kind `due`."""

    broker: str
    id: str
    time: float | None

    @property
    def as_of(self) -> int:
        """The row of the broker's log as of which it holds; 0: it goes by the watermark."""
        return int(self.id) if self.broker else 0


def split_dues(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[DueRow]]:
    """Return a batch without its rows of kind `due`, and these."""
    if "kind" not in batch.schema.names:
        return batch, []
    is_due = pc.fill_null(pc.equal(batch.column("kind"), DUE), False)
    if not pc.any(is_due).as_py():
        return batch, []
    found = batch.filter(is_due).select(list(DueRow.__struct_fields__)).to_pylist()
    return batch.filter(pc.invert(is_due)), [DueRow(**each) for each in found]


def rows_by_broker(batch: pa.RecordBatch) -> Iterator[tuple[str, list[HandedRow]]]:
    """Yield each broker with its rows, in order; deliveries without recipients are left out."""
    for name in NEEDED:
        if name not in batch.schema.names:
            raise PipelineInputError(f"rows for brokers need a column {name!r}")
        if batch.column(name).null_count:
            raise PipelineInputError(f"a row for a broker has no {name!r}")
    found: dict[str, list[HandedRow]] = {}
    for broker, row in zip(_values(batch.column("broker")), _rows(batch), strict=True):
        if row is not None:
            found.setdefault(broker, []).append(row)
    yield from found.items()


def _rows(batch: pa.RecordBatch) -> Iterator[HandedRow | None]:
    count = batch.num_rows
    kinds, ids, subjects = (_column(batch, name) for name in NEEDED[1:])
    payloads, publishers = _column(batch, "payload", b""), _column(batch, "publisher", PUBLISHER)
    sessions, times = _column(batch, "session", ""), _column(batch, "time")
    lats, lons = _column(batch, "lat"), _column(batch, "lon")
    given, retains = _column(batch, "at_given", False), _column(batch, "retain", False)
    headers, qos = _headers(batch), _column(batch, "qos")
    valid, expires = _column(batch, "valid_s"), _column(batch, "expires")
    objects, targets, recipients = (
        _column(batch, "object"),
        _column(batch, "to"),
        _recipients(batch),
    )
    gathered = _column(batch, "gathered", 0)
    about, urgencies, judged = _column(batch, "about"), _urgencies(batch), _judged(batch)
    for at in range(count):
        kind = kinds[at]
        if kind == DELIVERY:
            to = recipients[at]
            if not to:
                yield None
                continue
            if times[at] is None:
                raise PipelineInputError(f"delivery {ids[at]!r} has no time")
            yield DeliveryRow(
                ids[at], subjects[at], payloads[at], publishers[at], times[at],
                cast(tuple[RowRecipient, ...], to), sessions[at], lats[at], lons[at], given[at],
                qos[at] or 0, retains[at], expires[at], headers[at], urgencies[at], judged[at],
                gathered[at],
            )  # fmt: skip
        elif kind == EVENT:
            yield EventRow(
                ids[at], subjects[at], payloads[at], publishers[at], times[at], lats[at],
                lons[at], 1 if qos[at] is None else qos[at], retains[at], valid[at], objects[at],
                targets[at], headers[at], tuple(about[at] or ()),
            )  # fmt: skip
        else:
            raise PipelineInputError(
                f"row {ids[at]!r} is of kind {kind!r}; there are event and delivery"
            )


def _column(batch: pa.RecordBatch, name: str, instead: object = None) -> list[Any]:
    """Return a column's values; missing or null values are replaced by `instead`."""
    if name not in batch.schema.names:
        return [instead] * batch.num_rows
    column = batch.column(name)
    values: list[object] = _values(column)
    if instead is not None and column.null_count:
        return [instead if value is None else value for value in values]
    return values


def _headers(batch: pa.RecordBatch) -> list[bytes]:
    """Return each message's MQTT properties: its raw headers, or its user properties encoded."""
    headers = _column(batch, "headers")
    pairs = _column(batch, "properties")
    return [
        raw
        if raw is not None
        else user_properties([(each["name"], each["value"]) for each in own])
        if own
        else b""
        for raw, own in zip(headers, pairs, strict=True)
    ]


def _urgencies(batch: pa.RecordBatch) -> list[RowUrgency | None]:
    """Return what each publisher said of urgency; None if nothing."""
    return [
        None
        if said is None
        else RowUrgency(said.get("priority"), bool(said.get("raises")), said.get("deadline"))
        for said in _column(batch, "urgency")
    ]


def _judged(batch: pa.RecordBatch) -> list[tuple[RowJudged, ...]]:
    """Return each row's judged subscriptions."""
    return [
        tuple(
            RowJudged(
                each["filter"], tuple(each["levels"]), each["true_bits"], each["false_bits"],
                tuple(each["subscriptions"]),
            )
            for each in found or ()
        )
        for found in _column(batch, "judged")
    ]  # fmt: skip


def _recipients(batch: pa.RecordBatch) -> list[list[tuple[object, ...]]]:
    """Return each row's recipients, as plain tuples in the order of `RowRecipient`'s fields."""
    if "recipients" not in batch.schema.names:
        return [[]] * batch.num_rows
    column = batch.column("recipients")
    flat = column.flatten()
    session, subscriptions, priority, replayed = (
        _field(flat, name) for name in RowRecipient.__struct_fields__
    )
    names = _values(subscriptions.flatten())
    everyone: list[tuple[object, ...]] = list(
        zip(
            _values(session),
            [names[start:end] for start, end in _spans(subscriptions)],
            _filled(priority, 1),
            _filled(replayed, False),
            strict=True,
        )
    )
    return [everyone[start:end] for start, end in _spans(column)]


def _field(structs: pa.StructArray, name: str) -> pa.Array:
    """Return a field of structs; Spark may reorder fields, and leave out optional ones."""
    if structs.type.get_field_index(name) >= 0:
        return structs.field(name)
    if name in ("session", "subscriptions"):
        raise PipelineInputError(f"recipients need a field {name!r}")
    return pa.nulls(len(structs))


def _filled(column: pa.Array, instead: object) -> list[object]:
    values: list[object] = _values(column)
    return (
        [instead if value is None else value for value in values] if column.null_count else values
    )


def _spans(lists: pa.ListArray) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each list in the result of `flatten`."""
    lengths = _values(lists.value_lengths())
    ends, at = [0], 0
    for length in lengths:
        at += length or 0
        ends.append(at)
    return pairwise(ends)


def _values(column: pa.Array) -> list[Any]:
    """Return a column's values like `to_pylist`, but several times as fast for most types."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return cast(list[Any], column.to_numpy(zero_copy_only=False).tolist())
    if column.null_count or not (pa.types.is_primitive(kind) or pa.types.is_boolean(kind)):
        return cast(list[Any], column.to_pylist())
    return cast(list[Any], column.to_numpy(zero_copy_only=False).tolist())
