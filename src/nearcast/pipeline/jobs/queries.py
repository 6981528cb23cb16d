"""The running pipeline: three streaming queries that follow the logs of all brokers.

`tables` decides on every row as the brokers do, and publishes deliveries that brokers leave to the
pipeline; `gather` holds events until a threshold releases them together; `movement` finds
encounters and traffic. Each resumes from its checkpoint. An epoch first reaches the brokers,
exactly once, then the tables, where it replaces what an earlier attempt wrote.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.gathering import GatheringRule
from nearcast.core.gathering.grouping import PLACE
from nearcast.pipeline.decide.decisions import decided
from nearcast.pipeline.gather.aggregates import aggregates
from nearcast.pipeline.gather.gathered_events import NamedPlace
from nearcast.pipeline.jobs.moved_checkpoints import settle
from nearcast.pipeline.jobs.spark_session import use
from nearcast.pipeline.jobs.state_rebuild import GATHER, MOVEMENT, published_until
from nearcast.pipeline.movement.movement_query import movement
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.pipeline.sink.broker_events import (
    AGGREGATE_ORDER,
    MOVEMENT_ORDER,
    aggregate_events,
    for_all,
    movement_events,
)
from nearcast.pipeline.sink.epoch_writer import Epoch, rows_of_epoch, write
from nearcast.pipeline.source.event_checks import LATENESS_S, judged
from nearcast.pipeline.source.places import places_of
from nearcast.pipeline.tables.contexts import contexts
from nearcast.pipeline.tables.deliveries import deliveries, to_send
from nearcast.pipeline.tables.events import each_once, events, rejects
from nearcast.pipeline.tables.tables import Tables
from nearcast.store.rows.row_kinds import ERASED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader


TABLES = "tables"
QUERIES = (TABLES, GATHER, MOVEMENT)
HANDED = {TABLES: "deliveries", GATHER: "aggregates", MOVEMENT: "movement"}
"""The names of the queries at brokers."""
KNOWN_EPOCHS = 256
"""The number of earlier epochs that are searched for repeats of an event."""

GATHER_IDLE_S, MOVEMENT_IDLE_S = 1.0, 30.0
"""How long a query makes no batch of rows that it does not need.

