"""Segments: rows of the log as Parquet files, numbered without gaps, complete once named.

`00000042.parquet` is one segment, `00000001-00003600.parquet` a merged range of them. Columns are
those of `Row`; user properties are a list of (name, value), which keeps order and repetitions.
Pages have checksums, and the footer has the numbers and seqs of the file, so that a segment can be
read without the manifest. Only `broker`, `kind` and the names in a row are dictionary-encoded;
payloads and JSON are left to zstd.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from nearcast.store.durable_files import beside, put_in_place, sha256_of, sync_file, write_whole
from nearcast.store.errors import CorruptError, MissingError, newer, told
from nearcast.store.file_access import create_file
from nearcast.store.object_paths import AnyPath, ObjectPath, size_of
from nearcast.store.rows.columns import column, from_numpy, integers_of, pairs
from nearcast.store.rows.row_buffer import RowBuffer
from nearcast.store.rows.row_kinds import check_kinds
from nearcast.store.rows.rows import Row, erased

FORM = 1
BATCH_ROWS = 65_536
MERGED_GROUP_BYTES = 32 << 20
FETCHED_BYTES = 64 << 20
"""Up to this size a segment in an object store is fetched as a whole."""
_FOOTER = b"nearcast"
_NAME = re.compile(r"(\d{8,})(?:-(\d{8,}))?\.parquet")

SCHEMA = pa.schema(
    [
        pa.field("broker", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("ingested", pa.float64(), nullable=False),
        pa.field("schema", pa.int32(), nullable=False),
        pa.field("event_id", pa.string()),
        pa.field("subject", pa.string()),
        pa.field("publisher", pa.string()),
        pa.field("time", pa.float64()),
        pa.field("lat", pa.float64()),
        pa.field("lon", pa.float64()),
        pa.field("node", pa.string()),
        pa.field(
            "properties",
            pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())])),
        ),
        pa.field("payload", pa.binary()),
        pa.field("headers", pa.binary()),
        pa.field("data", pa.string(), nullable=False),
    ]
)
assert tuple(SCHEMA.names) == Row.__struct_fields__
_OPTIONS = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["broker", "kind", "subject", "publisher", "node"],
    "write_statistics": ["seq", "ingested", "time", "kind"],
    "write_page_checksum": True,
    "store_schema": False,
}


class Segment(Struct, frozen=True, gc=False):
    """The metadata of a file of the log: its numbers and its rows."""

    first: int
    last: int
    first_seq: int
    last_seq: int
    rows: int
    bytes: int
    first_ingested: float
    last_ingested: float
    sha256: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return segment_name(self.first, self.last)


class Footer(Struct, frozen=True):
    """The metadata in the footer of a file."""

    form: int
    first: int
    last: int
    first_seq: int
    last_seq: int
    first_ingested: float
    last_ingested: float


def segment_name(first: int, last: int) -> str:
    """Return the name of a segment, or of the range from `first` to `last`."""
    return f"{first:08d}.parquet" if first == last else f"{first:08d}-{last:08d}.parquet"


def numbers_of(name: str) -> tuple[int, int] | None:
    """Return the first and last number in a file's name; None if it is no segment."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    first = int(found[1])
    last = int(found[2]) if found[2] else first
    return (first, last) if segment_name(first, last) == name else None


def write_segment(directory: Path, number: int, rows: RowBuffer) -> Segment:
    """Write a segment durably; it is complete once it has its name."""
    footer = Footer(
        FORM, number, number, rows.first_seq, rows.last_seq, rows.ingested[0], rows.ingested[-1]
    )
    sink = pa.BufferOutputStream()
    with _writer(sink, footer) as writer:
        writer.write_batch(to_arrow(rows))
    data = sink.getvalue().to_pybytes()
    write_whole(directory / segment_name(number, number), data)
    return _segment(footer, len(rows), len(data), hashlib.sha256(data).hexdigest())


