"""Data files of tables: Parquet, in a directory for each UTC day of ingest.

Files are written by the driver or by the tasks of a job, and become part of a table only when their
list is committed. A file that is not committed, because its task or its driver ended before, is
deleted later as an orphan. Nothing here needs more of a file system than object stores have.
"""

import math
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyarrow import fs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = "day"
"""The partition column."""
TARGET_BYTES = 128 << 20
"""A file that has so many bytes is closed, and is not compacted."""
MOST_OPEN = 8
"""Open files of one writer: each is the buffer of a day."""
READ_ROWS = 65_536
EPOCH_DAY = date(1970, 1, 1)
_FILES_DDL = "path string, day date, rows long, bytes long, low double, high double"


class DataFile(Struct, frozen=True):
    """A written file."""

    path: str
    """Relative to the table."""
    day: date
    rows: int
    bytes: int
    low: float | None
    """The least value of the time column; None if it has none."""
    high: float | None

    def statistics(self, time: str) -> str:
        """The statistics of the file for a Delta log: of the time, and of no other column.

        Names and payloads must not be in the log, where an erasure would not find them.
        """
        found: dict[str, object] = {"numRecords": self.rows}
        if self.low is not None and self.high is not None:
            found |= {"minValues": {time: self.low}, "maxValues": {time: self.high}}
        return msgspec.json.encode(found).decode()


class DayWriter:
    """Writes rows of one table to files, by the day of their time."""

    def __init__(self, uri: str, schema: pa.Schema, time: str, stem: str) -> None:
        self._files, self._root = file_system(uri)
        self._schema = schema
        self._time = time
        self._stem = stem
        self._open: dict[date, _OpenFile] = {}
        self._done: list[DataFile] = []

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows that have the columns of the schema."""
        if not rows.num_rows:
            return
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        table = table.select(self._schema.names).cast(self._schema)
        for day, part in _by_day(table, self._time):
            file = self._open.get(day) or self._begin(day)
            file.write(part)
            if file.bytes >= TARGET_BYTES:
                self._end(day)

    def close(self) -> list[DataFile]:
        """Complete all files, and return them."""
        for day in list(self._open):
            self._end(day)
        return self._done

    def _begin(self, day: date) -> "_OpenFile":
        if len(self._open) >= MOST_OPEN:
            self._end(next(iter(self._open)))
        directory = f"{DAY}={day.isoformat()}"
        self._files.create_dir(f"{self._root}/{directory}", recursive=True)
        path = f"{directory}/{self._stem}-{uuid.uuid4().hex}.parquet"
        file = _OpenFile(self._files, self._root, path, day, self._schema, self._time)
        self._open[day] = file
        return file

    def _end(self, day: date) -> None:
        self._done.append(self._open.pop(day).close())


class _OpenFile:
    """A file that is being written."""

    def __init__(
        self, files: fs.FileSystem, root: str, path: str, day: date, schema: pa.Schema, time: str
    ) -> None:
        self._path, self._day, self._time = path, day, time
        self._stream = files.open_output_stream(f"{root}/{path}")
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd")
        self._rows = 0
        self._low, self._high = math.inf, -math.inf

    @property
    def bytes(self) -> int:
        """The bytes written so far."""
        return int(self._stream.tell())

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._rows += rows.num_rows
        found = pc.min_max(rows[self._time])
        if found["min"].is_valid:
            self._low = min(self._low, found["min"].as_py())
            self._high = max(self._high, found["max"].as_py())

    def close(self) -> DataFile:
        self._writer.close()
        size = self.bytes
        self._stream.close()
        known = self._low <= self._high
        low, high = (self._low, self._high) if known else (None, None)
        return DataFile(self._path, self._day, self._rows, size, low, high)


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URL, and the path in it; credentials are environment."""
    found, path = fs.FileSystem.from_uri(uri) if "://" in uri else (fs.LocalFileSystem(), uri)
    return found, path


def write_rows(uri: str, rows: pa.Table, schema: pa.Schema, time: str, stem: str) -> list[DataFile]:
    """Write rows to files here."""
    writer = DayWriter(uri, schema, time, stem)
    writer.write(rows)
    return writer.close()


def write_frame(
    uri: str, rows: "DataFrame", schema: pa.Schema, time: str, stem: str
) -> list[DataFile]:
    """Write the rows of a job to files, in its tasks."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DayWriter(uri, schema, time, stem)
        for batch in batches:
            writer.write(batch)
        done = [msgspec.structs.asdict(each) for each in writer.close()]
        yield pa.RecordBatch.from_pylist(done, schema=_FILES)

    found = rows.select(*schema.names).mapInArrow(write, _FILES_DDL).collect()
    return [DataFile(**row.asDict()) for row in found]


_FILES = pa.schema(
    [
        ("path", pa.string()), ("day", pa.date32()), ("rows", pa.int64()), ("bytes", pa.int64()),
        ("low", pa.float64()), ("high", pa.float64()),
    ]
)  # fmt: skip


def read_files(uri: str, paths: Iterable[str], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of some files of a table, in batches; columns that a file lacks are null."""
    files, root = file_system(uri)
    for path in paths:
        with files.open_input_file(f"{root}/{path}") as source, pq.ParquetFile(source) as file:
            known = set(file.schema_arrow.names)
            wanted = [name for name in schema.names if name in known]
            for batch in file.iter_batches(READ_ROWS, columns=wanted):
                yield _with_schema(batch, schema)


def read_frame(
    spark: "SparkSession", uri: str, paths: Sequence[str], schema: pa.Schema
) -> "DataFrame":
    """Return the rows of some files of a table; tasks read them as the driver does.

    Spark's own reader would need a Hadoop file system for an object store.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in read_files(uri, batch["path"].to_pylist(), schema):
                yield from rows.to_batches()

    tasks = max(1, min(len(paths), spark.sparkContext.defaultParallelism))
    listed = spark.createDataFrame([(path,) for path in paths], "path string").repartition(tasks)
    return listed.mapInArrow(read, from_arrow_schema(schema))


def day_of(seconds: float) -> date:
    """The UTC day of a time."""
    return datetime.fromtimestamp(seconds, UTC).date()


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema without fields that must not be null, nested ones included.

    One way of writing a table may know that a value is never null where another does not.
    """
    return pa.schema([_nullable(field) for field in schema])


def _nullable(field: pa.Field) -> pa.Field:
    form = field.type
    if pa.types.is_struct(form):
        form = pa.struct([_nullable(form.field(at)) for at in range(form.num_fields)])
    elif pa.types.is_list(form):
        form = pa.list_(_nullable(form.value_field).with_name("element"))
    return pa.field(field.name, form)


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    columns = [
        batch[field.name].cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _by_day(rows: pa.Table, time: str) -> Iterator[tuple[date, pa.Table]]:
    """Yield rows by the day of their time; those without one belong to the first day of 1970."""
    times = rows[time].to_numpy()
    with np.errstate(invalid="ignore"):
        days = np.where(np.isfinite(times), np.floor(times / 86_400.0), 0.0).astype(np.int64)
    different = np.unique(days)
    for day in different.tolist():
        part = rows if len(different) == 1 else rows.filter(pa.array(days == day))
        yield EPOCH_DAY + timedelta(days=day), part
