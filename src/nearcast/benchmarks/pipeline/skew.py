"""Hot cells: the skew of task durations when most nodes are in one square kilometre.

People walk in a city, most of them in its middle, and publish positions, which the movement query
processes. The deciding stage processes the events of a city with hot spots. Task durations come
from Spark's status store. The first task of a Python process also starts that process, so the
first batch or run is not counted.
"""

import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from nearcast.benchmarks.matching.benchmark import draw
from nearcast.benchmarks.pipeline.city import standing_player, write_city
from nearcast.store import Row, RowBuffer, broker_directory
from nearcast.store.log.manifest import Manifest, Whole
from nearcast.store.log.segments import write_segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WANTED_SKEW = 3.0
"""Target: maximum duration of the slowest task of a stage as a multiple of the median."""
TASKS = 8
MIDDLE = 53.35, -6.26
METRES_PER_DEGREE = 111_195.0
STARTED = 1_700_000_000.0
STEP_S = 10.0
WALK_MPS = 1.5
TRACKS, CELLS, DECIDED = "tracks by node", "encounters and traffic", "deciding"


class SkewSettings(Struct, frozen=True):
    """Settings of the skew measurement."""

    nodes: int = 6_000
    hot: float = 0.6
    """Share of the nodes in one square kilometre."""
    width_m: float = 20_000.0
    """Side of the square that holds the other nodes."""
    steps: int = 16
    """Positions per node."""
    batches: int = 4
    subscriptions: int = 100_000
    events: int = 80_000
    seed: int = 1


def skewed(events: int) -> SkewSettings:
    """Return the settings for a benchmark with this many events; a smaller city for few."""
    settings = SkewSettings()
    if events >= settings.events:
        return settings
    return replace(settings, nodes=400, steps=6, batches=3, subscriptions=1_000, events=events)


class StageSkew(Struct, frozen=True):
    """The tasks of one stage, in the counted batch with the greatest skew."""

    stage: str
    tasks: int
    slowest_s: float
    median_s: float
    most_records: int
    median_records: float

    @property
    def ratio(self) -> float:
        """Duration of the slowest task as a multiple of the median."""
        return self.slowest_s / self.median_s


class SkewFigures(Struct, frozen=True):
    """The skew of all stages."""

    settings: SkewSettings
    wanted: float
    stages: list[StageSkew]


def measure_skew(
    spark: "SparkSession", settings: SkewSettings, step: Callable[[str], None]
) -> SkewFigures:
    """Measure the skew in a session with `TASKS` shuffle partitions."""
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as directory:
        data = Path(directory)
        step("hot cells: movement")
        moved = _moved(spark, data / "walkers", settings)
        step("hot cells: deciding")
        decided = _decided(spark, data / "city", settings, step)
    return SkewFigures(settings, WANTED_SKEW, [*moved, decided])


# Movement


class Walkers:
    """A random walk of people in a city, most of them in its middle."""

    def __init__(self, settings: SkewSettings) -> None:
        self._random = np.random.default_rng(settings.seed)
        count = settings.nodes
        self._hot = self._random.random(count) < settings.hot
        self._reach_m = np.where(self._hot, 500.0, settings.width_m / 2.0)
        self._at = self._random.uniform(-1.0, 1.0, (2, count)) * self._reach_m
        self._towards = self._random.uniform(0.0, 2.0 * math.pi, count)

    def places(self) -> tuple[list[float], list[float]]:
        """Return all positions as latitudes and longitudes."""
        lat = MIDDLE[0] + self._at[1] / METRES_PER_DEGREE
        lon = MIDDLE[1] + self._at[0] / METRES_PER_DEGREE / math.cos(math.radians(MIDDLE[0]))
        return lat.tolist(), lon.tolist()

    def walk(self) -> None:
        """Advance all by one step; positions are clipped to each person's area."""
        self._towards += self._random.normal(0.0, 0.3, len(self._towards))
        step = np.array([np.cos(self._towards), np.sin(self._towards)]) * WALK_MPS * STEP_S
        self._at = np.clip(self._at + step, -self._reach_m, self._reach_m)


def walked(settings: SkewSettings) -> Iterator[list[Row]]:
    """Yield the position rows of a log, one list for each step."""
    walkers = Walkers(settings)
    seq = 0
    for number in range(settings.steps):
        rows = []
        for node, (lat, lon) in enumerate(zip(*walkers.places(), strict=True)):
            seq += 1
            now = STARTED + number * STEP_S + node * STEP_S / settings.nodes
            rows.append(Row("city", seq, "position", now, lat=lat, lon=lon, node=f"n{node}"))
        yield rows
        walkers.walk()


