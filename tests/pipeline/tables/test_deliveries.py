"""The table of deliveries: one row for all who get an event at once."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, StructType

from nearcast.pipeline.decide.decided_schema import ARROW_SCHEMA
from nearcast.pipeline.decide.decisions import decided
from nearcast.pipeline.sink.sink_rows import SINK_SCHEMA
from nearcast.pipeline.tables.deliveries import deliveries, to_send
from nearcast.testing import World
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import log_of_a_life, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_an_event_is_one_row_with_all_who_got_it(spark: "SparkSession", tmp_path: Path) -> None:
    rows = log_of_a_life(World(seed=81), 80)
    write_log(tmp_path, "broker", rows)
    log = spark.read.format("nearcast").option("path", str(tmp_path)).load()
    found = decided(log, str(tmp_path))
    table = deliveries(found).collect()
    at_once = [row for row in table if not any(each.replayed for each in row.recipients)]
    published = Counter((row.publisher, row.event_id, row.seq) for row in at_once if row.seq)
    assert max(published.values()) == 1
    assert all(row["count"] == len(row.recipients) for row in table)
    assert any(len({len(each.subscriptions) for each in row.recipients}) > 1 for row in at_once)

    told = Counter(
        (row.publisher, row.event_id, each.session, tuple(sorted(each.subscriptions)))
        for row in table
        for each in row.recipients
    )
    wanted: Counter[tuple[str | None, str | None, str, tuple[str, ...]]] = Counter()
    for (publisher, name, session, ids, _, _), count in recorded(rows).items():
        called = tuple(sorted(each.split("\0")[-1] for each in ids))
        wanted[publisher, name, session, called] += count
    assert told == wanted
    assert any(len(called) > 1 for *_, called in wanted)

    # Brokers know subscriptions by their whole ids.
    sent = [each for row in to_send(found).collect() for each in row.recipients]
    assert all("\0" in name for each in sent for name in each.subscriptions)


def test_decided_rows_begin_with_the_columns_of_the_sink(spark: "SparkSession") -> None:
    wanted = DataType.fromDDL(SINK_SCHEMA)
    assert isinstance(wanted, StructType)
    first = StructType(from_arrow_schema(ARROW_SCHEMA).fields[: len(wanted)])
    assert first.simpleString() == wanted.simpleString()
