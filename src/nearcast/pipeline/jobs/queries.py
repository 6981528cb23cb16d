"""The running pipeline: three streaming queries that follow the logs of all brokers.

`tables` decides on every row as the brokers do, and publishes deliveries that brokers leave to the
pipeline; `gather` holds events until a threshold releases them together; `movement` finds
encounters and traffic. Each resumes from its checkpoint. An epoch first reaches the brokers,
exactly once, then the tables, where it replaces what an earlier attempt wrote.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.gathering import GatheringRule
from nearcast.core.gathering.grouping import PLACE
from nearcast.pipeline.decide.decisions import decided
from nearcast.pipeline.gather.aggregates import PATIENCE_S, gathered
from nearcast.pipeline.gather.gathered_events import NamedPlace
from nearcast.pipeline.jobs.query_names import GATHER, HANDED, MOVEMENT, QUERIES, STATEFUL, TABLES
from nearcast.pipeline.jobs.spark_checkpoints import epoch_rows, settle
from nearcast.pipeline.jobs.spark_session import use
from nearcast.pipeline.jobs.state_rebuild import PUBLISHED
from nearcast.pipeline.movement.movement_query import movement, publishable
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.pipeline.sink.backlog import BacklogStatus
from nearcast.pipeline.sink.broker_events import (
    AGGREGATE_ORDER,
    MOVEMENT_ORDER,
    aggregate_events,
    due_rows,
    for_all,
    movement_events,
)
from nearcast.pipeline.sink.epoch_writer import Epoch, EpochWriter, query_name
from nearcast.pipeline.sink.outbox import Outbox, close_outbox, log_timer, open_outbox
from nearcast.pipeline.sink.sink_options import BACKLOG_BYTES, WAIT, SinkOptions
from nearcast.pipeline.source.event_checks import LATENESS_S, judged
from nearcast.pipeline.source.places import places_of
from nearcast.pipeline.tables.contexts import contexts
from nearcast.pipeline.tables.deliveries import deliveries, to_send
from nearcast.pipeline.tables.events import each_once, events, rejects
from nearcast.pipeline.tables.tables import TOLD, EpochId, Tables
from nearcast.store import brokers_in, path_at
from nearcast.store.rows.row_kinds import ERASED, TICK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

    Results = tuple[dict[str, DataFrame], DataFrame]


KNOWN_S = 600.0
"""Over how long before the newest event repeats of an event are searched for."""

GATHER_IDLE_S, MOVEMENT_IDLE_S = 1.0, 30.0
"""How long a query makes no batch of rows that it does not need.