def merge_segments(directory: Path, first: int, last: int, parts: Sequence[Segment]) -> Segment:
    """Write the range of these segments durably; the caller deletes them."""
    footer = Footer(
        FORM, first, last, parts[0].first_seq, parts[-1].last_seq,
        parts[0].first_ingested, parts[-1].last_ingested,
    )  # fmt: skip
    path = directory / segment_name(footer.first, footer.last)
    partial = beside(path)
    with told(path, "merging segments into it"):
        try:
            rows = 0
            os.close(create_file(partial))
            with _writer(partial, footer) as writer:
                for table in _groups(directory, parts):
                    writer.write_table(table)
                    rows += table.num_rows
            assert rows == sum(part.rows for part in parts)
            sync_file(partial)
            digest, size = sha256_of(partial), partial.stat().st_size
            put_in_place(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    return _segment(footer, rows, size, digest)


def erase_rows(
    directory: Path,
    segment: Segment,
    is_meant: Callable[[Row], bool],
    left: Callable[[Row], Row] = erased,
) -> Segment:
    """Rewrite a segment durably with some rows erased; unchanged if no row is meant.

    An erased row keeps its `seq` and its time, and what else is `left` of it. `is_meant` is called
    once for each row, in order: its answer may depend on the rows before.
    """
    changed = {row.seq: left(row) for row in _rows(directory, segment) if is_meant(row)}
    if not changed:
        return segment
    footer = Footer(
        FORM, segment.first, segment.last, segment.first_seq, segment.last_seq,
        segment.first_ingested, segment.last_ingested,
    )  # fmt: skip
    path = directory / segment.name
    partial = beside(path)
    with told(path, "erasing rows from it"):
        try:
            with _writer(partial, footer) as writer:
                for batch in read_segment(directory, segment):
                    kept = [changed.get(row.seq, row) for row in rows_of(batch)]
                    writer.write_batch(batch_of(kept))
            sync_file(partial)
            digest, size = sha256_of(partial), partial.stat().st_size
            put_in_place(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    return _segment(footer, segment.rows, size, digest)


def _rows(directory: Path, segment: Segment) -> Iterator[Row]:
    for batch in read_segment(directory, segment):
        yield from rows_of(batch)


def _groups(directory: Path, parts: Sequence[Segment]) -> Iterator[pa.Table]:
    """Yield the rows of segments in groups of bounded size."""
    batches, size = [], 0
    for part in parts:
        for batch in read_segment(directory, part):
            batches.append(batch)
            size += batch.nbytes
            if size >= MERGED_GROUP_BYTES:
                yield pa.Table.from_batches(batches)
                batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def read_segment(
    directory: AnyPath, segment: Segment, first_seq: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield a segment's rows from `first_seq` on.

    Raises `CorruptError` before the first row if the size or checksum of the file differs.
    """
    with open_segment(directory, segment) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            # Not simply a difference: a merged range may have gaps inside.
            skipped = int(integers_of(batch.column("seq")).searchsorted(first_seq))
            if skipped < batch.num_rows:
                yield batch.slice(skipped) if skipped else batch


def read_segment_columns(
    directory: AnyPath, segment: Segment, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a segment; raises as `read_segment` does."""
    with open_segment(directory, segment) as file:
        yield from file.iter_batches(BATCH_ROWS, columns=list(names))


def verify_segment(path: Path, segment: Segment) -> None:
    """Raise `CorruptError` if the size or checksum of a file differs."""
    if path.stat().st_size != segment.bytes or sha256_of(path) != segment.sha256:
        raise differs(path)


def differs(path: AnyPath) -> CorruptError:
    """Return the error for a file whose size or checksum differs."""
    return CorruptError(f"{path} is not what was written: its size or checksum differs")


@contextmanager
def open_segment(
    directory: AnyPath,
    segment: Segment,
    verify: Callable[[Path, Segment], None] = verify_segment,
) -> Iterator[pq.ParquetFile]:
    """Open a segment whose bytes are verified, a local one by `verify`.

    Of a large object only parts are fetched: its size is compared, and pages have checksums.
    """
    path = directory / segment.name
    with told(path, "reading it"):
        try:
            if isinstance(path, Path):
                verify(path, segment)
                source: object = path
            else:
                source = _object(path, segment)
        except FileNotFoundError:
            raise MissingError(f"{path} is missing") from None
        with _parquet(path, source) as file:
            yield file


def _object(path: ObjectPath, segment: Segment) -> object:
    if segment.bytes > FETCHED_BYTES:
        if size_of(path) != segment.bytes:
            raise differs(path)
        return path.open_parquet()
    data = path.read_bytes()
    if len(data) != segment.bytes or hashlib.sha256(data).hexdigest() != segment.sha256:
        raise differs(path)
    return pa.BufferReader(data)


def check_segment_kinds(directory: Path, segment: Segment) -> None:
    """Raise `UpgradeError` if a segment has a row that only a later release can interpret."""
    path = directory / segment.name
    with told(path, "reading it"), _parquet(path, path) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=["broker", "seq", "kind"]):
            check_kinds(batch)


def describe(path: Path) -> Segment:
    """Return the metadata of a file after reading all of it; raises `CorruptError`."""
    with told(path, "reading it"):
        with _parquet(path, path) as file:
            footer = _footer(file, path)
            if not _has_columns(file.schema_arrow):
                raise CorruptError(f"{path} has other columns than a segment")
            rows, seqs = 0, [0, 0]
            for batch in file.iter_batches(BATCH_ROWS):
                found = integers_of(batch.column("seq"))
                seqs = [seqs[0] or int(found[0]), int(found[-1])]
                rows += batch.num_rows
        if (footer.first, footer.last) != numbers_of(path.name):
            raise CorruptError(f"{path} holds segments {footer.first} to {footer.last}")
        if [footer.first_seq, footer.last_seq] != seqs:
            raise CorruptError(f"{path} holds rows {seqs[0]} to {seqs[1]}, but says otherwise")
        return _segment(footer, rows, path.stat().st_size, sha256_of(path))


def _has_columns(schema: pa.Schema) -> bool:
    """Return True if a file has all columns of a segment; later releases may add some."""
    found = {field.name: field.type for field in schema}
    # The items of a list have another name in Parquet.
    return all(
        field.name in found and (found[field.name] == field.type or pa.types.is_list(field.type))
        for field in SCHEMA
    )


@contextmanager
def _parquet(path: AnyPath, source: object) -> Iterator[pq.ParquetFile]:
    """Open a file and verify its pages as they are read."""
    try:
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise MissingError(f"{path} is missing") from None
    except (pa.ArrowException, ValueError, KeyError, OSError, msgspec.MsgspecError) as error:
        # A damaged footer may even have other names for columns. Arrow raises OSError for bad
        # bytes too, but without the errno of a system call.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorruptError(f"{path} cannot be read: {error}") from None


def to_arrow(rows: RowBuffer) -> pa.RecordBatch:
    """Return rows as a batch."""
    count, runs = len(rows), len(rows.counts)
    counts = np.array(rows.counts, np.int64)
    begins = np.cumsum(counts) - counts
    seqs = np.arange(count) + np.repeat(np.array(rows.first_seqs, np.int64) - begins, counts)
    run_of = from_numpy(np.repeat(np.arange(runs, dtype=np.int32), counts))

    def repeated(values: Sequence[object], name: str) -> pa.Array:
        found = column(values, SCHEMA.field(name).type)
        return found if runs == count else found.take(run_of)

    properties = pairs(rows.properties, SCHEMA.field("properties").type)
    columns = [
        column([rows.broker], pa.string()).take(from_numpy(np.zeros(count, np.int32))),
        from_numpy(seqs),
        repeated(rows.kinds, "kind"),
        repeated(rows.ingested, "ingested"),
        repeated(rows.schemas, "schema"),
        column(rows.event_ids, pa.string()),
        repeated(rows.subjects, "subject"),
        repeated(rows.publishers, "publisher"),
        repeated(rows.times, "time"),
        repeated(rows.lats, "lat"),
        repeated(rows.lons, "lon"),
        repeated(rows.nodes, "node"),
        properties if runs == count else properties.take(run_of),
        column(rows.payloads, pa.binary()),
        repeated(rows.headers, "headers"),
        repeated(rows.data, "data"),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return `Row` values as a batch."""
    return to_arrow(RowBuffer.of(rows))


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a batch."""
    columns = [batch.column(name).to_pylist() for name in SCHEMA.names]
    place = SCHEMA.names.index("properties")
    columns[place] = [
        tuple((pair["name"], pair["value"]) for pair in pairs) if pairs else ()
        for pairs in columns[place]
    ]
    for values in zip(*columns, strict=True):
        yield Row(*values)


def _writer(where: Path | pa.NativeFile, footer: Footer) -> pq.ParquetWriter:
    writer = pq.ParquetWriter(where, SCHEMA, **_OPTIONS)
    writer.add_key_value_metadata({_FOOTER: msgspec.json.encode(footer)})
    return writer


def _footer(file: pq.ParquetFile, path: Path) -> Footer:
    metadata = file.metadata.metadata or {}
    if _FOOTER not in metadata:
        raise CorruptError(f"{path} is Parquet, but no segment of Nearcast's log")
    footer = msgspec.json.decode(metadata[_FOOTER], type=Footer)
    if footer.form > FORM:
        raise newer(str(path), footer.form, FORM)
    return footer


def _segment(footer: Footer, rows: int, size: int, digest: str) -> Segment:
    return Segment(
        footer.first, footer.last, footer.first_seq, footer.last_seq, rows, size,
        footer.first_ingested, footer.last_ingested, digest,
    )  # fmt: skip
