"""The pipeline benchmark: a skewed city's events matched in Spark, to Parquet and to clients.

The same run measures the grid join that a Spark user would write, and the broker's own matcher
without Spark. Rates are per CPU-second of all processes of Spark: Java and Python workers. The
pipeline and the join must find the same pairs on a sample before the join is timed. A second part
uses a real broker and real clients: events per second at the clients if Spark decides, and the
latency from the event that completes a threshold to the aggregate at a client.
"""

import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from nearcast.benchmarks import city as cities
from nearcast.benchmarks.matching.agreement import MatchingCity, check_agreement
from nearcast.benchmarks.matching.benchmark import draw
from nearcast.benchmarks.matching.peers.peer import MatchedPairs
from nearcast.benchmarks.pipeline.city import standing_player, write_city
from nearcast.benchmarks.pipeline.shards import ShardFigures, measure_shards
from nearcast.benchmarks.pipeline.skew import TASKS, SkewFigures, measure_skew, skewed
from nearcast.benchmarks.pipeline.spark_join import CELL_DEGREES, SparkJoin
from nearcast.benchmarks.pipeline.stages import (
    PipelineStage,
    best_stage,
    spark_cpu,
    spark_session,
)
from nearcast.benchmarks.this_machine import machine
from nearcast.benchmarks.timing import best_cpu_s, cpu_s
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model import Event
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.subscription_id import SubscriptionId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WANTED_RATIO, WANTED_COST, WANTED_SHARE = 4.0, 2.5, 0.6
"""Targets: minimum multiple of the join's rate, maximum multiple of the matcher's CPU time, and
maximum share of a worker's memory with two shards."""
MATCHER_BATCH = 4_096
MADE_BATCH = 64
MORE_RUNS = 3
"""Extra runs of the matching stage: Java's JIT compiler is still active in the first ones."""


class PipelineBenchSettings(Struct, frozen=True):
    """Settings of the pipeline benchmark."""

    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    cores: tuple[int, ...] = (1, 2)
    events: int = 400_000
    join_matches: int = 1_000_000
    """The join gets events with about this many matches: enough to make start-up negligible."""
    runs: int = 2
    seed: int = 1
    sample: int = 256
    memory: str = "6g"
    matching: bool = True
    """Measure the stages in Spark: matching, Parquet, the join and skew."""
    clients: bool = True
    """Measure with a broker and clients."""
    shards: tuple[int, ...] = (1, 2, 4)
    """Measure with so many shards, each in a process of its own; with none, not at all."""
    shards_size: int = 100_000
    """The number of subscriptions for that."""
    client_events: int = 60_000
    latency_s: float = 60.0


class PipelineSizeFigures(Struct, frozen=True):
    """Figures for one number of subscriptions on one number of cores."""

    subscriptions: int
    cores: int
    events: int
    matches_per_event: float
    matching: PipelineStage
    parquet: PipelineStage
    join: PipelineStage
    join_cell_degrees: float
    matcher_us: float
    """CPU-µs per event of the broker's matcher, given prepared batches."""
    made_us: float
    """CPU-µs per event including building the batches from `Event` values, as a broker must."""
    load_s: float
    """CPU seconds of the first slice, in which every process loads its snapshot."""
    peak_bytes: int
    """Memory of all processes of Spark after the timed stages of the pipeline."""

    @property
    def ratio(self) -> float:
        """Events per CPU-second as a multiple of the join's."""
        return self.matching.events_per_cpu_s / self.join.events_per_cpu_s

    @property
    def cost(self) -> float:
        """CPU time per event as a multiple of the matcher's, given prepared batches."""
        return 1e6 / self.matching.events_per_cpu_s / self.matcher_us

    @property
    def made_cost(self) -> float:
        """CPU time per event as a multiple of the matcher's including building its batches."""
        return 1e6 / self.matching.events_per_cpu_s / self.made_us


class PipelineResult(Struct, frozen=True):
    """The result of a whole run."""

    benchmark: str
    started: str
    settings: PipelineBenchSettings
    machine: dict[str, str]
    versions: dict[str, str]
    wanted_ratio: float
    wanted_cost: float
    sizes: list[PipelineSizeFigures]
    clients: "ClientFigures | None" = None
    latency: "Sequence[PipelineLatencyFigures]" = ()
    skew: "SkewFigures | None" = None
    shards: "ShardsResult | None" = None


