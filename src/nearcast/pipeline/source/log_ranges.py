"""Reading one range of a broker's log in a Spark task, with one row for each gap.

A range has the seqs of its rows, and the segments that held them when it was planned. The rows stay
the same when those segments are merged, so that a range that is read again gives the same rows; the
manifest is read only when a segment has changed or is missing. Unreadable rows, because they are
damaged or older than the retention of the log, come as a row of kind `gap`.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from nearcast.core.model.subject import subject_matches
from nearcast.store.errors import CorruptError, StoreError
from nearcast.store.log.log_reader import RETRY_S, TRIES, Joined, dropped
from nearcast.store.log.manifest import LINES, WHOLE, Gap, Manifest, read_manifest
from nearcast.store.log.segments import (
    BATCH_ROWS,
    SCHEMA,
    Segment,
    open_segment,
    verify_segment,
)
from nearcast.store.object_paths import AnyPath, path_at
from nearcast.store.rows.columns import integers_of
from nearcast.store.rows.row_kinds import GAP
from nearcast.store.rows.rows import SCHEMA as ROW_FORM

COLUMNS = tuple(SCHEMA.names)
NEEDED = ("seq", "kind", "ingested")
"""Columns that are always read: they are needed for ranges, times and unknown kinds."""

_EVENT = "event"
_verified: set[tuple[str, int, int, str]] = set()
MOST_VERIFIED = 10_000


class RowSelection(Struct, frozen=True):
    """A selection of rows by kind and subject."""

    kinds: tuple[str, ...] = ()
    """All kinds, if empty."""
    subject: str = ""
    """A pattern for the subjects of events; all subjects, if empty."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the selection depends on."""
        return ("kind", "subject") if self.subject else ("kind",)

    def mask(self, batch: pa.RecordBatch | pa.Table) -> pa.Array | None:
        """Return a mask of the selected rows of a batch; None if all are selected."""
        found = None
        if self.kinds:
            found = pc.is_in(batch.column("kind"), pa.array((*self.kinds, GAP), pa.string()))
        if self.subject:
            subjects = batch.column("subject")
            selected = [
                each
                for each in pc.unique(subjects).to_pylist()
                if each is not None and subject_matches(self.subject, each)
            ]
            taken = pc.or_(
                pc.not_equal(batch.column("kind"), _EVENT),
                pc.is_in(subjects, pa.array(selected, pa.string())),
            )
            found = taken if found is None else pc.and_(found, taken)
        return found


class RangeRequest(Struct, frozen=True):
    """The requested rows and columns of a range; gaps are always included."""

    columns: tuple[str, ...] = COLUMNS
    rows: RowSelection = RowSelection()
    since: float | None = None
    until: float | None = None
    """Rows ingested from `since` on and before `until`."""


class LogRange(Struct, frozen=True):
    """The rows from `first_seq` to `last_seq` of one broker, and their segments when planned."""

    directory: str
    broker: str
    first_seq: int
    last_seq: int
    segments: tuple[Segment, ...]
    gaps: tuple[Gap, ...]


def read_range(span: LogRange, wanted: RangeRequest) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range ordered by seq, with the schema of `arrow_schema`."""
    form = arrow_schema(wanted.columns)
    for part in _parts(span, wanted):
        if isinstance(part, Gap):
            yield _gap_batch(span, part, form)
            continue
        chosen = _chosen(part, wanted)
        if chosen.num_rows:
            columns = [
                chosen.column(field.name).cast(field.type)
                if chosen.column(field.name).type != field.type
                else chosen.column(field.name)
                for field in form
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=form)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of batches: that of the log, with all columns nullable."""
    return pa.schema([pa.field(name, SCHEMA.field(name).type) for name in columns])


def parts_of(manifest: Manifest, first_seq: int, last_seq: int) -> tuple[list[Segment], list[Gap]]:
    """Return the segments with rows of a range, and the known gaps in it."""
    low, high = manifest.at_seq(first_seq), manifest.at_seq(last_seq)
    segments = manifest.segments[low : high + 1]
    if segments and segments[-1].first_seq > last_seq:
        segments.pop()
    below = dropped(manifest, first_seq)
    known = [*([below] if below is not None else []), *manifest.gaps]
    return segments, [g for g in known if g.last_seq >= first_seq and g.first_seq <= last_seq]


