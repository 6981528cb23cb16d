"""What tables of the pipeline hold."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def table_rows(data: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables under a data directory, by table, empty ones too."""
    return {
        table.name: [
            row
            for path in sorted(table.glob("epoch=*/*.parquet"))
            for row in pq.read_table(path, partitioning=None).to_pylist()
        ]
        for table in (data / "tables").iterdir()
    }
