"""A replay replaces what it makes anew, and loses nothing that the log cannot give again."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.core.model.event import Subscription
from nearcast.core.model.inputs import Restarted, Subscribed
from nearcast.core.model.record import Record
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.pipeline.jobs.queries import PipelineSettings
from nearcast.pipeline.jobs.replay import Range, WouldLoseError, replay
from nearcast.pipeline.tables.tables import EpochId, Tables
from nearcast.store import Row
from nearcast.store.rows.rows import record_row
from tests.support.logs.broker_log import drop_segments, write_log
from tests.support.logs.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 30


def log_rows() -> list[Row]:
    """A subscription to everything, and an event each second."""
    wanted = Subscribed(Subscription("ann\0#", "ann", "#"))
    inputs = (Record(1, 1.0, Restarted()), Record(2, 2.0, wanted))
    return [record_row(each, "local") for each in inputs] + [
        Row(
            "local", seq, "event", float(seq), event_id=f"e{seq}", subject="news",
            publisher="ben", time=float(seq), payload=b"{}",
        )
        for seq in range(3, COUNT + 1)
    ]  # fmt: skip


def made(data: Path) -> dict[str, Counter[str]]:
    return {
        name: Counter(str(sorted(row.items())) for row in rows)
        for name, rows in table_rows(data).items()
    }


def seqs(data: Path, name: str = "events") -> list[int]:
    return sorted(row["seq"] for row in table_rows(data)[name])


def run(
    spark: "SparkSession",
    data: Path,
    span: Range = Range(),  # noqa: B008
    shards: int = 1,
    **more: Any,  # noqa: ANN401
) -> dict[str, int]:
    settings = PipelineSettings(data=str(data), movement=None, decide_shards=shards)
    return replay(spark, settings, span, lambda *_: None, **more)


def test_a_replay_twice_gives_the_same_and_earlier_versions_can_be_read(
    spark: "SparkSession", tmp_path: Path
) -> None:
    write_log(tmp_path, "local", log_rows(), per_segment=5)
    assert run(spark, tmp_path)["events"] == COUNT - 2
    before = made(tmp_path)
    assert seqs(tmp_path, "deliveries") == list(range(3, COUNT + 1))
    tables = Tables(tmp_path)
    version = tables.version("events")
    run(spark, tmp_path)
    assert made(tmp_path) == before
    assert version is not None
    assert sum(each.rows for each in tables.files("events", version)) == COUNT - 2


def test_shards_make_the_same_tables(spark: "SparkSession", tmp_path: Path) -> None:
    write_log(tmp_path, "local", log_rows(), per_segment=5)
    run(spark, tmp_path)
    before = made(tmp_path)
    run(spark, tmp_path, shards=2)
    assert made(tmp_path) == before
    run(spark, tmp_path, Range(10.0, 20.0), shards=3)
    assert made(tmp_path) == before


def test_a_range_replaces_that_range_alone(spark: "SparkSession", tmp_path: Path) -> None:
    write_log(tmp_path, "local", log_rows(), per_segment=5)
    run(spark, tmp_path)
    before = made(tmp_path)
    files = {each.path for each in Tables(tmp_path).files("events")}
    run(spark, tmp_path, Range(10.0, 20.0))
    assert made(tmp_path) == before
    assert files.isdisjoint({each.path for each in Tables(tmp_path).files("events")})


def test_what_the_log_has_dropped_is_not_lost_unless_forced(
    spark: "SparkSession", tmp_path: Path
) -> None:
    write_log(tmp_path, "local", log_rows(), per_segment=5)
    run(spark, tmp_path)
    before = made(tmp_path)
    player = Player("local")
    player.apply(log_rows()[:10])
    Snapshots.of(str(tmp_path), "local").save(player)
    drop_segments(tmp_path, "local", 2)

    with pytest.raises(WouldLoseError, match=r"8 of events.* --since 1970-01-01T00:00:11") as told:
        run(spark, tmp_path)
    assert "8 of deliveries" in str(told.value)
    assert made(tmp_path) == before

    run(spark, tmp_path, Range(since=11.0))
    assert seqs(tmp_path) == list(range(3, COUNT + 1))
    run(spark, tmp_path, force=True)
    assert seqs(tmp_path) == list(range(11, COUNT + 1))


def test_an_epoch_that_some_tables_have_is_in_all_after_a_replay(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """As after a kill -9 of a pipeline between two of its tables."""
    write_log(tmp_path, "local", log_rows(), per_segment=5)
    checkpoint = tmp_path / "checkpoints" / "tables"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"q"}')
    for epoch, end in enumerate((11, 21)):
        (checkpoint / "offsets" / str(epoch)).write_text(f'v1\n{{}}\n{{"local":{end}}}')
    (checkpoint / "commits" / "0").write_text("v1\n{}")
    tables, this = Tables(tmp_path), EpochId("deliveries q", 1)
    run(spark, tmp_path)
    assert seqs(tmp_path) == list(range(3, 11))
    (rows,) = tables.batches("events")
    tables.append("events", rows.slice(0, 1), this)

    run(spark, tmp_path)
    assert seqs(tmp_path) == seqs(tmp_path, "deliveries") == list(range(3, 21))
    # Spark tries the epoch again.
    assert all(
        not tables.append(name, rows.slice(0, 1), this)
        for name in ("events", "rejects", "contexts", "deliveries")
    )