def _parts(span: LogRange, wanted: RangeRequest) -> Iterator[pa.RecordBatch | Gap]:
    """Yield rows and gaps from the planned segments, or from the current ones if they changed."""
    directory = path_at(span.directory)
    segments, gaps = list(span.segments), list(span.gaps)
    joined = Joined(span.first_seq, lambda: gaps)
    tries = 0
    while joined.expected <= span.last_seq:
        segment = _next(segments, joined.expected)
        if segment is None or segment.first_seq > span.last_seq:
            break
        try:
            for batch in _rows(directory, segment, joined.expected, span.last_seq, wanted):
                yield from joined.add(batch)
            yield from joined.end(min(segment.last_seq, span.last_seq))
            tries = 0
        except CorruptError as error:
            # It may have been merged, dropped or rewritten since. The manifest shows that, but the
            # broker writes it a moment after the file itself.
            tries += 1
            segments, gaps = parts_of(_manifest_now(directory), joined.expected, span.last_seq)
            if _next(segments, joined.expected) == segment:
                if tries < TRIES:
                    time.sleep(RETRY_S)
                    continue
                yield Gap(joined.expected, segment.last_seq, str(error))
                joined.expected = segment.last_seq + 1
                tries = 0
    yield from joined.end(span.last_seq)


def _manifest_now(directory: AnyPath) -> Manifest:
    if not any((directory / name).exists() for name in (WHOLE, LINES)):
        raise StoreError(
            f"{directory} has no manifest; every executor must see the data directory, under "
            "the same path as the driver, or the store that data.storage names"
        )
    return read_manifest(directory)


def _next(segments: Sequence[Segment], seq: int) -> Segment | None:
    return next((each for each in segments if each.last_seq >= seq), None)


def _rows(
    directory: AnyPath, segment: Segment, first_seq: int, last_seq: int, wanted: RangeRequest
) -> Iterator[pa.RecordBatch]:
    """Yield a segment's rows of a range; raises `CorruptError` if its checksum differs."""
    with open_segment(directory, segment, _verify) as file:
        groups = _groups(file, first_seq, last_seq)
        needed = {*wanted.columns, *wanted.rows.columns, *NEEDED}
        columns = [each for each in COLUMNS if each in needed]
        for batch in file.iter_batches(BATCH_ROWS, groups, columns):
            seqs = integers_of(batch.column("seq"))
            start, end = seqs.searchsorted([first_seq, last_seq + 1]).tolist()
            if start < end:
                yield batch.slice(start, end - start)


def _verify(path: Path, segment: Segment) -> None:
    """Verify a file's checksum, once for each process and version of the file."""
    found = path.stat()
    seen = (str(path), found.st_ino, found.st_mtime_ns, segment.sha256)
    if found.st_size == segment.bytes and seen in _verified:
        return
    verify_segment(path, segment)
    if len(_verified) >= MOST_VERIFIED:
        _verified.clear()
    _verified.add(seen)


def _groups(file: pq.ParquetFile, first_seq: int, last_seq: int) -> list[int]:
    """Return the row groups that may have rows of a range, by their statistics."""
    about = file.metadata
    place = file.schema_arrow.names.index("seq")
    found = []
    for group in range(about.num_row_groups):
        statistics = about.row_group(group).column(place).statistics
        if statistics is None or (statistics.max >= first_seq and statistics.min <= last_seq):
            found.append(group)
    return found


def _chosen(batch: pa.RecordBatch, wanted: RangeRequest) -> pa.RecordBatch:
    selected = wanted.rows.mask(batch)
    masks = [] if selected is None else [selected]
    if wanted.since is not None:
        masks.append(pc.greater_equal(batch.column("ingested"), wanted.since))
    if wanted.until is not None:
        masks.append(pc.less(batch.column("ingested"), wanted.until))
    for mask in masks[1:]:
        masks[0] = pc.and_(masks[0], mask)
    return batch.filter(masks[0]) if masks else batch


def _gap_batch(span: LogRange, gap: Gap, form: pa.Schema) -> pa.RecordBatch:
    """Return the row for a gap, limited to the range."""
    first, last = max(gap.first_seq, span.first_seq), min(gap.last_seq, span.last_seq)
    members = msgspec.json.encode({"first": first, "last": last, "reason": gap.reason}).decode()
    row: dict[str, object] = {
        "broker": span.broker, "seq": first, "kind": GAP, "schema": ROW_FORM, "data": members,
    }  # fmt: skip
    columns = [pa.array([row.get(field.name)], field.type) for field in form]
    return pa.RecordBatch.from_arrays(columns, schema=form)
