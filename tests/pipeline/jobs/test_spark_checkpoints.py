"""Spark's own files, as they are: these tests fail if a release of Spark changes them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.jobs.spark_checkpoints import (
    committed,
    epoch_end,
    epoch_rows,
    query_id,
)
from nearcast.store import Row
from tests.support.logs.broker_log import write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_how_many_rows_an_epoch_spans_is_told_by_its_checkpoint(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for number, offset in enumerate(({"a": 101}, {"a": 101, "b": 11}, {"a": 201, "b": 12})):
        (offsets / str(number)).write_text(f'v1\n{{"watermark":0}}\n{json.dumps(offset)}')
    assert [epoch_rows(tmp_path, number) for number in range(3)] == [100, 10, 101]
    assert epoch_rows(tmp_path, 3) is None
    (offsets / "3").write_text("v1\n")
    assert epoch_rows(tmp_path, 3) is None


def test_what_spark_writes_is_what_is_read(spark: "SparkSession", tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    rows = [Row("local", seq, "position", float(seq), node="a") for seq in range(1, 26)]
    write_log(data, "local", rows, per_segment=10)
    seen: list[tuple[int, int, int | None, dict[str, int] | None]] = []

    def look(batch: "DataFrame", epoch: int) -> None:
        found = epoch_rows(checkpoint, epoch), epoch_end(checkpoint, epoch)
        seen.append((epoch, batch.count(), *found))

    assert query_id(checkpoint) is None
    assert committed(checkpoint) is None
    query = (
        spark.readStream.format("nearcast")
        .option("path", str(data))
        .option("maxRows", 10)
        .load()
        .writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(look)
        .start()
    )
    query.awaitTermination()
    assert query_id(checkpoint) == query.id
    assert [(epoch, rows, count) for epoch, rows, count, _ in seen] == [
        (number, rows, rows) for number, rows in enumerate(each[1] for each in seen)
    ]
    assert sum(rows for _, rows, _, _ in seen) == 25
    assert seen[-1][3] == committed(checkpoint)
    assert list((committed(checkpoint) or {}).values()) == [26]
