"""Deciding in shards: the memory of Python workers, and events per CPU-second.

As the pipeline does it for its tables: an epoch of the log is read and cached, decided by every
shard and merged. Each number of shards has a session of Spark with as many tasks at a time. Memory
is private: of a worker that is forked, what it does not share with others.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.matching.agreement import MatchingCity
from nearcast.benchmarks.matching.peers.peer import MatchedPairs
from nearcast.benchmarks.pipeline.city import standing_player, write_city
from nearcast.benchmarks.pipeline.stages import (
    PipelineStage,
    best_stage,
    spark_cpu,
    spark_session,
)
from nearcast.core.engine.shard import Shard
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import Snapshots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from nearcast.benchmarks.pipeline.benchmark import PipelineBenchSettings

WARM_RUNS = 2
"""Runs before those that count, after the one that loads players."""


class ShardFigures(Struct, frozen=True):
    """Figures for one number of shards."""

    shards: int
    matching: PipelineStage
    worker_bytes: int
    """Private memory of the largest Python worker."""
    workers_bytes: int
    """Private memory of as many Python workers as there are shards, the largest ones."""
    load_s: float
    """CPU seconds of the first run, in which every worker loads its players."""


def measure_shards(
    city: MatchingCity, settings: "PipelineBenchSettings", step: Callable[[str], None]
) -> tuple[list[ShardFigures], MatchedPairs]:
    """Return the figures of each number of shards, and the pairs of the first events."""
    figures: list[ShardFigures] = []
    sampled: list[MatchedPairs] = []
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as directory:
        data = Path(directory)
        player = standing_player(city, step)
        step("writing its log")
        write_city(data, city, player, settings.runs + WARM_RUNS + 1)
        for count in settings.shards:
            if count > 1:
                step(f"snapshots of {count} shards")
                _save_parts(data, player, count)
        first = player.seq + 1
        # Others need the memory.
        del player
        for count in settings.shards:
            with spark_session(count, settings.memory, step) as spark:
                log = _Log(spark, data, first, settings.events, count)
                found, pairs = _measured(spark, log, settings, step)
                figures.append(found)
                sampled.append(pairs)
    for pairs in sampled[1:]:
        if not _are_equal(pairs, sampled[0]):
            raise BenchmarkError("shards found other pairs than a whole engine")
    return figures, sampled[0]


def _save_parts(data: Path, player: Player, count: int) -> None:
    for number in range(count):
        shard = Shard(number, count)
        part = Player.restored(player.broker, player.seq, player.in_force(), shard)
        Snapshots.of(str(data), player.broker, shard).save(part)


class _Log:
    """The log of a city; each call decides on the next slice of it."""

    def __init__(
        self, spark: "SparkSession", data: Path, first: int, events: int, shards: int
    ) -> None:
        self._spark = spark
        self._data = str(data)
        self._next = first
        self._events = events
        self.shards = shards

    @property
    def next(self) -> int:
        """The seq of the next slice's first row."""
        return self._next

    def decide(self, use: "Callable[[DataFrame], None]") -> None:
        """Decide on a slice, and use its decided rows."""
        from nearcast.pipeline.decide.decisions import decided

        first, self._next = self._next, self._next + self._events
        log = (
            self._spark.read.format("nearcast")
            .option("path", self._data)
            .option("fromSeq", first)
            .option("toSeq", self._next - 1)
            .option("partitionRows", self._events)
            .load()
            .persist()
        )
        use(decided(log, self._data, self.shards))
        log.unpersist(blocking=True)


def _measured(
    spark: "SparkSession", log: _Log, settings: "PipelineBenchSettings", step: Callable[[str], None]
) -> tuple[ShardFigures, MatchedPairs]:
    sampled: list[MatchedPairs] = []

    def sample(found: "DataFrame") -> None:
        rows = found.where(found["seq"] < first + settings.sample).select("seq", "recipients")
        sampled.append(_pairs(rows.toArrow().to_pylist(), first))

    def match(found: "DataFrame") -> None:
        found.write.format("noop").mode("overwrite").save()

    step(f"{log.shards} shards: loading players")
    before, first = spark_cpu(spark).seconds(), log.next
    log.decide(sample)
    load_s = spark_cpu(spark).seconds() - before
    step(f"{log.shards} shards: matching")
    for _ in range(WARM_RUNS):
        log.decide(match)
    matching = best_stage(spark, settings.runs, lambda: log.decide(match), settings.events)
    private = spark_cpu(spark).private_memory()[: log.shards]
    return ShardFigures(log.shards, matching, private[0], sum(private), load_s), sampled[0]


def _pairs(rows: list[dict[str, Any]], first: int) -> MatchedPairs:
    found = [
        (row["seq"] - first, int(SubscriptionId.parse(name).filter))
        for row in rows
        for recipient in row["recipients"]
        for name in recipient["subscriptions"]
    ]
    events, subscriptions = np.array(sorted(found), np.int32).reshape(-1, 2).T
    return MatchedPairs(events, subscriptions)


def _are_equal(one: MatchedPairs, other: MatchedPairs) -> bool:
    return all(
        map(np.array_equal, (one.event, one.subscription), (other.event, other.subscription))
    )
