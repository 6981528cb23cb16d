"""Snapshots of a log: the inputs in force after one of its rows, as a Parquet file of rows.

A reader that begins there need not have the rows before, so a log may drop them. A file is named by
its seq, has a form that later releases know, and is complete once it has its name. A snapshot of
shards is several files, SEQ.PART-of-PARTS.parquet, each with the subscriptions and sessions of one
shard; the first also has what every shard has. It counts once all of them are there.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.engine.engine_inputs import EngineInputs
from nearcast.core.engine.shard import WHOLE, Shard
from nearcast.store.durable_files import write_whole
from nearcast.store.errors import CorruptError, MissingError, newer, told
from nearcast.store.file_access import make_directory
from nearcast.store.log.erasure import Erasure
from nearcast.store.log.segments import SCHEMA as LOG_SCHEMA
from nearcast.store.log.segments import batch_of, rows_of
from nearcast.store.object_paths import AnyPath, names_in
from nearcast.store.rows.columns import column, lists
from nearcast.store.rows.row_kinds import ERASED
from nearcast.store.rows.rows import Row
from nearcast.store.rows.snapshot_rows import (
    STANDING,
    SnapshotRow,
    inputs_from,
    snapshot_rows,
)

FORM = 1
SLICE_ROWS = 4_096
"""Rows that are made and written at once."""
_FOOTER = b"nearcast.snapshot"
_NAME = re.compile(r"(\d{15})(?:\.(\d+)-of-(\d+))?\.parquet")
SCHEMA = pa.schema(
    [
        *LOG_SCHEMA,
        pa.field("part", pa.string(), nullable=False),
        pa.field("expires_at", pa.float64()),
        pa.field("until", pa.float64()),
        pa.field("seen", pa.list_(pa.string())),
    ]
)


class SnapshotHead(Struct, frozen=True):
    """The broker of a snapshot, the row of its log up to which it goes, and which part it is."""

    broker: str
    seq: int
    form: int = FORM
    part: int = 0
    parts: int = 1

    @property
    def file_name(self) -> str:
        """The name of the file."""
        part = "" if self.parts == 1 else f".{self.part}-of-{self.parts}"
        return f"{self.seq:015d}{part}.parquet"


class SnapshotFile(Struct, frozen=True):
    """A stored snapshot."""

    seq: int
    path: AnyPath
    """The file, or the first part: the one with what every shard has."""
    others: tuple[AnyPath, ...] = ()
    """The files of the other parts, in their order."""

    @property
    def paths(self) -> tuple[AnyPath, ...]:
        """The files of all parts."""
        return self.path, *self.others


def broker_snapshots(log: AnyPath) -> AnyPath:
    """The directory of the snapshots that the broker of a log writes itself."""
    return log / "_snapshots"


def find_snapshots(*directories: AnyPath) -> list[SnapshotFile]:
    """Return the snapshots in some directories, ordered by seq; a missing one has none.

    Without those that lack a part.
    """
    found: list[SnapshotFile] = []
    for directory in directories:
        files = sorted((each.seq, each.parts, each.part, path) for each, path in _parts(directory))
        for (seq, count), parts in groupby(files, lambda each: each[:2]):
            paths = [path for *_, path in parts]
            if len(paths) == count:
                found.append(SnapshotFile(seq, paths[0], tuple(paths[1:])))
    return sorted(found, key=lambda each: each.seq)


def find_parts(*directories: AnyPath) -> list[tuple[int, AnyPath]]:
    """Return the files of all snapshots, also of those that lack a part, each with its seq."""
    return [(head.seq, path) for each in directories for head, path in _parts(each)]


def _parts(directory: AnyPath) -> Iterator[tuple[SnapshotHead, AnyPath]]:
    """Yield the files of snapshots, with what their names say."""
    with told(directory, "listing it"):
        names = names_in(directory)
    for name in names:
        if (said := _NAME.fullmatch(name)) is not None:
            part, parts = int(said[2] or 0), int(said[3] or 1)
            yield SnapshotHead("", int(said[1]), part=part, parts=parts), directory / name


def write_snapshot(
    directory: AnyPath,
    head: SnapshotHead,
    inputs: EngineInputs,
    pause: Callable[[], object] = lambda: None,
) -> AnyPath:
    """Write a snapshot durably, and return its path; `pause` is called after each slice."""
    path = directory / head.file_name
    if isinstance(directory, Path):
        with told(directory, "making it"):
            make_directory(directory)
    _write(path, head, snapshot_rows(inputs, head.broker), pause)
    return path


def read_snapshot(
    path: AnyPath, others: Iterable[AnyPath] = (), shard: Shard = WHOLE
) -> tuple[SnapshotHead, EngineInputs]:
    """Return a snapshot, of several files if it has parts, for a shard.

    Raises `CorruptError` or `UpgradeError`.
    """
    paths = path, *others
    head, *_ = map(_read_head, paths)
    return head, inputs_from(chain.from_iterable(map(_read, paths)), shard)


def read_standing_rows(path: AnyPath, kind: str) -> list[Row]:
    """Return the rows of one kind that stand in a snapshot; raises as `read_snapshot` does."""
    _read_head(path)
    return [each.row for each in _read(path, kind) if each.part == STANDING]


def erase_from_snapshot(path: AnyPath, node: str) -> int:
    """Rewrite a snapshot without a node; return the number of rows removed or changed."""
    erasure = Erasure(node)
    changed = 0

    def left() -> Iterator[SnapshotRow]:
        nonlocal changed
        for each in _read(path):
            row = erasure.left(each.row)
            seen = None if each.seen is None else erasure.sessions_left(each.seen)
            changed += row is not each.row or seen != each.seen
            if row.kind != ERASED:
                yield replace(each, row=row, seen=seen)

    _write(path, _read_head(path), left(), lambda: None)
    return changed


def _write(
    path: AnyPath, head: SnapshotHead, rows: Iterable[SnapshotRow], pause: Callable[[], object]
) -> None:
    # In memory: a snapshot takes some 4 MB for 100,000 subscriptions.
    whole = pa.BufferOutputStream()
    options = {"compression": "zstd", "compression_level": 1, "write_page_checksum": True}
    with pq.ParquetWriter(whole, SCHEMA, **options) as file:
        file.add_key_value_metadata({_FOOTER: msgspec.json.encode(head)})
        left = iter(rows)
        while some := list(islice(left, SLICE_ROWS)):
            file.write_batch(_batch(some))
            pause()
    write_whole(path, memoryview(whole.getvalue()))


def _batch(rows: Sequence[SnapshotRow]) -> pa.RecordBatch:
    of_log = batch_of([each.row for each in rows])
    columns = [
        column([each.part for each in rows], pa.string()),
        column([each.expires_at for each in rows], pa.float64()),
        column([each.until for each in rows], pa.float64()),
        lists([each.seen for each in rows]),
    ]
    return pa.RecordBatch.from_arrays([*of_log.columns, *columns], schema=SCHEMA)


def _read_head(path: AnyPath) -> SnapshotHead:
    with _opened(path) as file:
        footer = (file.metadata.metadata or {}).get(_FOOTER)
    if footer is None:
        raise CorruptError(f"{path} is Parquet, but no snapshot of Nearcast's")
    try:
        head = msgspec.json.decode(footer, type=SnapshotHead)
    except msgspec.MsgspecError as error:
        raise CorruptError(f"{path} cannot be read: {error}") from None
    if head.form > FORM:
        raise newer(str(path), head.form, FORM)
    return head


def _read(path: AnyPath, kind: str | None = None) -> Iterator[SnapshotRow]:
    """Yield the rows of a snapshot, or those of one kind."""
    try:
        with _opened(path) as file:
            for batch in file.iter_batches():
                if kind is not None:
                    batch = batch.filter(pc.equal(batch.column("kind"), kind))
                extra = [batch.column(name).to_pylist() for name in SCHEMA.names[-4:]]
                for row, part, expires_at, until, seen in zip(rows_of(batch), *extra, strict=True):
                    sessions = None if seen is None else tuple(seen)
                    yield SnapshotRow(part, row, expires_at, until, sessions)
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        # Arrow raises OSError for bad bytes too, but without the errno of a system call.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorruptError(f"{path} cannot be read: {error}") from None


def _opened(path: AnyPath) -> pq.ParquetFile:
    with told(path, "reading it"):
        try:
            local = isinstance(path, Path)
            source = path if local else pa.BufferReader(path.read_bytes())
            return pq.ParquetFile(source, page_checksum_verification=True)
        except FileNotFoundError:
            raise MissingError(f"{path} is missing") from None
        except pa.ArrowException as error:
            raise CorruptError(f"{path} cannot be read: {error}") from None
