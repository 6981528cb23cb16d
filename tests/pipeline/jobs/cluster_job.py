"""A job for a cluster, run as a program of its own: `cluster_job.py MASTER DATA CHECKPOINT`.

Prints as JSON what executors said: which code they ran, in how many processes, with what result.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from nearcast.pipeline.jobs.spark_session import SparkSettings, session, stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORM = "code string, executor string, rows long, metres double"


def travelled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read rows back into inputs, and measure how far they are from the first, on an executor."""
    import nearcast
    from nearcast.core.model.geometry.geodesy import distance_m
    from nearcast.core.model.inputs import Moved
    from nearcast.store import input_of, rows_of

    for batch in batches:
        rows, metres = 0, 0.0
        for row in rows_of(batch):
            moved = input_of(row)
            assert isinstance(moved, Moved)
            assert moved.position is not None
            metres += distance_m(0.0, 0.0, moved.position.lat, moved.position.lon)
            rows += 1
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "code": nearcast.__file__,
                    # The directory that a worker of Spark gave to this executor.
                    "executor": os.getcwd(),
                    "rows": rows,
                    "metres": metres,
                }
            ]
        )


def main(master: str, data: str, checkpoint: str) -> None:
    """Run the same over history and over a stream."""
    loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = session(
        SparkSettings(
            master=master,
            shuffle_partitions=2,
            driver_memory="512m",
            conf=loopback
            | {
                "spark.executor.memory": "512m",
                "spark.executor.cores": "1",
                # Both executors, before any task is given away.
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.cores.max": "2",
            },
        )
    )
    source = {"path": data, "partition_rows": "50"}
    log = spark.read.format("nearcast").options(**source).load()
    history = [row.asDict() for row in log.mapInArrow(travelled, FORM).collect()]
    taken: list[dict[str, object]] = []

    def keep(batch: "DataFrame", number: int) -> None:
        taken.extend(row.asDict() for row in batch.mapInArrow(travelled, FORM).collect())

    following = spark.readStream.format("nearcast").options(**source, max_rows="200").load()
    query = (
        following.writeStream.foreachBatch(keep)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    stop(spark)
    sys.stdout.write(json.dumps({"history": history, "stream": taken}))


if __name__ == "__main__":
    main(*sys.argv[1:])
