"""The tables `events` and `rejects`: published events, and unusable ones with the reason.

Events are validated and deduplicated over all brokers. A refused event keeps its row and gets a
reason, and so do gaps in a log and rows that could not be applied.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.decide.decisions import SUSPECT, UNUSABLE
from nearcast.pipeline.source.event_checks import (
    LATENESS_S,
    accepted,
    clean,
    first_of_each,
    rejected,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT_COLUMNS = (
    "broker", "seq", "event_id", "subject", "publisher", "time", "ingested", "lat", "lon",
    "late", "properties", "payload", "data",
)  # fmt: skip
REPEAT = "repeat: an event of an earlier batch has this publisher and id"


def judged_events(
    log: "DataFrame", known: "DataFrame | None" = None, lateness_s: float = LATENESS_S
) -> "DataFrame":
    """Return the rows of the log that are events, with `reject` and `late`.

    `known` are publishers and ids of earlier events, whose repeats are refused too.
    """
    return each_once(clean(log, lateness_s), known)


def each_once(cleaned: "DataFrame", known: "DataFrame | None" = None) -> "DataFrame":
    """Return the result of `clean` with repeats refused, also those of `known` events."""
    found = first_of_each(cleaned)
    if known is None:
        return found
    known = known.select("publisher", "event_id").distinct().withColumn("known", F.lit(True))
    repeated = F.col("reject").isNull() & F.col("known").isNotNull()
    reason = F.when(repeated, F.lit(REPEAT)).otherwise(F.col("reject"))
    joined = found.join(known, ["publisher", "event_id"], "left")
    return joined.withColumn("reject", reason).drop("known")


def events(judged: "DataFrame") -> "DataFrame":
    """Return the table `events`, from the result of `judged_events`."""
    return accepted(judged).select(*EVENT_COLUMNS)


def rejects(judged: "DataFrame", decided: "DataFrame | None" = None) -> "DataFrame":
    """Return the table `rejects`: refused events, and problems found when deciding.

    These are rows that could not be applied, and suspect positions, which were applied.
    """
    refused = rejected(judged).select(
        "broker",
        "seq",
        F.col("seq").alias("last_seq"),
        "event_id",
        "subject",
        "publisher",
        "ingested",
        F.col("reject").alias("reason"),
    )
    if decided is None:
        return refused
    doubtful = decided.where(F.col("kind").isin(UNUSABLE, SUSPECT)).select(
        "broker",
        "seq",
        "last_seq",
        F.lit(None).cast("string").alias("event_id"),
        F.lit(None).cast("string").alias("subject"),
        F.col("node").alias("publisher"),
        F.col("time").alias("ingested"),
        "reason",
    )
    return refused.unionByName(doubtful)
