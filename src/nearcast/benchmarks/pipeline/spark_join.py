"""The grid join that a Spark user would write: circles expanded to cells, events joined by cell.

Each subscription has a row for every cell that its circle may touch, computed in advance and
cached in memory; an event is in one cell. The join's other conditions filter the candidates. After
a move these rows would have to be computed again, which is not counted here.
"""

from typing import TYPE_CHECKING

import numpy as np

from nearcast.benchmarks.matching.agreement import MatchingCity
from nearcast.benchmarks.matching.peers.peer import MatchedPairs
from nearcast.benchmarks.matching.peers.sql import plain_query
from nearcast.benchmarks.matching.peers.tables import events_table, subscriptions_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CELL_DEGREES = (0.01, 0.02)
"""Cell sizes to try, in degrees; the best one counts."""
_CELL = "cast(floor({lat} / {size}) AS BIGINT) * 100000 + cast(floor({lon} / {size}) AS BIGINT)"
_SPAN = "sequence(cast(floor({low} / {size}) AS BIGINT), cast(floor({high} / {size}) AS BIGINT))"


class SparkJoin:
    """Subscriptions expanded to cells, cached in Spark."""

    def __init__(
        self, spark: "SparkSession", city: MatchingCity, size: float, partitions: int
    ) -> None:
        self._spark = spark
        self._size = size
        spark.createDataFrame(
            subscriptions_table(city.subscriptions, city.people)
        ).createOrReplaceTempView("standing")
        rows = _SPAN.format(low="south", high="north", size=size)
        columns = _SPAN.format(low="west", high="east", size=size)
        self._laid_out = (
            spark.sql(
                f"SELECT *, r * 100000 + c AS cell FROM standing "
                f"LATERAL VIEW explode({rows}) AS r LATERAL VIEW explode({columns}) AS c"
            )
            .repartition(partitions, "cell")
            .persist()
        )
        self.rows = self._laid_out.count()

    def frame(self, city: MatchingCity, most: int) -> "DataFrame":
        """The first `most` events of a city, with their cells."""
        count = min(most, len(city.events.lat))
        events = self._spark.createDataFrame(events_table(city.events, 0, count))
        cell = _CELL.format(lat="lat", lon="lon", size=self._size)
        return events.selectExpr("*", f"{cell} AS cell")

    def matches(self, events: "DataFrame") -> "DataFrame":
        """Return the matching pairs of events and subscriptions."""
        self._laid_out.createOrReplaceTempView("subscriptions")
        events.createOrReplaceTempView("events")
        return self._spark.sql(plain_query("s.cell = e.cell"))

    def pairs(self, events: "DataFrame", sample: int) -> MatchedPairs:
        """The pairs of the first `sample` events."""
        found = self.matches(events.where(f"id < {sample}")).toArrow()
        return MatchedPairs(
            np.asarray(found["event"], np.int32), np.asarray(found["subscription"], np.int32)
        )

    def close(self) -> None:
        """Release the cached rows."""
        self._laid_out.unpersist(blocking=True)
