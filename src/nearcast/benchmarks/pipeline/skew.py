"""Hot cells: whether one task waits for another when most of a city is in one square kilometre.

People walk about a city, most of them in its middle, and publish where they are. The stream of
movement follows them, and the stage that decides goes through the events of a city with hot
spots. How long each task took is Spark's own word, from its status store. A task that is first
in its Python process pays for starting it, so what comes first is done once before.
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
"""Our aim: the slowest task of a stage takes at most so many times the median."""
TASKS = 8
MIDDLE = 53.35, -6.26
METRES_PER_DEGREE = 111_195.0
STARTED = 1_700_000_000.0
STEP_S = 10.0
WALK_MPS = 1.5
TRACKS, CELLS, DECIDED = "tracks by node", "encounters and traffic", "deciding"


class SkewSettings(Struct, frozen=True):
    """The city."""

    nodes: int = 6_000
    hot: float = 0.6
    """This share of all is in one square kilometre."""
    width_m: float = 20_000.0
    """The others are in a square so wide."""
    steps: int = 16
    """How often each says where it is."""
    batches: int = 4
    subscriptions: int = 100_000
    events: int = 80_000
    seed: int = 1


def skewed(events: int) -> SkewSettings:
    """Return a city for a benchmark of so many events: a smaller one for few."""
    settings = SkewSettings()
    if events >= settings.events:
        return settings
    return replace(settings, nodes=400, steps=6, batches=3, subscriptions=1_000, events=events)


class StageSkew(Struct, frozen=True):
    """The tasks of one stage, of the batch that was most uneven among those that count."""

    stage: str
    tasks: int
    slowest_s: float
    median_s: float
    most_records: int
    median_records: float

    @property
    def ratio(self) -> float:
        """How many times the median the slowest task takes."""
        return self.slowest_s / self.median_s


class SkewFigures(Struct, frozen=True):
    """All stages."""

    settings: SkewSettings
    wanted: float
    stages: list[StageSkew]


def measure_skew(
    spark: "SparkSession", settings: SkewSettings, step: Callable[[str], None]
) -> SkewFigures:
    """Measure in a session whose shuffles have `TASKS` parts."""
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as directory:
        data = Path(directory)
        step("hot cells: movement")
        moved = _moved(spark, data / "walkers", settings)
        step("hot cells: deciding")
        decided = _decided(spark, data / "city", settings, step)
    return SkewFigures(settings, WANTED_SKEW, [*moved, decided])


# Movement


class Walkers:
    """People in a city, most of them in its middle, who walk and turn."""

    def __init__(self, settings: SkewSettings) -> None:
        self._random = np.random.default_rng(settings.seed)
        count = settings.nodes
        self._hot = self._random.random(count) < settings.hot
        self._reach_m = np.where(self._hot, 500.0, settings.width_m / 2.0)
        self._at = self._random.uniform(-1.0, 1.0, (2, count)) * self._reach_m
        self._towards = self._random.uniform(0.0, 2.0 * math.pi, count)

    def places(self) -> tuple[list[float], list[float]]:
        """Return where everyone is, as latitudes and longitudes."""
        lat = MIDDLE[0] + self._at[1] / METRES_PER_DEGREE
        lon = MIDDLE[1] + self._at[0] / METRES_PER_DEGREE / math.cos(math.radians(MIDDLE[0]))
        return lat.tolist(), lon.tolist()

    def walk(self) -> None:
        """Go on; who comes to the edge of where they stay turns round."""
        self._towards += self._random.normal(0.0, 0.3, len(self._towards))
        step = np.array([np.cos(self._towards), np.sin(self._towards)]) * WALK_MPS * STEP_S
        self._at = np.clip(self._at + step, -self._reach_m, self._reach_m)


def walked(settings: SkewSettings) -> Iterator[list[Row]]:
    """Yield the rows of a log of everyone's walk, a step of all at a time."""
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
    # Batches without rows let only time pass.
    stages = [
        stage
        for stage in _stages(spark, since)
        if len(stage.tasks) == TASKS and any(task.records for task in stage.tasks)
    ]
    # In the first batch processes start, and everyone is new.
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
        # In the first run processes load their snapshots.
        found += _stages(spark, since) if number else []
    return _most_uneven(DECIDED, found)


# What Spark says


class _Task(Struct, frozen=True):
    seconds: float
    records: int


class _Stage(Struct, frozen=True):
    number: int
    writes: bool
    """Whether another stage reads what it makes."""
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
    """Yield the stages that Spark remembers."""
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
    """Return the stages that were done after one, the first one first."""
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
