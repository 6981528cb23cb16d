"""Replay: makes the tables anew from history, by the same functions that follow the log.

All new files are written before any table is changed; each table then changes in one transaction.
A replay ends where the pipeline has got to, so that it continues from there. A range replaces the
rows of that range. Publishing again is the operator's choice.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.decide.decisions import decided
from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.gather.aggregates import aggregates
from nearcast.pipeline.jobs.queries import PipelineSettings, rows_by_table
from nearcast.pipeline.jobs.query_names import (
    GATHER,
    HANDED,
    MOVEMENT,
    STATEFUL,
    TABLES,
    TABLES_OF,
)
from nearcast.pipeline.jobs.spark_checkpoints import Offset, committed, epoch_end, query_id
from nearcast.pipeline.jobs.state_rebuild import PUBLISHED
from nearcast.pipeline.movement.movement_query import movement
from nearcast.pipeline.sink.broker_events import for_all
from nearcast.pipeline.sink.replay_publish import events_of_tables, publish_once, unsent
from nearcast.pipeline.source.places import places_of
from nearcast.pipeline.tables.contexts import contexts
from nearcast.pipeline.tables.data_files import DataFile, DayWriter, read_files
from nearcast.pipeline.tables.deliveries import deliveries, to_send
from nearcast.pipeline.tables.events import events, judged_events, rejects
from nearcast.pipeline.tables.tables import NAMES, EpochId, StoredFile, Tables, time_column
from nearcast.store import DELIVERY, log_directory, path_at, read_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step = Callable[[str, int, int], None]
"""Called with the name of each step, its index and the number of steps."""


class Range(Struct, frozen=True):
    """A range of history by ingest time; without limits, all of it."""

    since: float | None = None
    until: float | None = None

    @property
    def is_all(self) -> bool:
        """True if it has no limits."""
        return self.since is None and self.until is None

    def has(self, file: StoredFile) -> bool:
        """True if a row of a file may be in the range."""
        if file.low is None or file.high is None:
            return self.is_all
        return (self.until is None or file.low < self.until) and (
            self.since is None or file.high >= self.since
        )

    def has_all(self, file: StoredFile) -> bool:
        """True if all rows of a file are in the range."""
        if file.low is None or file.high is None:
            return self.is_all
        return (self.until is None or file.high < self.until) and (
            self.since is None or file.low >= self.since
        )


class WouldLoseError(PipelineError):
    """A replay would remove rows that the log cannot give again."""


def replay(
    spark: "SparkSession",
    settings: PipelineSettings,
    span: Range,
    step: Step,
    *,
    publish: bool = False,
    force: bool = False,
) -> dict[str, int]:
    """Make all tables anew from history; return the number of rows of each.

    Raises `WouldLoseError` if rows would be lost for good, unless it is forced.
    """
    data = Path(settings.data)
    tables = Tables(data, settings.tables)
    reached = _reached(tables, data)
    log = history(spark, settings, span, reached).persist()
    shards = settings.decide_shards
    found = decided(log, settings.location, shards, since=span.since, until=span.until).persist()
    made = _tables_of(log, found, settings, tables, publish)
    if not force:
        check_loss(tables, settings, span, list(made))
    new = {}
    with tables.writing():
        for place, (name, make) in enumerate(made.items()):
            step(name, place, len(made))
            new[name] = tables.write(name, make(), "replay")
        for name, files in new.items():
            _replace(tables, name, files, span, reached)
    if publish:
        step("publishing", len(made), len(made))
        newest = log.agg(F.max("ingested")).first()
        kept = set(NAMES) - set(made)
        _publish(spark, settings, span, found, kept, newest[0] if newest else None)
    spark.catalog.clearCache()
    return {each.name: each.rows for each in tables.statistics()}


def _tables_of(
    log: "DataFrame",
    found: "DataFrame",
    settings: PipelineSettings,
    tables: Tables,
    publish: bool,
) -> "dict[str, Callable[[], DataFrame]]":
    """Return the tables that a replay makes, each as a function."""
    judged = judged_events(log, lateness_s=settings.lateness_s)
    made: dict[str, Callable[[], DataFrame]] = {
        "contexts": lambda: contexts(found),
        "deliveries": lambda: deliveries(found),
        "events": lambda: events(judged),
        "rejects": lambda: rejects(judged, found),
    }
    # A stream publishes what it still holds: its tables are kept as they are.
    checkpoints = Path(settings.data) / "checkpoints"
    streams = {query for query in STATEFUL if committed(checkpoints / query) is not None}
    if settings.rules and GATHER not in streams:
        places = places_of(log, settings.location)
        made["aggregates"] = lambda: _with_published(
            tables,
            "aggregates",
            aggregates(log, settings.rules, places, lateness_s=settings.lateness_s),
            publish,
        )
    if settings.movement is not None and MOVEMENT not in streams:
        moved = rows_by_table(movement(log, settings.movement).persist())
        for name, rows in moved.items():
            made[name] = lambda name=name, rows=rows: _with_published(  # type: ignore[misc]
                tables, name, rows, publish
            )
    return made


def _with_published(tables: Tables, name: str, rows: "DataFrame", publish: bool) -> "DataFrame":
    """Return rows with the column that tells if they were published, known by their keys."""
    if publish:
        return rows.withColumn(PUBLISHED, F.lit(True))
    before = tables.frame(rows.sparkSession, name)
    if before is None:
        return rows.withColumn(PUBLISHED, F.lit(False))
    if PUBLISHED in before.columns:
        before = before.where(F.coalesce(PUBLISHED, F.lit(True)))
    key = ["rule", "group", "id"] if name == "aggregates" else _KEYS[name]
    known = before.select(*key).distinct().withColumn("known", F.lit(True))
    same = [rows[each].eqNullSafe(known[each]) for each in key]
    joined = rows.join(known, same, "left")
    return joined.select(
        *(rows[each] for each in rows.columns), F.coalesce("known", F.lit(False)).alias(PUBLISHED)
    )


_KEYS = {
    "encounters": ["relationship", "a", "b", "state", "time"],
    "traffic": ["cell", "start"],
}
"""The columns that the ids of events are made of."""


# What is replaced


def check_loss(tables: Tables, settings: PipelineSettings, span: Range, names: list[str]) -> None:
    """Raise `WouldLoseError` if a replay would remove rows whose part of the log is gone."""
    begins = _whole_since(settings)
    if begins is None:
        return
    lost = {name: _rows_before(tables, name, span, begins) for name in names}
    lost = {name: rows for name, rows in lost.items() if rows}
    if not lost:
        return
    when = datetime.fromtimestamp(begins, UTC).isoformat(timespec="milliseconds")
    what = ", ".join(f"{rows:,} of {name}" for name, rows in lost.items())
    raise WouldLoseError(
        f"the log begins at {when}, what was before it is dropped, and the tables have older "
        f"rows: {what} would be lost. Replay what there is with --since {when}, or give them up "
        "with --force"
    )


def _whole_since(settings: PipelineSettings) -> float | None:
    """The time since which all logs have all rows; None if they have all from the first on."""
    begins: float | None = None
    for broker in settings.brokers:
        manifest = read_manifest(log_directory(path_at(settings.location), broker))
        if manifest.segments and manifest.segments[0].first_seq > 1:
            begins = max(begins or 0.0, manifest.segments[0].first_ingested)
    return begins


def _rows_before(tables: Tables, name: str, span: Range, begins: float) -> int:
    """The number of rows of a table in a range before a time."""
    lost = Range(span.since, begins if span.until is None else min(begins, span.until))
    if lost.since is not None and lost.since >= begins:
        return 0
    column = time_column(name)
    schema = pa.schema([(column, pa.float64())])
    count = 0
    for file in tables.files(name):
        if lost.has_all(file):
            count += file.rows
        elif lost.has(file):
            for rows in read_files(tables.uri(name), [file.path], schema):
                count += int(_within(rows, column, lost).sum())
    return count


def _replace(
    tables: Tables, name: str, new: list[DataFile], span: Range, reached: "_Reached"
) -> None:
    """Put files in place of the rows of a range, in one transaction."""
    removed = [each for each in tables.files(name) if span.has(each)]
    schema = tables.schema(name)
    assert schema is not None
    writer = DayWriter(tables.uri(name), schema, time_column(name), "replay")
    for file in removed:
        if not span.has_all(file):
            for rows in read_files(tables.uri(name), [file.path], schema):
                outside = ~_within(rows, time_column(name), span)
                writer.write(rows.filter(pa.array(outside)))
    tables.commit(name, [*new, *writer.close()], removed, reached.written.get(name))


def _within(
    rows: pa.Table, column: str, span: Range
) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    times = rows[column].to_numpy()
    found = np.ones(len(times), np.bool_)
    if span.since is not None:
        found &= times >= span.since
    if span.until is not None:
        found &= times < span.until
    return found


# How far


class _Reached(Struct, frozen=True):
    """How far the pipeline has got: the end of the replay."""

    offset: Offset | None = None
    written: dict[str, EpochId] = {}
    """The epoch that the replay includes, by table."""


def _reached(tables: Tables, data: Path) -> _Reached:
    """Return the end of the last epoch that any table has, or that was committed.

    A pipeline that was killed may have written an epoch to some of its tables. The replay includes
    that epoch and records it in all of them, so that no table gets it again or never.
    """
    checkpoint = data / "checkpoints" / TABLES
    offset, number = committed(checkpoint), query_id(checkpoint)
    if number is None:
        return _Reached(offset)
    query = f"{HANDED[TABLES]} {number}"
    names = TABLES_OF[TABLES]
    epochs = [each for each in (tables.written(name, query) for name in names) if each is not None]
    if not epochs:
        return _Reached(offset)
    end = epoch_end(checkpoint, max(epochs))
    if end is None:
        return _Reached(offset)
    later = offset is None or any(end.get(each, 1) > seq for each, seq in offset.items())
    return _Reached(end if later else offset, dict.fromkeys(names, EpochId(query, max(epochs))))


def history(
    spark: "SparkSession", settings: PipelineSettings, span: Range, reached: _Reached
) -> "DataFrame":
    """Return the log of a range, up to the offset of the pipeline if it ever ran."""
    reader = spark.read.format("nearcast").option("path", settings.location)
    if span.since is not None:
        reader = reader.option("since", span.since)
    if span.until is not None:
        reader = reader.option("until", span.until)
    log = reader.load()
    if reached.offset is None:
        return log
    within = F.lit(False)
    for broker in settings.brokers:
        within |= (F.col("broker") == broker) & (F.col("seq") < reached.offset.get(broker, 1))
    return log.where(within)


def _publish(
    spark: "SparkSession",
    settings: PipelineSettings,
    span: Range,
    found: "DataFrame",
    kept: set[str],
    newest: float | None,
) -> None:
    """Publish the results to brokers; `kept` are tables that streams have written.

    History closes everything that is open at its last row, `newest`. A stream would wait, so later
    rows are not published.
    """
    reader = spark.read.format("nearcast").option("path", settings.location)
    if span.since is not None:
        reader = reader.option("since", span.since)
    # Also deliveries sent later: the range limits events, not their deliveries.
    sent = reader.option("kinds", DELIVERY).load()
    publish_once(unsent(to_send(found), sent), settings.data, "deliveries")
    tables = Tables(Path(settings.data), settings.tables)
    rows: dict[str, DataFrame] = {}
    for name in sorted(name for each in STATEFUL.values() for name in each):
        frame = tables.frame(spark, name)
        if frame is not None:
            rows[name] = frame
    names = settings.brokers
    for name, each in events_of_tables(rows, kept, span.since, span.until).items():
        done = each.where(F.col("time") <= F.lit(newest))
        publish_once(for_all(done, names), settings.data, name)
