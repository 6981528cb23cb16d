"""The nearcast format in Spark: history as it was written, and streams that go on."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from nearcast.store import Row
from tests.pipeline.source.log_changes import damage, merge, options, other
from tests.support.logs.broker_log import write_log
from tests.support.logs.store_rows import BROKER
from tests.support.logs.store_rows import rows as written_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def streamed(
    spark: "SparkSession", data: Path, checkpoint: Path, **more: object
) -> dict[int, list[tuple[Any, ...]]]:
    """Take all there is, and return the rows of each batch by its number."""
    found: dict[int, list[tuple[Any, ...]]] = {}

    def keep(batch: "DataFrame", number: int) -> None:
        found[number] = [tuple(row) for row in batch.orderBy("broker", "seq").collect()]

    query = (
        spark.readStream.format("nearcast")
        .options(**options(data, **more))
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    return found


def as_spark_has_it(row: Row) -> tuple[Any, ...]:
    # No property is none at all, and a struct of Spark is a row.
    return (*astuple(row)[:12], list(row.properties) or None, *astuple(row)[13:])


def test_spark_reads_history_as_it_was_written(spark: "SparkSession", tmp_path: Path) -> None:
    rows = [
        *written_rows(1, 30),
        Row(BROKER, 31, "event", 9.0, properties=(("a", "1"), ("a", "2")), payload=b"\0\xff"),
    ]
    directory = write_log(tmp_path, BROKER, rows, per_segment=10)
    damage(directory / "00000002.parquet")
    log = spark.read.format("nearcast").options(**options(tmp_path, partition_rows=15)).load()
    assert log.columns == list(Row.__struct_fields__)
    found = [tuple(row) for row in log.orderBy("seq").collect()]
    assert [row for row in found if row[2] != "gap"] == list(
        map(as_spark_has_it, [*rows[:10], *rows[20:]])
    )
    [told] = [row for row in found if row[2] == "gap"]
    assert told[:4] == (BROKER, 11, "gap", None)
    assert (json.loads(told[-1])["first"], json.loads(told[-1])["last"]) == (11, 20)
    few = spark.read.format("nearcast").options(**options(tmp_path, columns="node,seq")).load()
    assert few.columns == ["node", "seq"]
    assert few.count() == 22


def test_spark_follows_goes_on_where_it_stopped_and_repeats_a_batch_exactly(
    spark: "SparkSession", tmp_path: Path
) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    rows = written_rows(1, 120)
    directory = write_log(data, BROKER, rows[:80], per_segment=8)
    first = streamed(spark, data, checkpoint, max_rows=50, partition_rows=20)
    assert {number: len(found) for number, found in first.items()} == {0: 50, 1: 30}

    # The last batch was done, but a crash came before Spark noted it; meanwhile the log went on.
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    merge(directory, 1, 9)
    write_log(data, BROKER, rows[80:], per_segment=8)
    write_log(data, "another", [other(1, "another", 1.0)])
    second = streamed(spark, data, checkpoint, max_rows=50, partition_rows=20)
    assert second[1] == first[1]
    assert sorted(second) == [1, 2]
    assert second[2] == [
        as_spark_has_it(other(1, "another", 1.0)),
        *map(as_spark_has_it, rows[80:]),
    ]
