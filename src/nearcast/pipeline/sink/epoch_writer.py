"""Writing an epoch: first to the brokers, exactly once, then to the tables.

A Spark job costs more than the rows of most epochs. A small epoch is one job, whose results the
driver itself stages, releases and writes; a large one is distributed over tasks. Both ways give the
same rows under the same names, so that an epoch may be retried the other way. Few rows of the log
may make many copies: they are counted while they are made. Beyond `MOST_COPIES` in a task, or if
the results exceed `RESULT_LIMIT`, the job ends, and the epoch is written as a large one; some
epochs after it are as well.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812

from nearcast.logs import log_event
from nearcast.pipeline.decide.decisions import TOO_MANY
from nearcast.pipeline.errors import ResultLimitError
from nearcast.pipeline.sink.broker_events import in_order
from nearcast.pipeline.sink.data_sink import QUERY_ID, SinkOptions, hand_over, release, stage
from nearcast.pipeline.tables.tables import EpochId, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("nearcast.pipeline")
SMALL_ROWS = 20_000
"""Epochs of at most this many rows of the log are collected."""
TASK_ROWS = 2_000
"""Rows of the log for each task of a small epoch."""
MOST_COPIES = 100_000
"""Copies of events that a task of a small epoch may make."""
LARGE_FOR = 50
"""The number of epochs after one with many copies that are not tried as small ones."""
RESULT_LIMIT = {"spark.driver.maxResultSize": "64m"}
"""The setting of Spark that bounds what a small epoch may bring to the driver."""
_OUTGOING = "$told"


class Epoch(Struct, frozen=True):
    """The results of an epoch of a query."""

    number: int
    tables: "Mapping[str, DataFrame]"
    """Rows by table."""
    outgoing: "DataFrame"
    """Rows for brokers, with the columns of the sink."""
    options: Mapping[str, str]
    """The options of the sink."""
    order: tuple[str, ...] = ()
    """The columns of `outgoing` by which rows are ordered; those of one subject stay together."""


class EpochWriter:
    """Writes the epochs of one query, small ones in the driver and large ones in tasks."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._large_until = 0
        """Epochs before this one are large, however few their rows: one before them was."""

    def write(self, make: Callable[[int | None], Epoch], rows: int | None) -> None:
        """Publish and write an epoch of `rows` log rows; an earlier attempt is not repeated.

        `make` returns the epoch, for a limit of copies in a task or for none.
        """
        if rows is not None and rows <= SMALL_ROWS:
            epoch = make(MOST_COPIES)
            if epoch.number >= self._large_until:
                try:
                    write_small(self._tables, epoch, 1 + rows // TASK_ROWS)
                    return
                except ResultLimitError:
                    self._large_until = epoch.number + LARGE_FOR
                    log_event(
                        log, logging.INFO, "epoch written in tasks: its results are many",
                        epoch=epoch.number, rows=rows,
                    )  # fmt: skip
        write_large(self._tables, make(None))


def write_large(tables: Tables, epoch: Epoch) -> None:
    """Stage and write in tasks, with a job for the brokers and one for each table."""
    outgoing = in_order(epoch.outgoing, epoch.order) if epoch.order else epoch.outgoing
    hand_over(outgoing, epoch.options, epoch.number)
    _append(tables, epoch, epoch.tables)


def write_small(tables: Tables, epoch: Epoch, tasks: int = 1) -> None:
    """Collect all rows in one job of a few tasks, then stage and write them here."""
    found = collected({**epoch.tables, _OUTGOING: epoch.outgoing}, tasks)
    outgoing = found.pop(_OUTGOING)
    if outgoing.num_rows:
        if epoch.order:
            outgoing = outgoing.sort_by([(name, "ascending") for name in epoch.order])
        options = SinkOptions.read(
            {**epoch.options, "query": _query_of(epoch), "epoch": str(epoch.number)}
        )
        release(stage(outgoing.to_batches(), options), options)
    _append(tables, epoch, found)


def _append(tables: Tables, epoch: Epoch, found: "Mapping[str, DataFrame | pa.Table]") -> None:
    written = EpochId(_query_of(epoch), epoch.number)
    with tables.writing():
        for name, rows in found.items():
            tables.append(name, rows, written)


def query_name(spark: "SparkSession", name: str) -> str:
    """The name of the query that runs here, with the id that Spark gave to its checkpoint.

    A query that begins again, with a new checkpoint, counts its epochs from 0.
    """
    # In the driver there is no task context with the query id.
    query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
    return name if query_id is None else f"{name} {query_id}"


def _query_of(epoch: Epoch) -> str:
    return query_name(epoch.outgoing.sparkSession, epoch.options["query"])


def collected(frames: "Mapping[str, DataFrame]", tasks: int = 1) -> dict[str, pa.Table]:
    """Return the rows of several frames, collected in one job; raises `ResultLimitError`."""
    # Lists of one element: a null list takes no space, and its fields may be non-nullable.
    tagged = [rows.select(F.array(F.struct("*")).alias(name)) for name, rows in frames.items()]
    together = tagged[0]
    for each in tagged[1:]:
        together = together.unionByName(each, allowMissingColumns=True)
    try:
        found = together.coalesce(tasks).toArrow()
    except Exception as error:
        # Which class it is depends on where Spark notices it.
        if any(each in str(error) for each in ("spark.driver.maxResultSize", TOO_MANY)):
            raise ResultLimitError("the results of an epoch exceed the driver's limit") from None
        raise
    return {name: pa.Table.from_struct_array(_flat(found.column(name))) for name in frames}


def _flat(lists: pa.ChunkedArray) -> pa.Array:
    return lists.combine_chunks().flatten()
