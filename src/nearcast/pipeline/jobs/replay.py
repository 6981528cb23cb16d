"""Replay: rebuilds the tables from history, by the same functions that follow the log.

The new version is used only when it is complete. It ends where the running pipeline has got to, so
that the pipeline continues from there; publishing again is the operator's choice.
"""

import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.decide.decisions import decided
from nearcast.pipeline.gather.aggregates import aggregates
from nearcast.pipeline.jobs.queries import TABLES, PipelineSettings, brokers
from nearcast.pipeline.jobs.state_rebuild import GATHER, MOVEMENT, STATEFUL
from nearcast.pipeline.movement.movement_query import movement
from nearcast.pipeline.sink.broker_events import for_all
from nearcast.pipeline.sink.replay_publish import events_of_tables, publish_once, unsent
from nearcast.pipeline.source.places import places_of
from nearcast.pipeline.tables.contexts import contexts
from nearcast.pipeline.tables.deliveries import deliveries, to_send
from nearcast.pipeline.tables.events import events, judged_events, rejects
from nearcast.pipeline.tables.tables import NAMES, Tables
from nearcast.store import DELIVERY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Range(Struct, frozen=True):
    """A range of history by ingest time; without limits, all of it."""

    since: float | None = None
    until: float | None = None


def replay(
    spark: "SparkSession",
    settings: PipelineSettings,
    span: Range,
    step: Callable[[str, int, int], None],
    *,
    publish: bool = False,
) -> dict[str, int]:
    """Rebuild all tables from history; return the number of rows of each.

    `step` is called with the name of each step, its index and the number of steps.
    """
    data = Path(settings.data)
    tables = Tables(data)
    tables.begin()
    log = history(spark, settings, span).persist()
    found = decided(log, settings.data).persist()
    judged = judged_events(log, lateness_s=settings.lateness_s)
    made: dict[str, Callable[[], DataFrame]] = {
        "contexts": lambda: contexts(found),
        "deliveries": lambda: deliveries(found),
        "events": lambda: events(judged),
        "rejects": lambda: rejects(judged, found),
    }
    # A running stream publishes what it still holds: its tables are kept as they are.
    streams = {query for query in STATEFUL if committed(data / "checkpoints" / query) is not None}
    if settings.rules and GATHER not in streams:
        made["aggregates"] = lambda: aggregates(
            log, settings.rules, places_of(log), lateness_s=settings.lateness_s
        )
    if settings.movement is not None and MOVEMENT not in streams:
        moved = movement(log, settings.movement).persist()
        made["encounters"] = lambda: _of_table(moved, "encounters", "encounter")
        made["traffic"] = lambda: _of_table(moved, "traffic", "traffic")
    with tables.locked():
        kept = {name for query in streams for name in STATEFUL[query]}
        version = tables.copied(but=set(NAMES) - kept)
        try:
            for place, (name, make) in enumerate(made.items()):
                step(name, place, len(made))
                tables.write(name, make(), 0, version)
            tables.use(version)
        except BaseException:
            shutil.rmtree(version, ignore_errors=True)
            raise
    if publish:
        step("publishing", len(made), len(made))
        newest = log.agg(F.max("ingested")).first()
        _publish(spark, settings, span, found, kept, newest[0] if newest else None)
    spark.catalog.clearCache()
    return {each.name: each.rows for each in tables.statistics() if each.name in NAMES}


def _publish(
    spark: "SparkSession",
    settings: PipelineSettings,
    span: Range,
    found: "DataFrame",
    kept: Collection[str],
    newest: float | None,
) -> None:
    """Publish the results to brokers; `kept` are tables that streams have written.

    History closes everything that is open at its last row, `newest`. A stream would wait, so later
    rows are not published.
    """
    reader = spark.read.format("nearcast").option("path", settings.data)
    if span.since is not None:
        reader = reader.option("since", span.since)
    # Also deliveries sent later: the range limits events, not their deliveries.
    sent = reader.option("kinds", DELIVERY).load()
    publish_once(unsent(to_send(found), sent), settings.data, "deliveries")
    tables = Tables(Path(settings.data))
    stateful = {name for each in STATEFUL.values() for name in each if tables.has(name)}
    rows = {name: spark.read.parquet(str(tables.path(name))) for name in sorted(stateful)}
    names = brokers(Path(settings.data))
    for name, each in events_of_tables(rows, kept, span.since, span.until).items():
        done = each.where(F.col("time") <= F.lit(newest))
        publish_once(for_all(done, names), settings.data, name)


def history(spark: "SparkSession", settings: PipelineSettings, span: Range) -> "DataFrame":
    """Return the log of a range, up to the offset of the running pipeline if it ever ran."""
    reader = spark.read.format("nearcast").option("path", settings.data)
    if span.since is not None:
        reader = reader.option("since", span.since)
    if span.until is not None:
        reader = reader.option("until", span.until)
    log = reader.load()
    reached = committed(Path(settings.data) / "checkpoints" / TABLES)
    if reached is None:
        return log
    within = F.lit(False)
    for broker in brokers(Path(settings.data)):
        within |= (F.col("broker") == broker) & (F.col("seq") < reached.get(broker, 1))
    return log.where(within)


def committed(checkpoint: Path) -> dict[str, int] | None:
    """Return a query's committed offset: each broker's next seq; None if there is none.

    Reads the files of a Spark checkpoint: `commits/N` exists once `offsets/N` is done.
    """
    done = [int(path.name) for path in _files(checkpoint / "commits")]
    if not done:
        return None
    lines = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()
    offset: dict[str, int] = json.loads(lines[-1])
    return offset


def _files(directory: Path) -> list[Path]:
    if not directory.exists():
        return []
    return [path for path in directory.iterdir() if path.name.isdecimal()]


def _of_table(moved: "DataFrame", table: str, column: str) -> "DataFrame":
    return moved.where(F.col("table") == table).select(f"{column}.*")
