"""The tables of the pipeline: Delta Lake tables `DIR/tables/NAME`, or below the URL of a store.

An epoch of a query is one transaction in each of its tables, recorded under the name of the query
and the number of the epoch, so that a retry adds nothing. Tables are partitioned by the UTC day of
ingest. Readers see whole versions only; earlier versions can be read until they are vacuumed.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from msgspec import Struct

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.tables.data_files import (
    DAY,
    TARGET_BYTES,
    DataFile,
    day_of,
    nullable,
    read_files,
    read_frame,
    write_frame,
    write_rows,
)
from nearcast.store.file_access import append_to_file, make_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES = {
    "events": "ingested", "rejects": "ingested", "contexts": "time", "deliveries": "ingested",
    "aggregates": "time", "encounters": "time", "traffic": "until",
}  # fmt: skip
"""The tables, and the column of each that has the time of a row."""
NAMES = tuple(TIMES)
TOLD = "told"
"""Before the names of tables with the rows that were published before a state was rebuilt."""
ALL = (*NAMES, *(f"{TOLD}/{name}" for name in ("aggregates", "encounters", "traffic")))
DIRECTORY, LOCK = "tables", Path("checkpoints") / "tables.lock"
HISTORY_S = 7 * 86_400.0
"""How long files of earlier versions are kept."""
ORPHAN_S = 86_400.0
"""A file that no version has is deleted when it is older: no epoch takes so long."""
ATTEMPTS = 10
_CONFIGURATION = {
    # Checkpoints bound what a reader of the log has to read.
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 7 days",
}


class EpochId(Struct, frozen=True):
    """An epoch of a query, as transactions record it."""

    query: str
    epoch: int


class TableStatistics(Struct, frozen=True):
    """The size of a table."""

    name: str
    version: int
    files: int
    rows: int
    bytes: int


class StoredFile(Struct, frozen=True):
    """A file of a table, as its log describes it."""

    path: str
    day: date
    rows: int
    bytes: int
    low: float | None
    high: float | None


class Tables:
    """The tables of a data directory."""

    def __init__(self, data: Path, location: str = "") -> None:
        self._data = data
        self._location = location.rstrip("/") or str(data / DIRECTORY)
        self._open: dict[str, DeltaTable] = {}

    def uri(self, name: str) -> str:
        """The path or URL of a table."""
        return f"{self._location}/{name}"

    def version(self, name: str) -> int | None:
        """The current version of a table; None if there is no such table."""
        table = self._table(name)
        return None if table is None else table.version()

    def schema(self, name: str) -> pa.Schema | None:
        """The columns of a table without the day; None if there is no such table."""
        table = self._table(name)
        if table is None:
            return None
        fields = [pa.field(each) for each in pa.schema(table.schema().to_arrow())]
        return pa.schema([field for field in fields if field.name != DAY])

    # Writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Write files and commit them; an erasure waits for that, and keeps others waiting."""
        with self._locked(fcntl.LOCK_SH):
            yield

    def append(self, name: str, rows: "pa.Table | DataFrame", written: EpochId) -> bool:
        """Append an epoch to a table; return False if the table has it already.

        Rows of a job are written by its tasks.
        """
        if self._has(name, written):
            return False
        files = self.write(name, rows, f"{written.epoch:012d}")
        if files:
            self.commit(name, files, (), written)
        return True

    def write(self, name: str, rows: "pa.Table | DataFrame", stem: str) -> list[DataFile]:
        """Write rows to files that are not part of the table yet; their names begin with `stem`."""
        schema = _schema_of(rows)
        self.create(name, schema)
        columns = self._widened(name, schema)
        if isinstance(rows, pa.Table):
            return write_rows(self.uri(name), rows, columns, time_column(name), stem)
        return write_frame(self.uri(name), rows, columns, time_column(name), stem)

    def create(self, name: str, schema: pa.Schema) -> None:
        """Make sure that there is a table, so that it can be read."""
        if self._table(name) is None:
            columns = [*nullable(schema), pa.field(DAY, pa.date32())]
            # The log has statistics of times only: see `DataFile.statistics`.
            chosen = _CONFIGURATION | {"delta.dataSkippingStatsColumns": time_column(name)}
            with _explained(self.uri(name)):
                if not _is_url(self._location):
                    make_directory(Path(self.uri(name)))
                DeltaTable.create(
                    self.uri(name), pa.schema(columns), mode="ignore", partition_by=[DAY],
                    configuration=chosen, storage_options=_options(self._location),
                )  # fmt: skip

    def commit(
        self,
        name: str,
        files: Iterable[DataFile],
        removed: Iterable[StoredFile] = (),
        written: EpochId | None = None,
    ) -> int:
        """Add and remove files of a table in one transaction; return the version it makes."""
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                each.path, each.bytes, {DAY: each.day.isoformat()}, now, True,
                each.statistics(time_column(name)),
            )
            for each in files
        ]  # fmt: skip
        actions += [
            RemoveAction(
                path=each.path, data_change=True, deletion_timestamp=now,
                partition_values={DAY: each.day.isoformat()}, size=each.bytes,
            )
            for each in removed
        ]  # fmt: skip
        properties = CommitProperties(
            max_commit_retries=ATTEMPTS,
            app_transactions=None
            if written is None
            else [Transaction(written.query, written.epoch)],
            custom_metadata=None
            if written is None
            else {"nearcast_query": written.query, "nearcast_epoch": str(written.epoch)},
        )
        table = self._existing(name)
        with _explained(self.uri(name)):
            table.create_write_transaction(
                actions, "append", table.schema(), [DAY], commit_properties=properties
            )
        return self._existing(name).version()

    # Reading

    def written(self, name: str, query: str) -> int | None:
        """The last epoch of a query that a table has; None if it has none."""
        table = self._table(name)
        return None if table is None else table.transaction_version(query)

    def files(self, name: str, version: int | None = None) -> list[StoredFile]:
        """The files of a table, now or at an earlier version."""
        table = self._table(name) if version is None else self._at(name, version)
        if table is None:
            return []
        column = time_column(name)
        found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        return [
            StoredFile(
                each["path"], each[f"partition.{DAY}"], each["num_records"] or 0,
                each["size_bytes"], each.get(f"min.{column}"), each.get(f"max.{column}"),
            )
            for each in found
        ]  # fmt: skip

    def batches(self, name: str, columns: Sequence[str] = ()) -> Iterator[pa.Table]:
        """Yield the rows of a table in batches, without the day."""
        schema = self.schema(name)
        if schema is not None:
            wanted = pa.schema([schema.field(each) for each in columns]) if columns else schema
            paths = [each.path for each in self.files(name)]
            yield from read_files(self.uri(name), paths, wanted)

    def frame(
        self,
        spark: "SparkSession",
        name: str,
        *,
        since: float | None = None,
        before: EpochId | None = None,
    ) -> "DataFrame | None":
        """Return a table as rows in Spark; None if there is none.

        With `since`, files that have only earlier rows are left out; with `before`, the table is
        read as it was before that epoch.
        """
        schema = self.schema(name)
        if schema is None:
            return None
        version = None if before is None else self._before(name, before)
        files = self.files(name, version)
        if since is not None:
            files = [each for each in files if each.high is None or each.high >= since]
        return read_frame(spark, self.uri(name), [each.path for each in files], schema)

    def newest(self, name: str) -> float | None:
        """The time of the newest row of a table; None if it has no row."""
        return max((each.high for each in self.files(name) if each.high is not None), default=None)

    def statistics(self) -> list[TableStatistics]:
        """The size of every table."""
        found = []
        for name in NAMES:
            version = self.version(name)
            if version is not None:
                files = self.files(name)
                rows, size = sum(each.rows for each in files), sum(each.bytes for each in files)
                found.append(TableStatistics(name, version, len(files), rows, size))
        return found

    # Care

    def compact(self, target_bytes: int = TARGET_BYTES) -> dict[str, int]:
        """Merge small files of each table, day by day; return the number of them by table.

        A file of `target_bytes` or more stays as it is, so that the cost depends on what was
        written since. Epochs may be written meanwhile.
        """
        merged = {}
        for name in NAMES:
            if self._table(name) is None:
                continue
            with self.writing(), _explained(self.uri(name)):
                done = self._existing(name).optimize.compact(
                    target_size=target_bytes,
                    max_concurrent_tasks=1,
                    writer_properties=WriterProperties(compression="ZSTD"),
                )
            if done["numFilesRemoved"]:
                merged[name] = int(done["numFilesRemoved"])
        return merged

    def vacuum(self, history_s: float = HISTORY_S) -> int:
        """Delete files of versions that are older, and orphans; return how many."""
        gone = 0
        for name in NAMES:
            if self._table(name) is None:
                continue
            table = self._existing(name)
            with self.writing(), _explained(self.uri(name)):
                gone += len(_vacuumed(table, history_s))
                gone += len(_vacuumed(table, max(history_s, ORPHAN_S), full=True))
        return gone

    def drop_days(self, name: str, before: date) -> int:
        """Remove the rows of all days before one; return the number of files."""
        old = [each for each in self.files(name) if each.day < before]
        if old:
            self.commit(name, (), old)
        return len(old)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for epochs that are being written, and keep further ones waiting."""
        with self._locked(fcntl.LOCK_EX):
            yield

    def cut_history(self, name: str) -> None:
        """Delete all files that the current version lacks, and the log before it.

        Hold `alone`: files of an epoch that is not committed yet would be deleted too.
        """
        uri, options = self.uri(name), _options(self._location)
        with _explained(uri):
            kept = dict(_CONFIGURATION)["delta.logRetentionDuration"]
            self._existing(name).alter.set_table_properties(
                {"delta.logRetentionDuration": "interval 0 days"}
            )
            table = DeltaTable(uri, storage_options=options)
            _vacuumed(table, 0.0, full=True)
            table = DeltaTable(uri, storage_options=options)
            table.create_checkpoint()
            table.cleanup_metadata()
            table.alter.set_table_properties({"delta.logRetentionDuration": kept})
        self._open.pop(name, None)

    # Inside

    def _table(self, name: str) -> DeltaTable | None:
        """A table with its current version, None if there is none."""
        table = self._open.get(name)
        with _explained(self.uri(name)):
            if table is None:
                try:
                    table = DeltaTable(self.uri(name), storage_options=_options(self._location))
                except TableNotFoundError:
                    return None
                self._open[name] = table
            else:
                table.update_incremental()
        return table

    def _existing(self, name: str) -> DeltaTable:
        table = self._table(name)
        if table is None:
            raise PipelineError(f"there is no table {self.uri(name)}")
        return table

    def _at(self, name: str, version: int) -> DeltaTable:
        with _explained(self.uri(name)):
            return DeltaTable(
                self.uri(name), version=version, storage_options=_options(self._location)
            )

    def _has(self, name: str, written: EpochId) -> bool:
        last = self.written(name, written.query)
        return last is not None and last >= written.epoch

    def _before(self, name: str, written: EpochId) -> int | None:
        """The version before an epoch was written; None: the current one, which lacks it."""
        if not self._has(name, written):
            return None
        for each in self._existing(name).history():
            if (
                each.get("nearcast_query") == written.query
                and int(each.get("nearcast_epoch", -1)) < written.epoch
            ):
                return int(each["version"])
        return 0

    def _widened(self, name: str, schema: pa.Schema) -> pa.Schema:
        """Add columns that a table of an earlier release lacks; return the columns to write."""
        known = self.schema(name)
        assert known is not None
        new = [field for field in nullable(schema) if field.name not in known.names]
        if new:
            from deltalake import Schema

            fields = Schema.from_arrow(pa.schema(new)).fields
            with _explained(self.uri(name)):
                self._existing(name).alter.add_columns(list(fields))
            known = self.schema(name)
            assert known is not None
        return pa.schema([known.field(each) for each in schema.names])

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        path = self._data / LOCK
        make_directory(path.parent)
        with open(append_to_file(path), "a") as file:
            fcntl.flock(file, how)
            yield


def drop_old(tables: Tables, keep_days: Mapping[str, int], now: float) -> int:
    """Remove rows that are older than each table keeps them; return the number of files."""
    today = day_of(now)
    return sum(
        tables.drop_days(name, today - timedelta(days=days))
        for name, days in keep_days.items()
        if tables.version(name) is not None
    )


def _schema_of(rows: "pa.Table | DataFrame") -> pa.Schema:
    if isinstance(rows, pa.Table):
        return rows.schema
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(rows.schema)


def time_column(name: str) -> str:
    """The column with the time of a row; `told/aggregates` has the columns of `aggregates`."""
    return TIMES[name.rpartition("/")[2]]


def _vacuumed(table: DeltaTable, history_s: float, full: bool = False) -> list[str]:
    hours = int(history_s / 3600.0)
    return table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=full)


def _is_url(location: str) -> bool:
    return "://" in location


def _options(location: str) -> dict[str, str] | None:
    """Options of an object store; the rest, such as credentials, is in the environment."""
    if location.startswith("s3") and "AWS_CONDITIONAL_PUT" not in os.environ:
        # Commits need no other coordination.
        return {"aws_conditional_put": "etag"}
    return None


@contextlib.contextmanager
def _explained(uri: str) -> Iterator[None]:
    """Turn errors of Delta Lake into `PipelineError`."""
    try:
        yield
    except TableNotFoundError:
        raise
    except CommitFailedError as error:
        raise PipelineError(f"table {uri} is changed by others too: {_line(error)}") from error
    except (DeltaError, OSError) as error:
        raise PipelineError(f"table {uri} cannot be used: {_line(error)}") from error


def _line(error: Exception) -> str:
    """An error of Delta Lake, which may have many lines, in one."""
    return " ".join(str(error).split())
