"""A node that jumps: its position is decided by, and marked."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.decide.decisions import decided
from nearcast.pipeline.tables.events import judged_events, rejects
from nearcast.store import Row
from tests.support.logs.broker_log import write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fix(seq: int, time: float, lat: float, node: str = "ann") -> Row:
    return Row("b", seq, "position", time, 1, lat=lat, lon=5.0, node=node)


def test_a_jump_is_a_row_of_rejects_and_a_fast_train_is_none(
    spark: "SparkSession", tmp_path: Path
) -> None:
    rows = [
        fix(1, 1000.0, 51.0),
        fix(2, 1010.0, 51.005),
        fix(3, 1010.0, 40.0, "ben"),
        fix(4, 1020.0, 57.3),
        Row("b", 5, "context", 1030.0, 1, node="ann", data='{"patch":{"mood":"good"}}'),
        fix(6, 1010.0 + 4000.0, 47.0, "ben"),
        fix(7, 1040.0, 57.301),
    ]
    write_log(tmp_path, "b", rows)
    log = spark.read.format("nearcast").option("path", str(tmp_path)).load()
    found = rejects(judged_events(log), decided(log, str(tmp_path))).collect()
    assert len(found) == 1, found
    (jump,) = found
    assert (jump.broker, jump.seq, jump.last_seq, jump.publisher) == ("b", 4, 4, "ann")
    assert jump.ingested == 1020.0
    assert jump.reason.startswith("suspect: 700")
    assert jump.reason.endswith(" km in 10.0 s; 70 m/s are believed")
