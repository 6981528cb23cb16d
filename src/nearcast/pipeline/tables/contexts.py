"""The table `contexts`: the changes of each node's state, and the current state."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window

from nearcast.pipeline.decide.decisions import CONTEXT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def contexts(decided: "DataFrame") -> "DataFrame":
    """Return each change: the node's position, the previous one, and its attributes.

    A node without `attributes` was forgotten; one without a position has no fresh one.
    """
    return decided.where(F.col("kind") == CONTEXT).select(
        "broker", "seq", "time", "node", "lat", "lon", "previous_lat", "previous_lon",
        "previous_time", "attributes",
    )  # fmt: skip


def current(changes: "DataFrame") -> "DataFrame":
    """Return the current state: the last change of each node that was not forgotten."""
    newest = Window.partitionBy("node").orderBy(F.desc("time"), F.desc("broker"), F.desc("seq"))
    return (
        changes.withColumn("place", F.row_number().over(newest))
        .where((F.col("place") == 1) & F.col("attributes").isNotNull())
        .drop("place")
    )
