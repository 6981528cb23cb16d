"""Rows of the log as columns from the moment they are recorded.

Consecutive rows that differ only in event id and payload are a run. The common values are kept once
for each run, ids and payloads for each row, all in lists: appending is `+=`, and a row has no
object of its own. The same columns are written to the state's tail (`packed`) and to Arrow
(`to_arrow` in `segments.py`), and are read back as `Row`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from nearcast.core.model.event_run import EventRun
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Moved, Published
from nearcast.core.model.record import Record
from nearcast.store.errors import CorruptError, StoreError, newer
from nearcast.store.rows.message_headers import UserProperties, header_bytes, run_header_columns
from nearcast.store.rows.plain_rows import PLAIN_DATA
from nearcast.store.rows.rows import SCHEMA, Row, record_row

ROW_BYTES = 200
"""The approximate memory of a row besides its payload."""
T = TypeVar("T")
PACKED, PACKED_ROWS = b"\2", b"\1"
"""The first byte of a packed buffer, and of a list of `Row` as earlier releases packed it."""


class RowBuffer:
    """Rows of one broker ordered by `seq`, as columns; `append_events` is the usual way in.

    Not thread-safe: after handing a buffer over, the caller must not append to it.
    """

    __slots__ = (
        "broker", "counts", "data", "event_ids", "first_seqs", "headers", "ingested", "kinds",
        "lats", "lons", "nodes", "payloads", "properties", "publishers", "schemas", "size",
        "subjects", "times",
    )  # fmt: skip

    def __init__(self, broker: str = "") -> None:
        self.broker = broker
        self.size = 0
        """The approximate memory of the rows, in bytes."""
        # One value for each run
        self.first_seqs: list[int] = []
        self.counts: list[int] = []
        self.kinds: list[str] = []
        self.ingested: list[float] = []
        self.schemas: list[int] = []
        self.subjects: list[str | None] = []
        self.publishers: list[str | None] = []
        self.times: list[float | None] = []
        self.lats: list[float | None] = []
        self.lons: list[float | None] = []
        self.nodes: list[str | None] = []
        self.properties: list[UserProperties] = []
        self.headers: list[bytes | None] = []
        self.data: list[str] = []
        # One value for each row
        self.event_ids: list[str | None] = []
        self.payloads: list[bytes | None] = []

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "RowBuffer":
        """Return a buffer of rows, which are of one broker and in order."""
        buffer = cls(rows[0].broker if rows else "")
        for row in rows:
            buffer.append(row)
        return buffer

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def first_seq(self) -> int:
        """The seq of the first row; there must be one."""
        return self.first_seqs[0]

    @property
    def last_seq(self) -> int:
        """The seq of the last row; there must be one."""
        return self.first_seqs[-1] + self.counts[-1] - 1

    @property
    def last_ingested(self) -> float:
        """The ingest time of the last row; there must be one."""
        return self.ingested[-1]

    def append_events(
        self,
        first_seq: int,
        ingested: float,
        ids: Sequence[str],
        subject: str,
        publisher: str,
        time: float,
        position: Position | None,
        payloads: Sequence[bytes],
        qos: int = 0,
        properties: UserProperties = (),
        headers: bytes | None = None,
    ) -> None:
        """Append plain events of one publisher on one subject, with consecutive seqs.

        Each has its own id and payload; all else is shared: a run of PUBLISH packets whose
        properties are the same bytes. Also used for runs of one. A plain event is not retained and
        has no target, key, session or attributes of its own (see `plain_rows.py`).
        """
        count = len(ids)
        self.event_ids += ids
        self.payloads += payloads
        self.size += count * ROW_BYTES + sum(map(len, payloads))
        if (
            self.counts
            and subject == self.subjects[-1]
            and publisher == self.publishers[-1]
            and time is self.times[-1]
            and ingested is self.ingested[-1]
            and first_seq == self.first_seqs[-1] + self.counts[-1]
            and self.data[-1] is PLAIN_DATA[qos]
            and self.kinds[-1] == "event"
            and properties == self.properties[-1]
            and headers == self.headers[-1]
            and (self.lats[-1] is None if position is None else self.lats[-1] is position.lat)
            and (self.lons[-1] is None if position is None else self.lons[-1] is position.lon)
        ):
            self.counts[-1] += count
            return
        if properties or headers:
            self.size += header_bytes(properties, headers)
        self.first_seqs.append(first_seq)
        self.counts.append(count)
        self.kinds.append("event")
        self.ingested.append(ingested)
        self.schemas.append(SCHEMA)
        self.subjects.append(subject)
        self.publishers.append(publisher)
        self.times.append(time)
        self.lats.append(None if position is None else position.lat)
        self.lons.append(None if position is None else position.lon)
        self.nodes.append(None)
        self.properties.append(properties)
        self.headers.append(headers)
        self.data.append(PLAIN_DATA[qos])

    def append_moves(
        self,
        first_seq: int,
        ingested: float,
        nodes: Sequence[str],
        positions: Sequence[Position | None],
    ) -> None:
        """Append consecutive `Moved` inputs, one for each node."""
        count = len(nodes)
        none = [None] * count
        self.first_seqs += range(first_seq, first_seq + count)
        self.counts += [1] * count
        self.kinds += ["position"] * count
        self.ingested += [ingested] * count
        self.schemas += [SCHEMA] * count
        self.subjects += none
        self.publishers += none
        self.times += none
        self.lats += [None if at is None else at.lat for at in positions]
        self.lons += [None if at is None else at.lon for at in positions]
        self.nodes += nodes
        self.properties += [()] * count
        self.headers += none
        self.data += ["{}"] * count
        self.event_ids += none
        self.payloads += none
        self.size += count * ROW_BYTES

    def append_run(self, first_seq: int, ingested: float, run: EventRun) -> None:
        """Append the events of a run, with consecutive seqs."""
        if run.session:
            for seq, event in enumerate(run, first_seq):
                self.append(record_row(Record(seq, ingested, Published(event)), self.broker))
            return
        properties, headers = run_header_columns(run, ingested)
        self.append_events(
            first_seq, ingested, run.ids, run.subject, run.publisher, run.time, run.position,
            run.payloads, run.qos, properties, headers,
        )  # fmt: skip

    def append_record(self, record: Record) -> None:
        """Append any record."""
        value = record.input
        if type(value) is Moved:
            self.append_moves(record.seq, record.ingested, (value.node,), (value.position,))
        else:
            self.append(record_row(record, self.broker))

    def append(self, row: Row) -> None:
        """Append one row of any kind."""
        assert row.broker == self.broker, f"a row of {row.broker!r} in a log of {self.broker!r}"
        self.first_seqs.append(row.seq)
        self.counts.append(1)
        self.kinds.append(row.kind)
        self.ingested.append(row.ingested)
        self.schemas.append(row.schema)
        self.subjects.append(row.subject)
        self.publishers.append(row.publisher)
        self.times.append(row.time)
        self.lats.append(row.lat)
        self.lons.append(row.lon)
        self.nodes.append(row.node)
        self.properties.append(row.properties)
        self.headers.append(row.headers)
        self.data.append(row.data)
        self.event_ids.append(row.event_id)
        self.payloads.append(row.payload)
        self.size += ROW_BYTES + len(row.payload or b"") + len(row.data)
        if row.properties or row.headers:
            self.size += header_bytes(row.properties, row.headers)

    def extend(self, other: "RowBuffer") -> None:
        """Append all rows of another buffer, which is not changed; an empty one has no broker."""
        if not self:
            self.broker = other.broker or self.broker
        assert not other or other.broker == self.broker
        for mine, theirs in zip(self._columns(), other._columns(), strict=True):
            mine += theirs
        self.size += other.size

    def since(self, seq: int) -> "RowBuffer":
        """Return the rows from a seq on: this buffer itself, or a copy of a part of it."""
        if not self or self.first_seq >= seq:
            return self
        rest = RowBuffer(self.broker)
        if self.last_seq < seq:
            return rest
        run = bisect_right(self.first_seqs, seq) - 1
        skipped = min(seq - self.first_seqs[run], self.counts[run])
        before = sum(self.counts[:run]) + skipped
        for mine, theirs in zip(rest._run_columns(), self._run_columns(), strict=True):
            mine += theirs[run:]
        rest.event_ids += self.event_ids[before:]
        rest.payloads += self.payloads[before:]
        rest.first_seqs[0] += skipped
        rest.counts[0] -= skipped
        if not rest.counts[0]:
            for column in rest._run_columns():
                del column[0]
        rest.size = self.size * len(rest) // len(self)
        return rest

    def __iter__(self) -> Iterator[Row]:
        """Yield each row as a `Row`."""
        at = 0
        for (
            first, count, kind, ingested, schema, subject, publisher, time, lat, lon, node,
            properties, headers, data,
        ) in zip(*self._run_columns(), strict=True):  # fmt: skip
            for seq in range(first, first + count):
                yield Row(
                    self.broker, seq, kind, ingested, schema, self.event_ids[at], subject,
                    publisher, time, lat, lon, node, properties, self.payloads[at], headers, data,
                )  # fmt: skip
                at += 1

    def packed(self) -> bytes:
        """Return the buffer as bytes; a run column whose values are all equal is written once."""
        runs = len(self.counts)
        columns = self._columns()
        if runs > 1:
            columns = [_folded(each, runs) for each in columns[:_RUN_COLUMNS]]
            columns += (self.event_ids, self.payloads)
        try:
            return PACKED + msgspec.msgpack.encode((runs, columns))
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise StoreError(f"cannot keep rows of the log: {error}") from None

    @classmethod
    def unpacked(cls, value: bytes, broker: str) -> "RowBuffer":
        """Return the buffer that `packed` wrote, in this or an earlier release."""
        form = value[:1]
        if form not in (PACKED, PACKED_ROWS):
            raise newer("a kept list of rows", form[0] if form else 0, PACKED[0])
        try:
            if form == PACKED_ROWS:
                return cls.of(msgspec.msgpack.decode(memoryview(value)[1:], type=list[Row]))
            packed = msgspec.msgpack.decode(memoryview(value)[1:], type=_Packed)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptError(f"a kept list of rows cannot be read: {error}") from None
        found = cls(broker)
        written = [getattr(packed.columns, name) for name in _Columns.__struct_fields__]
        for mine, theirs in zip(found._run_columns(), written, strict=False):
            mine += theirs * packed.runs if len(theirs) == 1 else theirs
        found.event_ids += packed.columns.event_ids
        found.payloads += packed.columns.payloads
        found.size = (
            ROW_BYTES * len(found)
            + sum(len(each or b"") for each in found.payloads)
            + sum(map(header_bytes, found.properties, found.headers))
        )
        return found

    def _run_columns(self) -> list[list]:  # type: ignore[type-arg]  # of different values
        return [
            self.first_seqs, self.counts, self.kinds, self.ingested, self.schemas, self.subjects,
            self.publishers, self.times, self.lats, self.lons, self.nodes, self.properties,
            self.headers, self.data,
        ]  # fmt: skip

    def _columns(self) -> list[list]:  # type: ignore[type-arg]
        return [*self._run_columns(), self.event_ids, self.payloads]


class _Columns(Struct, array_like=True):
    """The columns of a packed buffer, in the order of `RowBuffer._columns`."""

    first_seqs: list[int]
    counts: list[int]
    kinds: list[str]
    ingested: list[float]
    schemas: list[int]
    subjects: list[str | None]
    publishers: list[str | None]
    times: list[float | None]
    lats: list[float | None]
    lons: list[float | None]
    nodes: list[str | None]
    properties: list[UserProperties]
    headers: list[bytes | None]
    data: list[str]
    event_ids: list[str | None]
    payloads: list[bytes | None]


_RUN_COLUMNS = len(_Columns.__struct_fields__) - 2


class _Packed(Struct, array_like=True):
    runs: int
    columns: _Columns


def _folded(column: list[T], runs: int) -> list[T]:
    """Return a single value if all runs have an equal one, else the column."""
    first = column[0]
    # 0.0 and -0.0 are equal, but different values.
    if (first or not isinstance(first, float)) and column[-1] == first:
        return column[:1] if column.count(first) == runs else column
    return column
