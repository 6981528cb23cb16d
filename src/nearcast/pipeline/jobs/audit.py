"""The audit: compares the deliveries that follow from each broker's log with those it recorded.

Both sides have one row for each copy of an event: broker, event, session, subscriptions and
priority. A copy that only one side has is a difference. A notice, the state of a relationship or of
a watched area, counts as a copy: its topic is the session, its state and time are the event.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.decide.decisions import DELIVERY, NOTICE, RECIPIENT, UNUSABLE, decided
from nearcast.store import DELIVERY as RECORDED
from nearcast.store import NOTICE as RECORDED_NOTICE
from nearcast.store import recipients_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MISSING, EXTRA, PRIORITY, WAITING = "missing", "extra", "priority", "waiting"
"""The kinds of differences.

A copy that was not delivered, one that was delivered and should not have been, one at another
priority, and one that the pipeline has decided on and its broker has yet to send.
"""
WAITING_S = 60.0
MOST_SHOWN = 1_000
COPY = ("broker", "publisher", "event_id", "session", "subscriptions", "replayed")
SIDE = (*COPY, "priority")
_RECORDED_SCHEMA = (
    "broker string, publisher string, event_id string, recipients array<struct<session: string, "
    "subscriptions: array<string>, priority: int, replayed: boolean>>"
)


class Difference(Struct, frozen=True):
    """A copy that differs between the two sides."""

    what: str
    broker: str
    publisher: str
    event: str
    session: str
    subscriptions: tuple[str, ...]
    decided: int | None
    """The priority that follows from the log."""
    recorded: int | None
    """The priority that its broker recorded."""


class Audit(Struct, frozen=True):
    """The result of an audit."""

    copies: int
    """The number of copies compared."""
    counts: dict[str, int]
    """The number of differences of each kind."""
    differences: list[Difference]
    """The first differences, at most `MOST_SHOWN`."""
    unrecorded: int
    """Copies decided while their broker recorded no deliveries; they are not compared."""
    unusable: int
    """Ranges of the log that could not be applied; they may cause later differences."""

    @property
    def passed(self) -> bool:
        """True if both sides agree on all compared copies, except those that wait to be sent."""
        return not any(count for what, count in self.counts.items() if what != WAITING)


def audit(
    log: "DataFrame",
    data: str,
    shards: int = 1,
    since: float | None = None,
    until: float | None = None,
) -> Audit:
    """Compare the deliveries that follow from the log with those that brokers recorded.

    If the frame has the rows of a time only, `since` and `until` say so.
    """
    found = decided(log, data, shards, since=since, until=until).persist()
    try:
        by_log = found.where((F.col("kind") == DELIVERY) & F.col("recorded"))
        newest = log.agg(F.max("ingested")).first()
        last = newest[0] if newest is not None and newest[0] is not None else 0.0
        expected = _copies(by_log.withColumnRenamed("id", "event_id")).withColumn(
            "waiting", F.col("elsewhere") & (F.col("time") > last - WAITING_S)
        )
        told = found.where((F.col("kind") == NOTICE) & F.col("recorded"))
        expected = expected.select(*SIDE, "waiting").unionByName(
            _notices(told, F.col("id")).withColumn("waiting", F.lit(False))
        )
        skipped = found.where((F.col("kind") == DELIVERY) & ~F.col("recorded"))
        # Deliveries that a later replay published may be recorded although none was expected.
        late = _copies(skipped.withColumnRenamed("id", "event_id")).select(*COPY)
        recorded_copies = _copies(recorded(log)).join(late, list(COPY), "left_anti")
        state = F.get_json_object("data", "$.state")
        recorded_copies = recorded_copies.select(*SIDE).unionByName(
            _notices(log.where(F.col("kind") == RECORDED_NOTICE), state)
        )
        compared = _compared(expected, recorded_copies).persist()
        counts = {row["what"]: row["count"] for row in compared.groupBy("what").count().collect()}
        same = counts.pop("same", 0)
        worst = compared.where(F.col("what") != "same").limit(MOST_SHOWN).collect()
        unrecorded = skipped.agg(F.sum(F.size("recipients"))).first()
        return Audit(
            same + sum(counts.values()),
            {what: counts.get(what, 0) for what in (MISSING, EXTRA, PRIORITY, WAITING)},
            [
                Difference(
                    row["what"], row["broker"], row["publisher"], row["event_id"], row["session"],
                    tuple(row["subscriptions"]), row["decided"], row["recorded"],
                )
                for row in worst
            ],
            (unrecorded[0] or 0) if unrecorded is not None else 0,
            found.where(F.col("kind") == UNUSABLE).count(),
        )  # fmt: skip
    finally:
        found.unpersist()


def recorded(log: "DataFrame") -> "DataFrame":
    """Return the deliveries that brokers recorded."""
    rows = log.where(F.col("kind") == RECORDED)
    return rows.mapInArrow(_recorded, _RECORDED_SCHEMA)


def _recorded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = list(rows_of(batch))
        recipients = [
            [dict(zip(RECIPIENT.names, each, strict=True)) for each in recipients_of(row)]
            for row in rows
        ]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([row.broker for row in rows], pa.string()),
                pa.array([row.publisher for row in rows], pa.string()),
                pa.array([row.event_id for row in rows], pa.string()),
                pa.array(recipients, pa.list_(RECIPIENT)),
            ],
            names=["broker", "publisher", "event_id", "recipients"],
        )


def _copies(deliveries: "DataFrame") -> "DataFrame":
    """Return one row for each copy."""
    each = deliveries.withColumn("each", F.explode("recipients"))
    flat = each.select(
        "*",
        F.col("each.session").alias("to_session"),
        F.array_sort("each.subscriptions").alias("subscriptions"),
        F.col("each.priority").alias("priority"),
        F.col("each.replayed").alias("replayed"),
    ).drop("each", "recipients", "session")
    return flat.withColumnRenamed("to_session", "session")


def _notices(rows: "DataFrame", state: "Column") -> "DataFrame":
    """Return notices as copies of events."""
    return rows.select(
        "broker",
        F.lit("").alias("publisher"),
        F.concat_ws(" at ", state, F.col("time").cast("string")).alias("event_id"),
        F.col("subject").alias("session"),
        F.array(F.coalesce("node", F.lit(""))).alias("subscriptions"),
        F.lit(False).alias("replayed"),
        F.lit(1).alias("priority"),
    )


def _compared(expected: "DataFrame", recorded_copies: "DataFrame") -> "DataFrame":
    """Return every copy of either side, with the kind of difference or "same"."""
    ours = expected.groupBy(*COPY).agg(
        F.array_sort(F.collect_list("priority")).alias("decided_at"),
        F.max("waiting").alias("waiting"),
    )
    theirs = recorded_copies.groupBy(*COPY).agg(
        F.array_sort(F.collect_list("priority")).alias("told_at")
    )
    joined = ours.join(theirs, list(COPY), "full_outer")
    ahead, behind = _size("decided_at"), _size("told_at")
    what = (
        F.when((ahead > behind) & F.coalesce(F.col("waiting"), F.lit(False)), WAITING)
        .when(ahead > behind, MISSING)
        .when(ahead < behind, EXTRA)
        .when(F.col("decided_at") != F.col("told_at"), PRIORITY)
        .otherwise("same")
    )
    return joined.withColumn("what", what).select(
        "what",
        *COPY,
        F.element_at("decided_at", 1).alias("decided"),
        F.element_at("told_at", 1).alias("recorded"),
    )


def _size(name: str) -> "Column":
    return F.when(F.col(name).isNull(), 0).otherwise(F.size(name))
