"""Tasks of Spark that decide for shards: every shard in Python processes of its own.

Spark keeps a pool of Python workers for each set of environment variables. A variable with the
number of the shard thus keeps its tasks in the same processes, whose players they go on with. Each
task reads the rows from the log itself: that is less work than to get them from Java once for each
shard.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from nearcast.core.engine.shard import Shard
from nearcast.pipeline.decide.decided_schema import ARROW_SCHEMA
from nearcast.pipeline.decide.shard_merge import (
    BLOCK_SEQS,
    ORDER,
    PACKED_SCHEMA,
    merge_packed,
    packed,
)
from nearcast.pipeline.source.log_ranges import LogRange, RangeRequest, parts_of, read_range
from nearcast.store import GAP, log_directory, path_at, read_manifest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Decide = Callable[..., Iterator[pa.RecordBatch]]
"""Decides on batches of rows for a `shard`."""
_VARIABLE = "NEARCAST_SHARD"
_PART = "part"


def decided_in_shards(
    log: "DataFrame", data: str, decide: Decide, shards: int, request: RangeRequest
) -> "DataFrame":
    """Return the decided rows of a log, which every shard reads up to the last row of the frame.

    `request` says which of these rows the frame has.
    """
    ranges = _ranges(log, data)
    one_task = log.sparkSession.range(0, 1, 1, 1)
    found = []
    for number in range(shards):
        shard = Shard(number, shards)
        work = partial(_decide_ranges, decide, ranges, request, shard)
        with _pool(log.sparkSession, shard):
            found.append(one_task.mapInArrow(work, from_arrow_schema(PACKED_SCHEMA)))
    blocks = reduce(lambda one, other: one.unionAll(other), found)
    blocks = blocks.repartitionById(shards, _part(ranges, shards)).sortWithinPartitions(*ORDER)
    return blocks.mapInArrow(merge_packed, from_arrow_schema(ARROW_SCHEMA))


def _decide_ranges(
    decide: Decide,
    ranges: Sequence[LogRange],
    request: RangeRequest,
    shard: Shard,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Decide on ranges of logs; the batches of the task say nothing."""
    for _ in batches:
        for each in ranges:
            yield from packed(decide(read_range(each, request), shard=shard))


@contextmanager
def _pool(spark: "SparkSession", shard: Shard) -> Iterator[None]:
    """Let functions that this thread makes meanwhile run in the Python workers of a shard."""
    context = spark.sparkContext
    if not isinstance(context.environment, _ThreadEnvironment):
        context.environment = _ThreadEnvironment(context.environment)
    own = context.environment.own
    own.shard = f"{shard.number} of {shard.of}"
    try:
        yield
    finally:
        del own.shard


class _ThreadEnvironment(dict[str, Any]):
    """The variables of Python workers, with that of the shard for one thread only.

    Queries make their functions in threads of their own; a worker of a shard that runs those of
    another query may be in the way of its own task, which would need a second player.
    """

    def __init__(self, others: Mapping[str, Any]) -> None:
        super().__init__(others)
        self.own = threading.local()

    def keys(self) -> Any:  # noqa: ANN401
        """The names of the variables, as Spark asks for them to pass them on."""
        shard = [_VARIABLE] if hasattr(self.own, "shard") else []
        return [*super().keys(), *shard]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        return self.own.shard if name == _VARIABLE else super().__getitem__(name)


def _ranges(log: "DataFrame", data: str) -> list[LogRange]:
    """The rows that a frame has of each broker, from the first to the last."""
    last_missing = F.get_json_object("data", "$.last").cast("long")
    last = F.when(F.col("kind") == GAP, last_missing).otherwise(F.col("seq"))
    found = []
    for broker, first, end in log.groupBy("broker").agg(F.min("seq"), F.max(last)).collect():
        directory = log_directory(path_at(data), broker)
        segments, gaps = parts_of(read_manifest(directory), first, end)
        found.append(LogRange(str(directory), broker, first, end, tuple(segments), tuple(gaps)))
    return found


def _part(ranges: Sequence[LogRange], parts: int) -> "Column":
    """The part in which a block is merged: each has consecutive blocks of each broker.

    So the rows of a broker are in the order of its log, part after part.
    """
    part = F.lit(0)
    for each in ranges:
        first, last = each.first_seq // BLOCK_SEQS, each.last_seq // BLOCK_SEQS
        size = math.ceil((last - first + 1) / parts)
        own = F.floor((F.col("block") - first) / size).cast("int")
        part = F.when(F.col("broker") == each.broker, own).otherwise(part)
    return F.greatest(F.lit(0), F.least(part, F.lit(parts - 1)))
