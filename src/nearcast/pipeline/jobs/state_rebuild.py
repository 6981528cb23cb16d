"""Rebuilding state from the log, for another number of partitions or another format.

Queries with state begin again at the first row. What they had published before is known by its id,
from the rows of their tables, and is not published again.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.pipeline.jobs.query_names import STATEFUL
from nearcast.pipeline.tables.data_files import DayWriter
from nearcast.pipeline.tables.tables import TOLD, Tables, time_column

PUBLISHED = "told"
"""The column that is true in rows that were published; null in rows of earlier releases, which
were published too."""


def rebuild_state(data: Path, location: str = "") -> dict[str, int]:
    """Make the next run rebuild all state; return the number of published rows by table.

    They are kept in tables of their own, `told/NAME`, and the tables begin empty.
    """
    tables = Tables(data, location)
    published = {}
    with tables.alone():
        for name in (name for names in STATEFUL.values() for name in names):
            published[name] = _keep_published(tables, name)
        for query in STATEFUL:
            shutil.rmtree(data / "checkpoints" / query, ignore_errors=True)
        (data / "checkpoints" / "began.json").unlink(missing_ok=True)
        for name in published:
            if files := tables.files(name):
                tables.commit(name, (), files)
    return published


def _keep_published(tables: Tables, name: str) -> int:
    """Copy the published rows of a table; rows copied twice do no harm."""
    schema = tables.schema(name)
    if schema is None:
        return 0
    kept = f"{TOLD}/{name}"
    tables.create(kept, schema)
    writer = DayWriter(tables.uri(kept), schema, time_column(name), "told")
    for rows in tables.batches(name):
        writer.write(_published(rows))
    files = writer.close()
    if files:
        tables.commit(kept, files)
    return sum(each.rows for each in files)


def _published(rows: pa.Table) -> pa.Table:
    if PUBLISHED not in rows.schema.names:
        return rows
    return rows.filter(pc.fill_null(rows[PUBLISHED], True))
