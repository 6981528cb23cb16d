"""Cleaning: which rows of the log are usable events, and why the others are not.

It uses only Spark's own expressions, row by row, so that it costs little and runs before anything
else. A refused event keeps its row and gets a reason; an event from the future is refused here,
before it can advance a watermark and make other events late. A late event (by the time between its
occurrence and its ingest) is kept and marked: tables include it, state does not.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window

from nearcast.store.rows.row_kinds import ERASED
from nearcast.store.rows.rows import SCHEMA as ROW_SCHEMA
from nearcast.wire.handover import PUBLISHER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AHEAD_S = 60.0
"""How far the clock of a publisher may be ahead of its broker's."""
LATENESS_S = 900.0
FIRST_TIME, LAST_TIME = -62_135_596_800.0, 253_402_300_799.0
"""The years 1 to 9999, the range in which times can be written."""
PIPELINE = PUBLISHER
"""The publisher of the pipeline's own results, or a prefix of it."""


def clean(log: "DataFrame", lateness_s: float = LATENESS_S) -> "DataFrame":
    """Return the rows that are or were events, with additional columns `reject` and `late`.

    `reject` is the reason why a row is unusable, or null. Works on streams too.
    """
    return judged(log.where(F.col("kind").isin("event", ERASED)), lateness_s)


def judged(log: "DataFrame", lateness_s: float = LATENESS_S) -> "DataFrame":
    """Return all rows of the log, with `reject` and `late` computed as for an event."""
    late = F.col("time") < F.col("ingested") - F.lit(lateness_s)
    return log.withColumn("reject", _reason()).withColumn(
        "late", F.coalesce(F.col("reject").isNull() & late, F.lit(False))
    )


def may_be_seen_alone() -> "Column":
    """Whether an event has no smallest number of people, so that single ones may be told of."""
    return ~F.coalesce(F.col("data").contains('"people":'), F.lit(False))


def accepted(cleaned: "DataFrame") -> "DataFrame":
    """Return the usable events of the result of `clean`; `late` marks late ones."""
    return cleaned.where(F.col("reject").isNull()).drop("reject")


def rejected(cleaned: "DataFrame") -> "DataFrame":
    """Return the unusable rows of the result of `clean` or `first_of_each`, with the reason."""
    return cleaned.where(F.col("reject").isNotNull())


def first_of_each(cleaned: "DataFrame") -> "DataFrame":
    """Return the same rows with repeats of events refused; for batches, not for streams.

    Of rows with the same publisher and id, the first by (ingested, broker, seq) counts.
    """
    order = ("ingested", "broker", "seq")
    # Only a usable row makes another one a repeat.
    usable = F.col("reject").isNull()
    same = Window.partitionBy("publisher", "event_id", usable).orderBy(*order)
    first = F.first(F.struct("broker", "seq")).over(same)
    which = F.row_number().over(same)
    reason = F.format_string(
        "repeat: row %s of broker %s is the same event", first["seq"], first["broker"]
    )
    return cleaned.withColumn(
        "reject", F.when(usable & (which > 1), reason).otherwise(F.col("reject"))
    )


def _reason() -> "Column":
    """Return the reason why a row is unusable: the first check that applies."""
    checks = [
        (
            F.col("kind") == ERASED,
            F.lit("erased: a node in it was forgotten, and only its place in the log is left"),
        ),
        (
            F.col("schema") > ROW_SCHEMA,
            F.format_string(
                f"newer: written in form %s by a later release; this one reads {ROW_SCHEMA}",
                F.col("schema"),
            ),
        ),
        *((_is_missing(name), F.lit(f"malformed: it has no {name}")) for name in _NAMES),
        *(
            (
                ~F.coalesce(F.col(name).between(first, LAST_TIME), F.lit(False)),
                _with(f"malformed: {name} is not a time, but %s", name),
            )
            for name, first in (("time", FIRST_TIME), ("ingested", 0.0))
        ),
        (
            F.col("lat").isNull() != F.col("lon").isNull(),
            F.lit("malformed: it has one of latitude and longitude, and not the other"),
        ),
        (
            ~F.coalesce(F.col("lat").between(-90.0, 90.0), F.lit(True)),
            _with("malformed: latitudes go from -90 to 90, but this is %s", "lat"),
        ),
        (
            ~F.coalesce(F.col("lon").between(-180.0, 180.0), F.lit(True)),
            _with("malformed: longitudes go from -180 to 180, but this is %s", "lon"),
        ),
        (
            # Nearly all events have one of these values and need no parser.
            ~F.coalesce(
                F.col("data").isin("{}", '{"qos":1}', '{"qos":2}')
                | (F.ltrim("data").startswith("{") & F.try_parse_json("data").isNotNull()),
                F.lit(False),
            ),
            F.lit("malformed: its data is not a JSON object"),
        ),
        (
            F.col("time") > F.col("ingested") + F.lit(AHEAD_S),
            F.format_string(
                "future: its time is %.3f s ahead of its broker's clock; "
                f"{AHEAD_S:.0f} s are allowed",
                F.col("time") - F.col("ingested"),
            ),
        ),
    ]
    (condition, reason), *others = checks
    found = F.when(condition, reason)
    for condition, reason in others:
        found = found.when(condition, reason)
    return found


_NAMES = ("event_id", "subject", "publisher")


def _is_missing(name: str) -> "Column":
    return F.col(name).isNull() | (F.col(name) == "")


def _with(text: str, name: str) -> "Column":
    return F.format_string(text, F.coalesce(F.col(name).cast("string"), F.lit("nothing")))