def _moved(spark: "SparkSession", data: Path, settings: SkewSettings) -> list[StageSkew]:
    from nearcast.pipeline.movement.movement_query import movement

    log = broker_directory(data, "city") / "log"
    log.mkdir(parents=True)
    manifest = Manifest(log, Whole("city"))
    manifest.save()
    for rows in walked(settings):
        manifest.append(write_segment(log, manifest.next_number, RowBuffer.of(rows)))
    per_batch = settings.nodes * settings.steps // settings.batches
    source = spark.readStream.format("nearcast").option("path", str(data))
    stream = source.option("maxRows", per_batch).load()
    query = (
        movement(stream)
        .writeStream.foreachBatch(_away)
        .option("checkpointLocation", str(data / "checkpoint"))
        .trigger(availableNow=True)
    )
    since = _last_stage(spark)
    query.start().awaitTermination()
    # Batches without rows only advance time.
    stages = [
        stage
        for stage in _stages(spark, since)
        if len(stage.tasks) == TASKS and any(task.records for task in stage.tasks)
    ]
    # Without the first batch, in which processes start and all nodes are new.
    return [
        _most_uneven(name, [stage for stage in stages if stage.writes == writes][1:])
        for name, writes in ((TRACKS, True), (CELLS, False))
    ]


def _away(batch: "DataFrame", epoch: int) -> None:
    batch.write.format("noop").mode("overwrite").save()


# Deciding


def _decided(
    spark: "SparkSession", data: Path, settings: SkewSettings, step: Callable[[str], None]
) -> StageSkew:
    city = draw(settings.subscriptions, settings.events, settings.seed)
    player = standing_player(city, step)
    write_city(data, city, player, 3)
    found: list[_Stage] = []
    for number in range(3):
        since = _last_stage(spark)
        first = player.seq + 1 + number * settings.events
        log = spark.read.format("nearcast").option("path", str(data)).option("rows", "decided")
        (
            log.option("fromSeq", first)
            .option("toSeq", first + settings.events - 1)
            .option("partitionRows", -(-settings.events // TASKS))
            .load()
            .write.format("noop")
            .mode("overwrite")
            .save()
        )
        # Without the first run, in which processes load their snapshots.
        found += _stages(spark, since) if number else []
    return _most_uneven(DECIDED, found)


# Task metrics from Spark


class _Task(Struct, frozen=True):
    seconds: float
    records: int


class _Stage(Struct, frozen=True):
    number: int
    writes: bool
    """True if the stage writes shuffle output."""
    tasks: list[_Task]


def _most_uneven(name: str, stages: Sequence[_Stage]) -> StageSkew:
    def skew(stage: _Stage) -> StageSkew:
        seconds = [task.seconds for task in stage.tasks]
        records = [task.records for task in stage.tasks]
        return StageSkew(
            name, len(seconds), max(seconds), statistics.median(seconds),
            max(records), statistics.median(records),
        )  # fmt: skip

    return max(map(skew, stages), key=lambda each: each.ratio)


def _last_stage(spark: "SparkSession") -> int:
    return max((number for number, _ in _known(spark)), default=-1)


def _known(spark: "SparkSession") -> Iterator[tuple[int, Any]]:
    """Yield the stages in Spark's status store, with their ids."""
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    store = context._jsc.sc().statusStore()
    gateway = context._gateway
    assert gateway is not None
    none = gateway.new_array(gateway.jvm.double, 0)
    nothing = gateway.jvm.java.util.ArrayList()
    found = store.stageList(nothing, False, False, none, nothing)
    for place in range(found.size()):
        stage = found.apply(place)
        yield stage.stageId(), stage


def _stages(spark: "SparkSession", since: int) -> list[_Stage]:
    """Return the completed stages with ids above `since`, in order of their ids."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = []
    for number, stage in sorted(_known(spark), key=lambda each: each[0]):
        if number <= since or stage.status().toString() != "COMPLETE":
            continue
        every = store.taskList(number, stage.attemptId(), 1_000)
        tasks = [_task(every.apply(place)) for place in range(every.size())]
        found.append(_Stage(number, stage.shuffleWriteRecords() > 0, tasks))
    return found


def _task(task: Any) -> _Task:  # noqa: ANN401
    told = task.taskMetrics().get()
    records = told.shuffleReadMetrics().recordsRead() + told.inputMetrics().recordsRead()
    return _Task(told.executorRunTime() / 1000.0, records)
