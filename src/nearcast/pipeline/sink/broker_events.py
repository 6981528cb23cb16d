"""What the pipeline tells: rows of its tables as events for brokers, in the form of the sink.

A stream and a replay tell the same of the same rows, under the same ids and subjects, so that a
broker recognises what it was told before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.gather.aggregates import named_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QOS = 2
"""What the pipeline tells comes exactly once to whoever asks for that."""


def aggregate_events(found: "DataFrame") -> "DataFrame":
    """Return the rows of `aggregates` as events."""
    return _events(found.withColumn("about", named_in("payload")))


def movement_events(found: "DataFrame") -> "DataFrame":
    """Return what `movement` gave as events, but for what is not to be published."""
    named = found.where(F.col("subject").isNotNull())
    return _events(named.withColumn("id", F.col("key")))


def for_all(rows: "DataFrame", brokers: Sequence[str]) -> "DataFrame":
    """Return rows for every broker: each has subscribers of its own."""
    return rows.withColumn("broker", F.explode(F.array(*map(F.lit, brokers))))


def _events(rows: "DataFrame") -> "DataFrame":
    return rows.select(
        F.lit("event").alias("kind"), "id", "subject", "time", "lat", "lon",
        F.col("payload").cast("binary").alias("payload"), F.lit(QOS).alias("qos"), "about",
    )  # fmt: skip
