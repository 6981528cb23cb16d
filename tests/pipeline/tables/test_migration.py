"""Tables of a release before Delta Lake become Delta tables once, whatever is killed meanwhile."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.tables import migration
from nearcast.pipeline.tables.migration import migrate, needs_migration
from nearcast.pipeline.tables.tables import EpochId, Tables
from tests.support.logs.table_rows import rows_before_delta, table_rows

QUERY_ID = "0e9ee7a6-3a4b-4e1c-9d0a-1f4f3f9d2c11"


class KilledError(Exception):
    """Whoever migrated is no more."""


def fill(data: Path) -> dict[str, list[dict[str, object]]]:
    version = data / ".tables" / "000003"
    for name, column in (("events", "ingested"), ("deliveries", "time"), ("traffic", "until")):
        for epoch in (0, 3, 4):
            where = version / name / f"epoch={epoch:012d}"
            where.mkdir(parents=True)
            times = [epoch * 86_400.0, epoch * 86_400.0 + 1.5] if epoch != 3 else []
            rows = pa.table(
                {
                    column: pa.array(times, pa.float64()),
                    "n": pa.array([epoch] * len(times), pa.int64()),
                }
            )
            pq.write_table(rows, where / "part-0.parquet")
    (data / "tables").symlink_to(".tables/000003")
    checkpoint = data / "checkpoints" / "tables"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    return rows_before_delta(data)


def check(data: Path, before: dict[str, list[dict[str, object]]]) -> None:
    after = table_rows(data)
    for name, rows in before.items():
        found = [{key: row[key] for key in rows[0]} for row in after[name]]
        assert sorted(found, key=str) == sorted(rows, key=str)
    assert all(row["ingested"] == row["time"] for row in after["deliveries"])
    assert not (data / ".tables").exists()
    assert not needs_migration(data)
    tables = Tables(data)
    # The query does not write again what it wrote before, and goes on.
    rows = pa.table({"ingested": [9.0], "n": [9]})
    assert not tables.append("events", rows, EpochId(f"deliveries {QUERY_ID}", 4))
    assert tables.append("events", rows, EpochId(f"deliveries {QUERY_ID}", 5))
    assert migrate(data) == 0


def test_all_rows_are_there_and_the_old_files_are_gone(tmp_path: Path) -> None:
    before, steps = fill(tmp_path), list[tuple[int, int]]()
    assert migrate(tmp_path, lambda _, done, total: steps.append((done, total))) == 9
    assert steps[-1] == (9, 9)
    check(tmp_path, before)


@pytest.mark.parametrize("commits", [1, 2, 3, 5, 6])
def test_a_migration_that_was_killed_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    monkeypatch.setattr(migration, "COMMIT_ROWS", 1)
    before, left = fill(tmp_path), [commits]
    commit = Tables.commit

    def killed(tables: Tables, *arguments: object, **more: object) -> int:
        left[0] -= 1
        if not left[0]:
            raise KilledError
        return commit(tables, *arguments, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Tables, "commit", killed)
        with pytest.raises(KilledError):
            migrate(tmp_path)
    assert rows_before_delta(tmp_path) == before
    migrate(tmp_path)
    check(tmp_path, before)


@pytest.mark.parametrize("step", ["unlink", "rename", "rmtree"])
def test_a_migration_that_was_killed_while_it_put_tables_in_place_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = fill(tmp_path)

    def killed(*arguments: object, **more: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        if step == "rmtree":
            patched.setattr(shutil, "rmtree", killed)
        else:
            patched.setattr(Path, step, killed)
        with pytest.raises(KilledError):
            migrate(tmp_path)
    migrate(tmp_path)
    check(tmp_path, before)


def test_a_link_to_nowhere_is_told(tmp_path: Path) -> None:
    os.symlink(".tables/000001", tmp_path / "tables")
    with pytest.raises(PipelineError, match="nearcast pipeline replay"):
        migrate(tmp_path)


def test_the_new_tables_may_be_elsewhere(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    before = fill(data)
    migrate(data, location=str(elsewhere))
    assert not needs_migration(data)
    found = Tables(data, str(elsewhere))
    assert {each.name: each.rows for each in found.statistics()} == {
        name: len(rows) for name, rows in before.items()
    }