class ShardsResult(Struct, frozen=True):
    """Deciding in shards, beside the join."""

    subscriptions: int
    events: int
    wanted: float
    """Target for the memory of a worker on two shards, as a part of that on one."""
    figures: list[ShardFigures]
    join: PipelineStage


class ClientFigures(Struct, frozen=True):
    """Throughput at clients of events decided in Spark."""

    events: int
    deliveries: int
    events_per_s: float
    seconds: float


class PipelineLatencyFigures(Struct, frozen=True):
    """Latency from the event that completes a threshold to the aggregate at a client."""

    movers: int
    """Nodes that moved once a second during the measurement."""
    events_per_s: float
    aggregates: int
    p50_s: float
    p95_s: float
    most_s: float


def run(settings: PipelineBenchSettings, step: Callable[[str], None]) -> PipelineResult:
    """Run the benchmark; `step` gets progress texts. Raises BenchmarkError."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sizes, skew, shards, clients, latency = [], None, None, None, []
    if settings.matching:
        for cores in settings.cores:
            with spark_session(cores, settings.memory, step) as spark:
                sizes += [_size(spark, size, cores, settings, step) for size in settings.sizes]
        with spark_session(max(settings.cores), settings.memory, step, TASKS) as spark:
            skew = measure_skew(spark, skewed(settings.events), step)
    if settings.shards:
        shards = _shards(settings, step)
    if settings.clients:
        from nearcast.benchmarks.pipeline.clients import MOVERS, measure_clients, measure_latency

        clients = measure_clients(settings, step)
        latency = [measure_latency(settings, step, movers) for movers in (0, MOVERS)]
    versions = {"python": platform.python_version()} | {
        name: metadata.version(name) for name in ("nearcast", "pyspark", "numpy", "numba")
    }
    return PipelineResult(
        benchmark="pipeline", started=started, settings=settings, machine=machine(),
        versions=versions, wanted_ratio=WANTED_RATIO, wanted_cost=WANTED_COST, sizes=sizes,
        clients=clients, latency=latency, skew=skew, shards=shards,
    )  # fmt: skip


def _size(
    spark: "SparkSession",
    size: int,
    cores: int,
    settings: PipelineBenchSettings,
    step: Callable[[str], None],
) -> PipelineSizeFigures:
    def tell(what: str) -> None:
        step(f"{cores} cores, {size:,} subscriptions: {what}")

    tell("drawing the city")
    city = draw(size, settings.events, settings.seed)
    player = standing_player(city, tell)
    batches = [
        cities.nearcast_batch(city.events, first, min(settings.events, first + MATCHER_BATCH))
        for first in range(0, settings.events, MATCHER_BATCH)
    ]
    matcher = player.engine.matcher
    found = _match(matcher, batches)
    events = [batches[0].event(number) for number in range(len(batches[0]))]
    ready_s: list[float] = []
    made_s: list[float] = []

    def match_alone() -> None:
        ready_s.append(cpu_s(partial(_match, matcher, batches)))
        made_s.append(best_cpu_s(partial(_make_and_match, matcher, events), settings.runs))

    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as directory:
        tell("writing its log")
        write_city(Path(directory), city, player, 2 * settings.runs + MORE_RUNS + 1)
        first_seq = player.seq + 1
        ours = _Ours(spark, Path(directory), first_seq, settings.events, cores)
        tell("loading snapshots")
        pairs, load_s = ours.warm_up(settings.sample)
        # Alternately, because the speed of the machine varies over time.
        tell("matching, and the broker's matcher")
        matching = best_stage(
            spark, settings.runs + MORE_RUNS, ours.match, settings.events, match_alone
        )
        tell("to Parquet")
        parquet = best_stage(spark, settings.runs, ours.to_parquet, settings.events)
        peak = spark_cpu(spark).memory()
    enough = max(settings.sample, round(settings.join_matches * settings.events / max(found, 1)))
    joined = min(settings.events, enough)
    join, cell = _joined(spark, city, pairs, joined, cores, settings, tell)
    return PipelineSizeFigures(
        size, cores, settings.events, found / settings.events, matching, parquet, join, cell,
        min(ready_s) / settings.events * 1e6, min(made_s) / len(events) * 1e6, load_s, peak,
    )  # fmt: skip


def _shards(settings: PipelineBenchSettings, step: Callable[[str], None]) -> ShardsResult:
    """Measure deciding in shards, each number of them in a session of its own; then the join."""

    def tell(what: str) -> None:
        step(f"{settings.shards_size:,} subscriptions in shards: {what}")

    tell("drawing the city")
    city = draw(settings.shards_size, settings.events, settings.seed)
    figures, pairs = measure_shards(city, settings, tell)
    per_event = len(pairs.event) / settings.sample
    enough = max(settings.sample, round(settings.join_matches / max(per_event, 0.01)))
    count, cores = min(settings.events, enough), max(settings.cores)
    with spark_session(cores, settings.memory, tell) as spark:
        join, _ = _joined(spark, city, pairs, count, cores, settings, tell)
    return ShardsResult(settings.shards_size, settings.events, WANTED_SHARE, figures, join)


def _match(matcher: Matcher, batches: Sequence[EventBatch]) -> int:
    return sum(len(matcher.match(batch).event) for batch in batches)


def _make_and_match(matcher: Matcher, events: Sequence[Event]) -> None:
    for first in range(0, len(events), MADE_BATCH):
        matcher.match(EventBatch.of(events[first : first + MADE_BATCH]))


class _Ours:
    """The pipeline's matching stage; each call uses the next slice of the log."""

    def __init__(
        self, spark: "SparkSession", data: Path, first_seq: int, events: int, cores: int
    ) -> None:
        self._spark = spark
        self._data = data
        self._next = first_seq
        self._events = events
        self._cores = cores

    def _slice(self) -> "DataFrame":
        first, self._next = self._next, self._next + self._events
        return (
            self._spark.read.format("nearcast")
            .option("path", str(self._data))
            .option("rows", "decided")
            .option("fromSeq", first)
            .option("toSeq", self._next - 1)
            .option("partitionRows", -(-self._events // self._cores))
            .load()
        )

    def warm_up(self, sample: int) -> tuple[MatchedPairs, float]:
        """Match a slice; return the pairs of its first events and the CPU seconds used."""
        before = spark_cpu(self._spark).seconds()
        first = self._next
        found = self._slice().select("seq", "recipients").toArrow()
        used = spark_cpu(self._spark).seconds() - before
        events, subscriptions = [], []
        for seq, to in zip(found["seq"].to_pylist(), found["recipients"].to_pylist(), strict=True):
            if seq - first < sample:
                for recipient in to:
                    for name in recipient["subscriptions"]:
                        events.append(seq - first)
                        subscriptions.append(int(SubscriptionId.parse(name).filter))
        return MatchedPairs(np.array(events, np.int32), np.array(subscriptions, np.int32)), used

    def match(self) -> None:
        self._slice().write.format("noop").mode("overwrite").save()

    def to_parquet(self) -> None:
        from nearcast.pipeline.tables.deliveries import deliveries

        where = str(self._data / "deliveries" / str(self._next))
        deliveries(self._slice()).write.parquet(where)


def _joined(
    spark: "SparkSession",
    city: MatchingCity,
    ours: MatchedPairs,
    count: int,
    cores: int,
    settings: PipelineBenchSettings,
    tell: Callable[[str], None],
) -> tuple[PipelineStage, float]:
    """Measure the join of the first `count` events, with the best cell size."""
    best: tuple[PipelineStage, float] | None = None
    for size in CELL_DEGREES:
        tell(f"the join, cells of {size} degrees")
        join = SparkJoin(spark, city, size, cores)
        try:
            events = join.frame(city, count).persist()
            events.count()
            check_agreement(city, "the join", join.pairs(events, settings.sample), ours)

            def match(join: SparkJoin = join, events: "DataFrame" = events) -> None:
                join.matches(events).write.format("noop").mode("overwrite").save()

            found = best_stage(spark, settings.runs, match, count)
            events.unpersist(blocking=True)
        finally:
            join.close()
        if best is None or found.events_per_cpu_s > best[0].events_per_cpu_s:
            best = found, size
    assert best is not None
    return best