Timers run only in batches: those of `gather` should not be late; those of `movement` only close
what has already ended.
"""


DUE_STEP_S = {TABLES: 1.0, GATHER: 1.0, MOVEMENT: 10.0}
"""How exactly the time of a timer is kept: in a wait for time, timers fire this much later."""


class PipelineSettings(Struct, frozen=True, kw_only=True):
    """The settings of the pipeline, except those of Spark."""

    data: str
    storage: str = ""
    """The URL of the store that has copies of the logs; empty: there is none."""
    tables: str = ""
    """The path or URL of the tables; empty: in the data directory."""
    keep_days: Mapping[str, int] = {}
    """For how many days rows are kept, by table; a table that is not in it keeps all."""
    rules: tuple[GatheringRule, ...] = ()
    """The gathering rules; without any, nothing is gathered."""
    movement: MovementSettings | None = MovementSettings()
    """The settings of movement; None disables it."""
    lateness_s: float = LATENESS_S
    max_rows: int = 100_000
    """The most rows in a batch."""
    decide_shards: int = 1
    """The number of shards that decide, each for its own sessions."""
    tables_s: float = 0.5
    gather_s: float = 0.0
    movement_s: float = 5.0
    """The shortest interval between batches of each query."""
    wait_s: float = 2.0
    """How long an epoch waits until brokers have its rows; they then wait in the backlog."""
    backlog_bytes: int = BACKLOG_BYTES
    """The most bytes of rows that wait for one broker."""
    backlog_full: str = WAIT
    """What happens beyond that: `wait` or `drop-oldest`."""

    @property
    def location(self) -> str:
        """Where logs are read and snapshots are kept: the store, or the data directory."""
        return self.storage or self.data

    @property
    def brokers(self) -> list[str]:
        """The names of all brokers that have a log."""
        return brokers_in(path_at(self.location))


class Pipeline:
    """The streaming queries of one data directory."""

    def __init__(self, spark: "SparkSession", settings: PipelineSettings) -> None:
        self._spark = spark
        self.settings = settings
        self.tables = Tables(Path(settings.data), settings.tables)
        self.queries: dict[str, StreamingQuery] = {}
        self._writers = {name: EpochWriter(self.tables) for name in QUERIES}
        self._left: list[BacklogStatus] | None = None
        """What waited for each broker when the pipeline was stopped."""

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
        interval_s = self.interval_s(name)
        self.queries[name] = (
            stream.writeStream.queryName(name)
            .option("checkpointLocation", str(self.checkpoint(name)))
            .trigger(processingTime=f"{round(interval_s * 1000)} milliseconds")
            .foreachBatch(write)
            .start()
        )

    def interval_s(self, name: str) -> float:
        """The shortest interval between batches of a query."""
        found: float = getattr(self.settings, f"{name}_s")
        return found

    def checkpoint(self, name: str) -> Path:
        """The checkpoint directory of a query."""
        return Path(self.settings.data) / "checkpoints" / name

    def stop(self) -> None:
        """Stop all queries; an unfinished batch is done again."""
        # First, since a query may be waiting for room in a backlog.
        self._outbox.close()
        for query in self.queries.values():
            query.stop()
        self._left = self._outbox.statuses()
        close_outbox(self._backlog)

    def backlogs(self) -> list[BacklogStatus]:
        """What waits for each broker."""
        return self._outbox.statuses() if self._left is None else self._left

    def advance_time(self, name: str, query_id: str, watermark: float | None) -> bool:
        """Ask a broker to record the time, if a timer of a query waits for just that.

        `watermark` is that of the last batch. Returns whether a broker was asked.
        """
        timers, query = self._outbox.timers, f"{HANDED[name]} {query_id}"
        if name == TABLES:
            return self._advance_logs(query)
        if watermark is not None:
            timers.passed(query, watermark)
        due = timers.first(query)
        if due is None or time.time() < due + self._behind_s(name):
            return False
        self._outbox.tick()
        return True

    def _advance_logs(self, query: str) -> bool:
        """Ask each broker to record the time in whose log something waits for just that."""
        outbox, overdue = self._outbox, time.time() - self._behind_s(TABLES)
        asked = False
        for broker in self.settings.brokers:
            due = outbox.timers.first(log_timer(query, broker))
            if due is not None and due <= overdue:
                outbox.tick_of(broker)
                asked = True
        return asked

    def _behind_s(self, name: str) -> float:
        """How far the watermark of a query is behind, while others move it on, and a little."""
        if name == TABLES:
            return self.settings.tables_s + 1.0
        if name == GATHER:
            return PATIENCE_S + 1.0
        movement = self.settings.movement or MovementSettings()
        return movement.lateness_s + 2.0 * self.settings.movement_s

    @property
    def _outbox(self) -> Outbox:
        return open_outbox(SinkOptions.read(self._sink_options(TABLES)))

    def _query(self, name: str) -> "tuple[DataFrame, Callable[[DataFrame, int], None]]":
        settings = self.settings
        if name == TABLES:
            # Judged in the stream: its plan is made once, not for every batch.
            return judged(self._log().load(), settings.lateness_s), self._write_tables
        if name == GATHER:
            stream = self._log("event", "erased", TICK).option("idle_s", GATHER_IDLE_S).load()
            places = self._places()
            found = gathered(stream, settings.rules, places, lateness_s=settings.lateness_s)
            return found, self._write_aggregates
        chosen = settings.movement or MovementSettings()
        # Erased rows are included, since an erasure waits until this query has passed them.
        moved = self._log("position", "context", "forgotten", "expired", "event", "erased", TICK)
        moved = moved.option("subject", chosen.traffic.hazards).option("idle_s", MOVEMENT_IDLE_S)
        return movement(moved.load(), chosen), self._write_movement

    def _log(self, *kinds: str) -> "DataStreamReader":
        reader = (
            self._spark.readStream.format("nearcast")
            .option("path", self.settings.location)
            .option("maxRows", self.settings.max_rows)
        )
        if kinds:
            reader = reader.option("kinds", ",".join(kinds))
        return reader

    def _places(self) -> list[NamedPlace]:
        """The places defined now, if a rule uses places."""
        if not any(rule.per.kind == PLACE for rule in self.settings.rules):
            return []
        location = self.settings.location
        reader = self._spark.read.format("nearcast").option("path", location)
        return places_of(reader.option("kinds", "place").load(), location)

    # Batches

    def _write_tables(self, batch: "DataFrame", epoch: int) -> None:
        batch = batch.persist()
        published = batch.where(F.col("kind").isin("event", ERASED))
        once = each_once(published, self._known(epoch)).persist()
        kept = [once, batch]

        def results(most_copies: int | None) -> "Results":
            log = batch.drop("reject", "late")
            found = decided(
                log, self.settings.location, self.settings.decide_shards, most_copies=most_copies
            ).persist()
            kept.insert(0, found)
            tables = {
                "events": events(once),
                "rejects": rejects(once, found),
                "contexts": contexts(found),
                "deliveries": deliveries(found),
            }
            return tables, to_send(found)

        try:
            self._write(TABLES, epoch, results)
        finally:
            for each in kept:
                each.unpersist()

    def _write_aggregates(self, batch: "DataFrame", epoch: int) -> None:
        batch = batch.persist()
        try:
            found = batch.where("id IS NOT NULL").drop("due")
            outgoing = for_all(
                aggregate_events(self._new(found, GATHER, "id")), self.settings.brokers
            )
            outgoing = outgoing.unionByName(due_rows(batch), allowMissingColumns=True)
            tables = {"aggregates": found.withColumn(PUBLISHED, F.lit(True))}
            self._write(GATHER, epoch, lambda _: (tables, outgoing), AGGREGATE_ORDER)
        finally:
            batch.unpersist()

    def _write_movement(self, batch: "DataFrame", epoch: int) -> None:
        batch = batch.persist()
        try:
            found = batch.where("table IS NOT NULL")
            outgoing = movement_events(self._new(found, MOVEMENT, "key"))
            tables = {
                name: rows.withColumn(PUBLISHED, F.lit(True))
                for name, rows in rows_by_table(found).items()
            }
            outgoing = for_all(outgoing, self.settings.brokers)
            outgoing = outgoing.unionByName(due_rows(batch), allowMissingColumns=True)
            self._write(MOVEMENT, epoch, lambda _: (tables, outgoing), MOVEMENT_ORDER)
        finally:
            batch.unpersist()

    def _write(
        self,
        query: str,
        number: int,
        results: "Callable[[int | None], Results]",
        order: tuple[str, ...] = (),
    ) -> None:
        """Write an epoch; `results` makes its tables and what goes out, for a limit of copies."""

        def epoch(most_copies: int | None) -> Epoch:
            tables, outgoing = results(most_copies)
            return Epoch(number, tables, outgoing, self._sink_options(query), order)

        rows = epoch_rows(self.checkpoint(query), number)
        self._writers[query].write(epoch, rows)

    def _sink_options(self, query: str) -> dict[str, str]:
        settings = self.settings
        return {
            "path": settings.data,
            "query": HANDED[query],
            "wait_s": str(settings.wait_s),
            "backlog": self._backlog,
            "backlog_bytes": str(settings.backlog_bytes),
            "backlog_full": settings.backlog_full,
            "due_step_s": str(DUE_STEP_S[query]),
        }

    @property
    def _backlog(self) -> str:
        return str(Path(self.settings.data) / "checkpoints" / "backlog")

    def _new(self, found: "DataFrame", query: str, key: str) -> "DataFrame":
        """Return the rows that were not published before the state was rebuilt, by their key."""
        names = [f"{TOLD}/{name}" for name in STATEFUL[query]]
        until = max((self.tables.newest(name) or 0.0 for name in names), default=0.0)
        if not until:
            return found
        first = found.agg(F.min("time")).first()
        if first is None or first[0] is None or first[0] > until:
            return found
        for name in STATEFUL[query]:
            rows = self.tables.frame(self._spark, f"{TOLD}/{name}")
            if rows is not None:
                known = rows if query == GATHER else publishable(name, rows)
                found = found.join(known.select(key).distinct(), key, "left_anti")
        return found

    def _known(self, epoch: int) -> "DataFrame | None":
        """Return earlier events, among which repeats are searched for.

        A broker recognises its own repeats; others occur where an event reaches two brokers.
        """
        if len(self.settings.brokers) < 2:
            return None
        newest = self.tables.newest("events")
        if newest is None:
            return None
        this = EpochId(query_name(self._spark, HANDED[TABLES]), epoch)
        return self.tables.frame(self._spark, "events", since=newest - KNOWN_S, before=this)


def rows_by_table(moved: "DataFrame") -> "dict[str, DataFrame]":
    """Return the rows of `encounters` and `traffic` in the result of `movement`."""
    met = moved.where(F.col("table") == "encounters").select("encounter.*", "cause")
    passed = moved.where(F.col("table") == "traffic").select("traffic.*")
    return {"encounters": met, "traffic": passed}


def query_names(settings: PipelineSettings) -> list[str]:
    """Return the names of the enabled queries."""
    idle = {GATHER: not settings.rules, MOVEMENT: settings.movement is None}
    return [name for name in QUERIES if not idle.get(name)]
