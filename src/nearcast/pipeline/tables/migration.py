"""Migration of tables that a release before Delta Lake wrote.

They were directories `DIR/.tables/000007/NAME/epoch=N` of Parquet files, and `DIR/tables` a link to
the current one. Their rows are copied into Delta tables beside them, which then take the place of
the link. Every step can be repeated: a migration that was killed continues where it was.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.jobs.query_names import HANDED, TABLES_OF
from nearcast.pipeline.jobs.spark_checkpoints import query_id
from nearcast.pipeline.tables.data_files import READ_ROWS, DayWriter, nullable
from nearcast.pipeline.tables.tables import DIRECTORY, NAMES, TIMES, EpochId, Tables

OLD, PARTIAL, COMPLETE = ".tables", "delta", "delta-complete"
COMMIT_ROWS = 1_000_000
MIGRATION = "migration"
"""The name under which the copied epochs are recorded."""
_EPOCH = re.compile(r"epoch=(\d+)")
Progress = Callable[[str, int, int], None]
"""Called with what is done, the number of epochs done, and of all."""


def needs_migration(data: Path) -> bool:
    """True if tables of an earlier release are there, or what a killed migration left."""
    return (data / DIRECTORY).is_symlink() or (data / OLD).is_dir()


def migrate(data: Path, progress: Progress = lambda *_: None, location: str = "") -> int:
    """Migrate the tables of a data directory; return the number of epochs copied.

    With a location the new tables are made there.
    """
    if not needs_migration(data):
        return 0
    with Tables(data).alone():
        return _migrate(data, progress, location) if needs_migration(data) else 0


def _migrate(data: Path, progress: Progress, location: str) -> int:
    copied = 0
    link, old = data / DIRECTORY, data / OLD
    if link.is_symlink() and not (old / COMPLETE).exists():
        version = old / os.readlink(link).rpartition("/")[2]
        if not version.is_dir():
            raise PipelineError(
                f"{link} is a link to {version}, which is not there: restore it from a backup, or "
                "remove the link and make the tables anew with nearcast pipeline replay"
            )
        copied = _copy(version, Tables(data, location or str(old / PARTIAL)), data, progress)
        if location:
            link.unlink()
        else:
            (old / PARTIAL).mkdir(exist_ok=True)
            (old / PARTIAL).rename(old / COMPLETE)
    if (old / COMPLETE).exists():
        link.unlink(missing_ok=True)
        (old / COMPLETE).rename(link)
    shutil.rmtree(old, ignore_errors=True)
    return copied


def _copy(version: Path, tables: Tables, data: Path, progress: Progress) -> int:
    writers = _writers(data)
    found = {name: epochs(version / name) for name in NAMES if (version / name).is_dir()}
    total, done = sum(map(len, found.values())), 0
    for name, own in found.items():
        copied = tables.written(name, MIGRATION)
        left = [each for each in own if copied is None or each[0] > copied]
        done += len(own) - len(left)
        for count in _copy_table(name, left, tables):
            done += count
            progress(f"migrating {name}", done, total)
        if own and (query := writers.get(name)) is not None:
            # The query does not write again what it wrote before.
            tables.commit(name, (), (), EpochId(query, own[-1][0]))
    return total


def _copy_table(name: str, left: list[tuple[int, Path]], tables: Tables) -> Iterator[int]:
    """Copy epochs of a table; yield how many whenever some are committed."""
    schema: pa.Schema | None = None
    writer: DayWriter | None = None
    rows = count = 0
    for place, (number, epoch) in enumerate(left, 1):
        for path in sorted(epoch.glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                if schema is None:
                    schema = nullable(_with_time(file.schema_arrow.empty_table(), name).schema)
                    tables.create(name, schema)
                writer = writer or DayWriter(tables.uri(name), schema, TIMES[name], "migrated")
                for batch in file.iter_batches(READ_ROWS):
                    writer.write(_with_time(pa.Table.from_batches([batch]), name))
                    rows += batch.num_rows
        count += 1
        if writer is not None and (rows >= COMMIT_ROWS or place == len(left)):
            tables.commit(name, writer.close(), (), EpochId(MIGRATION, number))
            yield count
            writer, rows, count = None, 0, 0


def _with_time(rows: pa.Table, name: str) -> pa.Table:
    """Add the column by whose day rows are filed, where an earlier release had none."""
    column = TIMES[name]
    return rows if column in rows.schema.names else rows.append_column(column, rows["time"])


def _writers(data: Path) -> Mapping[str, str]:
    """The query that wrote each table, by the id in its checkpoint, as transactions name it."""
    found: dict[str, str] = {}
    for query, tables in TABLES_OF.items():
        number = query_id(data / "checkpoints" / query)
        if number is not None:
            found |= dict.fromkeys(tables, f"{HANDED[query]} {number}")
    return found


def epochs(table: Path) -> list[tuple[int, Path]]:
    """All complete epochs of a table of an earlier release, oldest first."""
    found = [(_EPOCH.fullmatch(path.name), path) for path in table.iterdir()]
    return sorted((int(match[1]), path) for match, path in found if match is not None)
