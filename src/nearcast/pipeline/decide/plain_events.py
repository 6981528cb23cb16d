"""Plain events: rows of the log whose columns hold the whole event, processed as columns.

Most rows are plain. The engine takes them together, without an object for each, and the columns of
the decided rows are taken from them.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Self, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from nearcast.core.degrees import LARGEST_LATITUDE, LARGEST_LONGITUDE
from nearcast.core.matching.tables import F64, I32, I64
from nearcast.core.model.event import Event
from nearcast.core.model.event_batch import EventBatch, carried
from nearcast.core.model.event_columns import EventColumns
from nearcast.core.model.flat_json import carried_by
from nearcast.core.model.payload import attributes_of
from nearcast.store import plain_event, rows_of
from nearcast.store.rows.columns import column
from nearcast.store.rows.plain_rows import PLAIN_DATA
from nearcast.store.rows.rows import SCHEMA
from nearcast.wire.mqtt import MESSAGE_EXPIRY_MARK

LEAST = 64
"""The shortest run of consecutive plain events that is worth processing as columns."""
_NEEDED = ("event_id", "subject", "publisher", "time")
_PLAIN_DATA = column(list(PLAIN_DATA), pa.string())


def are_plain(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return a flag for each row: True for plain events."""
    flags = pc.and_(pc.equal(rows["kind"], "event"), pc.equal(rows["schema"], SCHEMA))
    flags = pc.and_(flags, pc.is_in(rows["data"], _PLAIN_DATA))
    for name in _NEEDED:
        if rows[name].null_count:
            flags = pc.and_(flags, pc.is_valid(rows[name]))
    flags = pc.and_(flags, pc.fill_null(pc.is_finite(rows["time"]), False))
    for name, largest in (("lat", LARGEST_LATITUDE), ("lon", LARGEST_LONGITUDE)):
        flags = pc.and_(flags, pc.fill_null(pc.less_equal(pc.abs(rows[name]), largest), True))
    headers = rows["headers"]
    if headers.null_count < len(headers):
        expires = pc.fill_null(pc.starts_with(headers, MESSAGE_EXPIRY_MARK), False)
        flags = pc.and_not(flags, expires)
    found: npt.NDArray[np.bool_] = flags.to_numpy(zero_copy_only=False)
    return found


def stretches(rows: pa.RecordBatch) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """Yield the rows in order, as runs: True with at least `LEAST` plain events, or False."""
    plain = are_plain(rows)
    edges = [0, *(np.flatnonzero(plain[1:] != plain[:-1]) + 1).tolist(), len(plain)]
    mixed = 0
    for start, end in pairwise(edges):
        if plain[start] and end - start >= LEAST:
            if mixed < start:
                yield False, rows.slice(mixed, start - mixed)
            yield True, rows.slice(start, end - start)
            mixed = end
    if mixed < len(plain):
        yield False, rows.slice(mixed)


def windows(batches: Iterable[pa.RecordBatch], most: Callable[[], int]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in windows of a given size; a restart row begins a new window.

    `most` returns the size of the next window.
    """
    waiting: list[pa.RecordBatch] = []
    room = most()
    for batch in batches:
        starts = np.flatnonzero(pc.equal(batch["kind"], "restart").to_numpy(zero_copy_only=False))
        at = 0
        for end in (*starts.tolist(), batch.num_rows):
            while at < end:
                piece = batch.slice(at, min(room, end - at))
                waiting.append(piece)
                at += piece.num_rows
                room -= piece.num_rows
                if not room:
                    yield joined(waiting)
                    waiting, room = [], most()
            if end < batch.num_rows and waiting:
                yield joined(waiting)
                waiting, room = [], most()
    if waiting:
        yield joined(waiting)


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of all batches in one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class PlainEvents(EventColumns):
    """Rows that are plain events."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows

    def __getstate__(self) -> bytes:
        # Only the rows of the slice, not those of the whole batch it was cut from.
        written = pa.BufferOutputStream()
        with pa.ipc.new_stream(written, self.rows.schema) as stream:
            stream.write_batch(self.rows)
        return bytes(written.getvalue())

    def __setstate__(self, state: bytes) -> None:
        with pa.ipc.open_stream(state) as stream:
            self.rows = stream.read_next_batch()

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> "PlainEvents": ...
    def __getitem__(self, index: int | slice) -> "Event | PlainEvents":
        if isinstance(index, slice):
            start, end, _ = index.indices(len(self))
            return self.part(start, end)
        return next(iter(self.part(index, index + 1)))

    def __iter__(self) -> Iterator[Event]:
        for row in rows_of(self.rows):
            event = plain_event(row)
            assert event is not None
            yield replace(event, attributes=attributes_of(event.payload))

    @property
    def are_many(self) -> bool:
        """True if there are enough events to process them as columns."""
        return len(self) >= LEAST

    @property
    def seqs(self) -> list[int]:
        """The seq of each event."""
        found: list[int] = self.rows["seq"].to_pylist()
        return found

    def seq(self, index: int) -> int:
        """The seq of one event."""
        return int(self.rows["seq"][index].as_py())

    @property
    def times(self) -> F64:
        """The ingest time of each event."""
        return _numbers(self.rows["ingested"])

    @property
    def sizes(self) -> I64:
        """The payload size of each event, in bytes."""
        lengths = pc.fill_null(pc.binary_length(self.rows["payload"]), 0)
        found: I64 = lengths.to_numpy().astype(np.int64)
        return found

    def part(self, start: int, end: int) -> Self:
        """The events from `start` to before `end`."""
        return type(self)(self.rows.slice(start, end - start))

    def batch(self, attributes: bool = True) -> EventBatch:
        """The events as matchers take them; without `attributes` payloads are not parsed."""
        rows = self.rows
        subjects, subject = different_words(rows["subject"])
        publishers, publisher = different_words(rows["publisher"])
        lat, lon = _numbers(rows["lat"]), _numbers(rows["lon"])
        nowhere = np.isnan(lat) | np.isnan(lon)
        if nowhere.any():
            lat, lon = np.where(nowhere, np.nan, lat), np.where(nowhere, np.nan, lon)
        said = carried_by(*_texts(rows["payload"])) if attributes else carried([{}] * len(self))
        return EventBatch(
            subjects=subjects,
            subject=subject,
            publishers=publishers,
            publisher=publisher,
            lat=lat,
            lon=lon,
            **said,
            borrowed=(~nowhere).astype(np.uint8),
            events=self,
        )


def _texts(values: pa.Array) -> tuple[npt.NDArray[np.uint8], I32]:
    """The bytes of a column and the offsets of its values; nulls become empty values."""
    if values.null_count:
        values = pc.fill_null(values, b"")
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data or b"", np.uint8), ends


def different_words(values: pa.Array) -> tuple[list[str], I32]:
    """The distinct strings of a column, and for each value the index of its string."""
    encoded = values.dictionary_encode()
    # A copy: kernels would be compiled again for read-only arrays.
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().copy()


def _numbers(values: pa.Array) -> F64:
    """The numbers of a column; nulls become NaN."""
    found: F64 = values.to_numpy(zero_copy_only=False)
    return found.copy()


def qos_of(rows: pa.RecordBatch) -> pa.Array:
    """The QoS of rows that are plain events."""
    return pc.index_in(rows["data"], _PLAIN_DATA)
