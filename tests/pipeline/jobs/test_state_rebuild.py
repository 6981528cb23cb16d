"""State that is rebuilt publishes again what was never published, and nothing else."""

from pathlib import Path

import msgspec
import pyarrow as pa

from nearcast.pipeline.jobs.state_rebuild import rebuild_state
from nearcast.pipeline.tables.tables import EpochId, Tables

AGGREGATES = pa.schema([("id", pa.string()), ("time", pa.float64()), ("told", pa.bool_())])


def ids(tables: Tables, name: str) -> list[str]:
    return sorted(each for rows in tables.batches(name) for each in rows["id"].to_pylist())


def test_tables_begin_empty_and_what_was_published_is_kept_by_id(
    tmp_path: Path, tables: Tables
) -> None:
    rows = [("a", True), ("b", False), ("c", None)]
    found = [{"id": id_, "time": 1.0, "told": told} for id_, told in rows]
    tables.append("aggregates", pa.Table.from_pylist(found, AGGREGATES), EpochId("q", 0))
    tables.append("events", pa.table({"ingested": [1.0]}), EpochId("q", 0))
    for query in ("tables", "gather", "movement"):
        (tmp_path / "checkpoints" / query / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoints" / "began.json").write_bytes(msgspec.json.encode({"form": 1}))

    # Rows of earlier releases have no value, and were published.
    assert rebuild_state(tmp_path) == {"aggregates": 2, "encounters": 0, "traffic": 0}
    assert ids(tables, "aggregates") == []
    assert ids(tables, "told/aggregates") == ["a", "c"]
    assert [(each.name, each.rows) for each in tables.statistics()] == [
        ("events", 1), ("aggregates", 0),
    ]  # fmt: skip
    left = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert left == ["tables", "tables.lock"]

    # Once more, before anything was found again: what was published stays known.
    assert rebuild_state(tmp_path)["aggregates"] == 0
    assert ids(tables, "told/aggregates") == ["a", "c"]
