"""What tables of the pipeline hold."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nearcast.pipeline.tables.tables import NAMES, Tables


def table_rows(data: Path, location: str = "") -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables of a data directory, by table, empty ones too."""
    tables = Tables(data, location)
    return {
        name: [row for batch in tables.batches(name) for row in batch.to_pylist()]
        for name in NAMES
        if tables.version(name) is not None
    }


def rows_before_delta(data: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the same of tables that a release before Delta Lake wrote."""
    return {
        table.name: [
            row
            for path in sorted(table.glob("epoch=*/*.parquet"))
            for row in pq.read_table(path, partitioning=None).to_pylist()
        ]
        for table in (data / "tables").iterdir()
    }
