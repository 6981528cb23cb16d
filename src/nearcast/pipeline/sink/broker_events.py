"""Rows of the pipeline's tables as events for brokers, with the columns of the sink.

A stream and a replay give the same events for the same rows, with the same ids and subjects, so
that a broker recognises repeats.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.gather.aggregates import named_in
from nearcast.pipeline.sink.sink_rows import DUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOVEMENT_ORDER = ("subject", "time", "cause")
AGGREGATE_ORDER = ("subject", "time", "id")
"""The order of the events of one subject."""
QOS = 2
"""Subscribers that ask for QoS 2 get the pipeline's events exactly once."""


def aggregate_events(found: "DataFrame") -> "DataFrame":
    """Return the rows of `aggregates` as events."""
    return _events(found.withColumn("about", named_in("payload")))


def movement_events(found: "DataFrame") -> "DataFrame":
    """Return the rows of `movement` as events, without those that are not published."""
    named = found.where(F.col("subject").isNotNull())
    return _events(named.withColumn("id", F.col("key")), "cause")


def due_rows(found: "DataFrame") -> "DataFrame":
    """Return the times at which timers of a query will fire, as rows of the sink."""
    return found.where(F.col("due").isNotNull()).select(
        F.lit("").alias("broker"), F.lit(DUE).alias("kind"), F.lit("").alias("id"),
        F.lit("").alias("subject"), F.col("due").alias("time"),
    )  # fmt: skip


def for_all(rows: "DataFrame", brokers: Sequence[str]) -> "DataFrame":
    """Return the rows once for every broker, since each has subscribers of its own."""
    return rows.withColumn("broker", F.explode(F.array(*map(F.lit, brokers))))


def in_order(rows: "DataFrame", order: Sequence[str]) -> "DataFrame":
    """Return rows so that a broker gets those of one subject in an order.

    A broker releases the rows of an epoch partition by partition, each in its order.
    """
    return rows.repartition("broker", "subject").sortWithinPartitions("broker", *order)


def _events(rows: "DataFrame", *others: str) -> "DataFrame":
    return rows.select(
        *others,
        F.lit("event").alias("kind"), "id", "subject", "time", "lat", "lon",
        F.col("payload").cast("binary").alias("payload"), F.lit(QOS).alias("qos"), "about",
    )  # fmt: skip
