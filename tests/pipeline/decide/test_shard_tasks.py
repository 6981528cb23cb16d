"""Tasks decide for shards from snapshots of any number of parts, and Spark keeps them apart."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from nearcast.core.engine.shard import Shard
from nearcast.pipeline.decide import decisions
from nearcast.pipeline.decide.decisions import decide_batches
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import COMPILED, Snapshots, forget_in_snapshots
from nearcast.store import Row, batch_of, find_parts, follow
from tests.pipeline.decide.random_lives import Life
from tests.pipeline.decide.shard_rows import assert_same, merged, shards_of
from tests.support.logs.broker_log import write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKER = "broker"


@pytest.fixture(autouse=True)
def _no_players() -> Iterator[None]:
    decisions._players.clear()
    yield
    decisions._players.clear()


def decided_in(data: Path, rows: list[Row], count: int) -> list[dict[str, object]]:
    """What the tasks of an epoch decide, one for each shard."""
    batches: list[pa.RecordBatch] = []
    if count == 1:
        batches += decide_batches(str(data), [batch_of(rows)])
        return [row for batch in batches for row in batch.to_pylist()]
    for shard in shards_of(count):
        batches += decide_batches(str(data), [batch_of(rows)], shard)
    return merged(batches)


def test_the_number_of_shards_may_change_at_any_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "SNAPSHOT_ROWS", 60)
    monkeypatch.setattr(decisions, "SNAPSHOT_ROWS_EACH", 0)
    seen = set()
    for seed in range(2):
        draw = random.Random(f"epochs {seed}")
        whole, split = tmp_path / f"whole {seed}", tmp_path / f"split {seed}"
        rows = Life(seed).live(120)
        for data in (whole, split):
            write_log(data, BROKER, rows, per_segment=40)
        kept = Snapshots.of(str(split), BROKER)
        for first in range(0, len(rows), 50):
            epoch = rows[first : first + 50]
            count = draw.choice((1, 2, 2, 3))
            assert_same(decided_in(split, epoch, count), decided_in(whole, epoch, 1))
            seen |= {path.name.partition(".")[2] for _, path in find_parts(kept.own)}
            if draw.random() < 0.5:
                decisions._players.clear()
            if draw.random() < 0.3:
                for path in Path(str(kept.own)).glob(f"*{COMPILED}"):
                    path.unlink()
    assert {"parquet", "0-of-2.parquet", "1-of-2.parquet"} <= seen, seen


def test_a_process_has_the_players_of_one_shard(tmp_path: Path, rows: list[Row]) -> None:
    write_log(tmp_path, BROKER, rows)
    for shard in (*shards_of(3), Shard()):
        list(decide_batches(str(tmp_path), [batch_of(rows)], shard))
        assert [player.shard for player, _ in decisions._players.values()] == [shard]


def test_a_snapshot_of_shards_counts_when_all_parts_are_there(tmp_path: Path) -> None:
    kept = Snapshots.of(str(tmp_path), BROKER)
    Path(str(kept.log)).mkdir(parents=True)
    players = [Player(BROKER, shard) for shard in shards_of(2)]

    def save(seq: int, *numbers: int) -> None:
        for number in numbers:
            players[number].seq = seq
            kept.save(players[number])

    def seqs() -> list[int]:
        return sorted(seq for seq, _ in find_parts(kept.own))

    save(1, 0)
    assert (kept.newest(), kept.load(9)) == (0, None)
    save(2, 1, 0)
    assert kept.newest() == 2
    for shard in (*shards_of(2), *shards_of(3), Shard()):
        found = Snapshots.of(str(tmp_path), BROKER, shard).load(9)
        assert found is not None
        assert (found.seq, found.shard) == (2, shard)
    # An incomplete one goes as old ones do.
    assert seqs() == [2, 2]
    follow(kept.log, 2)
    for seq in range(3, 8):
        save(seq, 0, 1)
    assert seqs() == [2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    follow(kept.log, 6)
    save(8, 1, 0)
    assert seqs() == [6, 6, 7, 7, 8, 8]


def test_a_person_is_forgotten_in_every_part(tmp_path: Path, rows: list[Row]) -> None:
    kept = Snapshots.of(str(tmp_path), BROKER)
    Path(str(kept.log)).mkdir(parents=True)
    whole = Player(BROKER)
    whole.apply(rows)
    names = {each.node for each in whole.engine.subscriptions.values()}
    for shard in shards_of(2):
        player = Player(BROKER, shard)
        player.apply(rows)
        kept.save(player)
    for name in names:
        forget_in_snapshots(str(tmp_path), name)
    found = kept.load(len(rows))
    assert found is not None
    assert whole.engine.subscriptions
    assert not found.engine.subscriptions
    assert not names & found.engine.nodes.keys()


def test_every_shard_has_a_process_of_its_own(
    spark: "SparkSession", tmp_path: Path, rows: list[Row]
) -> None:
    from nearcast.pipeline.decide.shard_tasks import decided_in_shards
    from nearcast.pipeline.source.log_ranges import RangeRequest

    data, notes = tmp_path / "data", tmp_path / "notes"
    notes.mkdir()
    write_log(data, BROKER, rows)
    log = spark.read.format("nearcast").option("path", str(data)).load()

    def note(batches: Iterator[pa.RecordBatch], shard: Shard) -> Iterator[pa.RecordBatch]:
        (notes / f"{shard.number} {os.getpid()}").touch()
        return iter(())

    for _ in range(3):
        assert not decided_in_shards(log, str(data), note, 3, RangeRequest()).collect()
    found = sorted(path.name.split() for path in notes.iterdir())
    assert [number for number, _ in found] == ["0", "1", "2"]
    assert len({process for _, process in found}) == 3


def test_shards_in_spark_decide_as_one_task_does(spark: "SparkSession", tmp_path: Path) -> None:
    brokers = {"alpha": Life(5).live(120), "beta": Life(6).live(120)}
    for broker, rows in brokers.items():
        write_log(tmp_path, broker, rows, per_segment=25)
    reader = spark.read.format("nearcast").option("path", str(tmp_path))
    log = reader.option("partitionRows", 60).load()
    assert log.rdd.getNumPartitions() > 3
    found, wanted = (
        [row.asDict(recursive=True) for row in decisions.decided(log, str(tmp_path), n).collect()]
        for n in (3, 1)
    )
    for broker in brokers:
        of_broker = ([row for row in each if row["broker"] == broker] for each in (found, wanted))
        assert_same(*of_broker)