Timers run only in batches: those of `gather` should not be late; those of `movement` only close
what has already ended.
"""


class PipelineSettings(Struct, frozen=True, kw_only=True):
    """The settings of the pipeline, except those of Spark."""

    data: str
    rules: tuple[GatheringRule, ...] = ()
    """The gathering rules; without any, nothing is gathered."""
    movement: MovementSettings | None = MovementSettings()
    """The settings of movement; None disables it."""
    lateness_s: float = LATENESS_S
    max_rows: int = 100_000
    """The most rows in a batch."""
    tables_s: float = 0.5
    gather_s: float = 0.0
    movement_s: float = 5.0
    """The shortest interval between batches of each query."""
    wait_s: float = 30.0
    """How long to wait for an unreachable broker before the epoch is retried."""


class Pipeline:
    """The streaming queries of one data directory."""

    def __init__(self, spark: "SparkSession", settings: PipelineSettings) -> None:
        self._spark = spark
        self.settings = settings
        self.tables = Tables(Path(settings.data))
        self.queries: dict[str, StreamingQuery] = {}

    @property
    def names(self) -> list[str]:
        """The enabled queries."""
        return query_names(self.settings)

    def start_query(self, name: str) -> None:
        """Start one query from its checkpoint."""
        use(self._spark, name)
        settle(self.checkpoint(name))
        stream, write = self._query(name)
        # Time advances by ingest: a batch without rows would only delay the next.
        self._spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        # An epoch is one job, not one for each stage of a plan that could be adapted.
        self._spark.conf.set("spark.sql.adaptive.enabled", "false")
        interval_s: float = getattr(self.settings, f"{name}_s")
        self.queries[name] = (
            stream.writeStream.queryName(name)
            .option("checkpointLocation", str(self.checkpoint(name)))
            .trigger(processingTime=f"{round(interval_s * 1000)} milliseconds")
            .foreachBatch(write)
            .start()
        )

    def checkpoint(self, name: str) -> Path:
        """The checkpoint directory of a query."""
        return Path(self.settings.data) / "checkpoints" / name

    def stop(self) -> None:
        """Stop all queries; an unfinished batch is done again."""
        for query in self.queries.values():
            query.stop()

    def _query(self, name: str) -> "tuple[DataFrame, Callable[[DataFrame, int], None]]":
        settings = self.settings
        if name == TABLES:
            # Judged in the stream: its plan is made once, not for every batch.
            return judged(self._log().load(), settings.lateness_s), self._write_tables
        if name == GATHER:
            stream = self._log("event", "erased").option("idle_s", GATHER_IDLE_S).load()
            places = self._places()
            found = aggregates(stream, settings.rules, places, lateness_s=settings.lateness_s)
            return found, self._write_aggregates
        chosen = settings.movement or MovementSettings()
        # Erased rows are included, since an erasure waits until this query has passed them.
        moved = self._log("position", "context", "forgotten", "event", "erased")
        moved = moved.option("subject", chosen.traffic.hazards).option("idle_s", MOVEMENT_IDLE_S)
        return movement(moved.load(), chosen), self._write_movement

    def _log(self, *kinds: str) -> "DataStreamReader":
        reader = (
            self._spark.readStream.format("nearcast")
            .option("path", self.settings.data)
            .option("maxRows", self.settings.max_rows)
        )
        if kinds:
            reader = reader.option("kinds", ",".join(kinds))
        return reader

    def _places(self) -> list[NamedPlace]:
        """The places defined now, if a rule uses places."""
        if not any(rule.per.kind == PLACE for rule in self.settings.rules):
            return []
        reader = self._spark.read.format("nearcast").option("path", self.settings.data)
        return places_of(reader.option("kinds", "place").load())

    # Batches

    def _write_tables(self, batch: "DataFrame", epoch: int) -> None:
        batch = batch.persist()
        found = decided(batch.drop("reject", "late"), self.settings.data).persist()
        published = batch.where(F.col("kind").isin("event", ERASED))
        once = each_once(published, self._known(epoch)).persist()
        try:
            tables = {
                "events": events(once),
                "rejects": rejects(once, found),
                "contexts": contexts(found),
                "deliveries": deliveries(found),
            }
            self._write(TABLES, epoch, tables, to_send(found))
        finally:
            for each in (once, found, batch):
                each.unpersist()

    def _write_aggregates(self, batch: "DataFrame", epoch: int) -> None:
        batch = batch.persist()
        try:
            outgoing = aggregate_events(self._new(batch, GATHER))
            outgoing = for_all(outgoing, self._brokers)
            self._write(GATHER, epoch, {"aggregates": batch}, outgoing, AGGREGATE_ORDER)
        finally:
            batch.unpersist()

    def _write_movement(self, batch: "DataFrame", epoch: int) -> None:
        batch = batch.persist()
        try:
            outgoing = movement_events(self._new(batch, MOVEMENT))
            met = batch.where(F.col("table") == "encounters").select("encounter.*")
            passed = batch.where(F.col("table") == "traffic").select("traffic.*")
            tables = {"encounters": met, "traffic": passed}
            outgoing = for_all(outgoing, self._brokers)
            self._write(MOVEMENT, epoch, tables, outgoing, MOVEMENT_ORDER)
        finally:
            batch.unpersist()

    def _write(
        self,
        query: str,
        number: int,
        tables: "dict[str, DataFrame]",
        outgoing: "DataFrame",
        order: tuple[str, ...] = (),
    ) -> None:
        settings = self.settings
        options = {"path": settings.data, "query": HANDED[query], "wait_s": str(settings.wait_s)}
        rows = rows_of_epoch(self.checkpoint(query), number)
        write(self.tables, Epoch(number, tables, outgoing, options, order), rows)

    def _new(self, found: "DataFrame", query: str) -> "DataFrame":
        """Return the rows that were not published before the state was rebuilt."""
        until = published_until(Path(self.settings.data)).get(query)
        return found if until is None else found.where(F.col("time") > until)

    @property
    def _brokers(self) -> list[str]:
        return brokers(Path(self.settings.data))

    def _known(self, epoch: int) -> "DataFrame | None":
        """Return earlier events, among which repeats are searched for.

        A broker recognises its own repeats; others occur where an event reaches two brokers.
        """
        if len(self._brokers) < 2:
            return None
        recent = self.tables.recent("events", epoch, KNOWN_EPOCHS)
        return self._spark.read.parquet(*map(str, recent)) if recent else None


def query_names(settings: PipelineSettings) -> list[str]:
    """Return the names of the enabled queries."""
    idle = {GATHER: not settings.rules, MOVEMENT: settings.movement is None}
    return [name for name in QUERIES if not idle.get(name)]


def brokers(data: Path) -> list[str]:
    """Return the names of all brokers that have a log."""
    found: Iterable[Path] = (data / "brokers").glob("*/log")
    return sorted(path.parent.name for path in found)
