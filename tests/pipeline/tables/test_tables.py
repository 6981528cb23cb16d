"""Tables come in versions: whoever reads sees one of them whole, whoever writes repeats nothing."""

import fcntl
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.jobs.state_rebuild import published_until, rebuild_state
from nearcast.pipeline.tables.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write(tables: Tables, name: str, epoch: int, values: list[int], column: str = "n") -> None:
    where = tables.version / name / f"epoch={epoch:012d}"
    where.mkdir(parents=True)
    pq.write_table(pa.table({column: pa.array(values, pa.float64())}), where / "part-0.parquet")


def read(tables: Tables, name: str) -> list[tuple[int, float]]:
    """What a table says, as anyone reads it."""
    found = pq.read_table(tables.path(name))
    return sorted(zip(found["epoch"].to_pylist(), found["n"].to_pylist(), strict=True))


def versions(data: Path) -> list[str]:
    return sorted(path.name for path in (data / ".tables").glob("0*"))


def test_the_first_version_is_there_once(tmp_path: Path, tables: Tables) -> None:
    tables.begin()
    assert (tmp_path / "tables").readlink() == Path(".tables/000001")
    assert versions(tmp_path) == ["000001"]
    assert tables.statistics() == []
    assert tables.written("events") is None
    assert tables.newest("events", "time") is None


def test_a_directory_that_is_somebody_elses_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    with pytest.raises(PipelineError, match="not made by this pipeline"):
        Tables(tmp_path).begin()


def test_another_version_counts_in_one_step_and_old_ones_go(tmp_path: Path, tables: Tables) -> None:
    write(tables, "events", 1, [1])
    for number in range(2, 6):
        new = tables.new_version()
        assert read(tables, "events") == [(number - 1, number - 1)]
        tables.use(new)
        write(tables, "events", number, [number])
    assert versions(tmp_path) == ["000004", "000005"]
    assert [path.name for path in tmp_path.iterdir() if "tables." in path.name] == []


def test_an_epoch_that_is_written_again_is_there_once(
    spark: "SparkSession", tables: Tables
) -> None:
    tables.write("events", spark.range(5).selectExpr("id as n"), 7)
    tables.write("events", spark.range(5, 8).selectExpr("id as n"), 8)
    tables.write("events", spark.range(3).selectExpr("id as n"), 7)
    assert read(tables, "events") == [(7, 0), (7, 1), (7, 2), (8, 5), (8, 6), (8, 7)]
    assert tables.written("events") == 8
    assert spark.read.parquet(str(tables.path("events"))).count() == 6
    (found,) = tables.statistics()
    assert (found.name, found.epochs, found.rows) == ("events", 2, 6)


def test_compacting_changes_no_row_and_keeps_the_newest_epochs(
    tmp_path: Path, tables: Tables
) -> None:
    for epoch in range(20):
        write(tables, "events", epoch, [epoch, epoch + 100])
        write(tables, "traffic", epoch, [epoch])
    write(tables, "encounters", 4, [1])
    before = [value for _, value in read(tables, "events")]
    assert tables.compact(keep=8) == {"events": 12, "traffic": 12}
    assert sorted(value for _, value in read(tables, "events")) == sorted(before)
    sizes = {each.name: (each.epochs, each.files, each.rows) for each in tables.statistics()}
    assert sizes == {"events": (9, 9, 40), "traffic": (9, 9, 20), "encounters": (1, 1, 1)}
    assert tables.written("events") == 19
    # An epoch that comes again finds its own place, not that of those put together.
    assert [path.name for path in tables.recent("events", 19, 3)] == [
        "epoch=000000000016", "epoch=000000000017", "epoch=000000000018",
    ]  # fmt: skip
    assert tables.compact(keep=8) == {}
    assert tables.compact(keep=7) == {"events": 2, "traffic": 2}
    assert tables.compact(keep=40) == {}
    assert len(versions(tmp_path)) == 2


def test_what_is_large_already_is_not_written_again(tables: Tables) -> None:
    write(tables, "events", 0, list(range(100_000)))
    for epoch in range(1, 7):
        write(tables, "events", epoch, [epoch])
    before = read(tables, "events")
    (large,) = (tables.version / "events" / "epoch=000000000000").iterdir()
    inode, size = large.stat().st_ino, large.stat().st_size

    assert tables.compact(keep=2, merged_bytes=size) == {"events": 4}

    (same,) = (tables.version / "events" / "epoch=000000000000").iterdir()
    assert same.stat().st_ino == inode
    assert [n for _, n in read(tables, "events")] == [n for _, n in before]
    assert [each.files for each in tables.statistics()] == [4]
    assert tables.compact(keep=1, merged_bytes=size) == {"events": 2}


def test_compacting_may_go_on_while_somebody_reads(tables: Tables) -> None:
    for epoch in range(12):
        write(tables, "events", epoch, [epoch])
    dataset = pq.ParquetDataset(tables.path("events"))
    version = pq.ParquetDataset(tables.version / "events")
    assert tables.compact(keep=2)
    # What was found in the version before is still there; by the link there is the new one.
    assert sorted(version.read()["n"].to_pylist()) == list(range(12))
    assert len(pq.ParquetDataset(tables.path("events")).files) == 3
    assert len(dataset.files) == 12


def test_a_compaction_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, tables: Tables
) -> None:
    for epoch in range(4):
        write(tables, "events", epoch, [epoch])
    broken = tables.version / "events" / "epoch=000000000001" / "part-0.parquet"
    broken.write_bytes(b"nonsense")
    with pytest.raises(pa.ArrowInvalid):
        tables.compact(keep=1)
    assert versions(tmp_path) == ["000001"]
    assert tables.written("events") == 3


def test_who_writes_waits_for_another(tmp_path: Path, tables: Tables) -> None:
    order: list[str] = []

    def wait() -> None:
        with Tables(tmp_path).locked():
            order.append("second")

    with tables.locked():
        thread = threading.Thread(target=wait)
        thread.start()
        # Another process cannot have it either.
        with (tmp_path / ".tables" / "lock").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_the_newest_time_is_found_over_all_epochs(tables: Tables) -> None:
    write(tables, "traffic", 1, [5, 9], "until")
    write(tables, "traffic", 2, [7], "until")
    write(tables, "traffic", 3, [], "until")
    assert tables.newest("traffic", "until") == 9


def test_state_that_is_built_anew_begins_with_empty_tables_and_repeats_nothing(
    tmp_path: Path, tables: Tables
) -> None:
    write(tables, "events", 1, [1])
    write(tables, "aggregates", 1, [100, 200], "time")
    write(tables, "encounters", 1, [300], "time")
    write(tables, "traffic", 1, [250], "until")
    for query in ("tables", "gather", "movement"):
        (tmp_path / "checkpoints" / query / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoints" / "began.json").write_bytes(msgspec.json.encode({"form": 1}))
    assert published_until(tmp_path) == {}

    assert rebuild_state(tmp_path) == {"gather": 200, "movement": 300}
    assert published_until(tmp_path) == {"gather": 200, "movement": 300}
    assert read(tables, "events") == [(1, 1)]
    assert [each.name for each in tables.statistics()] == ["events"]
    left = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert left == ["rebuilt.json", "tables"]

    # Once more, before anything was found again: what was published stays known.
    assert rebuild_state(tmp_path) == {"gather": 200, "movement": 300}
