"""An epoch is written the same way whether it is small or large, and whole whatever happens."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.model import Event, Subscription
from nearcast.core.model.inputs import Input, Published, Subscribed
from nearcast.core.model.record import Record
from nearcast.pipeline.decide.decisions import decided
from nearcast.pipeline.errors import ResultLimitError
from nearcast.pipeline.sink import epoch_writer
from nearcast.pipeline.sink.broker_link import close_idle
from nearcast.pipeline.sink.epoch_writer import (
    MOST_COPIES,
    Epoch,
    EpochWriter,
    collected,
    write_large,
    write_small,
)
from nearcast.pipeline.sink.sink_rows import SINK_SCHEMA
from nearcast.pipeline.tables.deliveries import deliveries
from nearcast.pipeline.tables.tables import EpochId, Tables
from nearcast.store import record_row
from tests.support.broker_process import BrokerProcess
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.logs.broker_log import write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PEOPLE = (
    "node string not null, time double, payload binary, "
    "friends array<struct<name: string, since: long>>"
)
Row = tuple[str, float | None, bytes | None, list[tuple[str | None, int]] | None]
SOME: list[Row] = [
    ("a", 1.5, b"x", [("b", 1), (None, 2)]),
    ("b", None, None, None),
    ("c", 2.0, b"", []),
]


def epoch(spark: "SparkSession", number: int, people: list[Row], count: int = 0) -> Epoch:
    return Epoch(
        number,
        {
            "contexts": spark.createDataFrame(people, PEOPLE),
            "events": spark.range(count).selectExpr("id as number", "0D as ingested"),
        },
        spark.createDataFrame([], SINK_SCHEMA),
        {"path": "nowhere", "query": "test"},
    )


def rows(tables: Tables, name: str) -> list[dict[str, Any]]:
    read = [row for batch in tables.batches(name) for row in batch.to_pylist()]
    return sorted(read, key=str)


def test_small_and_large_epochs_hold_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    small, large = Tables(tmp_path / "small"), Tables(tmp_path / "large")
    for tables, write_epoch in ((small, write_small), (large, write_large)):
        write_epoch(tables, epoch(spark, 0, SOME, 5))
        write_epoch(tables, epoch(spark, 1, SOME[:1], 0))
    for name, count in (("contexts", 4), ("events", 5)):
        assert rows(small, name) == rows(large, name)
        assert len(rows(small, name)) == count
        assert small.schema(name) == large.schema(name)


def test_rows_of_all_frames_come_of_one_job(spark: "SparkSession") -> None:
    frames: dict[str, DataFrame] = {
        "people": spark.createDataFrame(SOME, PEOPLE),
        "nobody": spark.createDataFrame([], PEOPLE),
        "numbers": spark.range(1_000, numPartitions=4),
    }
    context = spark.sparkContext
    context.setJobGroup("collecting", "")
    found = collected(frames, 2)
    assert len(context.statusTracker().getJobIdsForGroup("collecting")) == 1
    context._jsc.clearJobGroup()
    for name, frame in frames.items():
        assert found[name].schema.names == frame.columns
        wanted = [row.asDict(recursive=True) for row in frame.collect()]
        assert sorted(map(str, found[name].to_pylist())) == sorted(map(str, wanted))


def test_an_epoch_that_is_done_again_repeats_nothing(spark: "SparkSession", tables: Tables) -> None:
    for _ in range(2):
        write_small(tables, epoch(spark, 0, SOME, 3))
        write_small(tables, epoch(spark, 1, SOME[:1], 2))
    write_large(tables, epoch(spark, 1, SOME[:1], 2))
    assert len(rows(tables, "contexts")) == 4
    assert [row["number"] for row in rows(tables, "events")] == [0, 0, 1, 1, 2]


def test_an_epoch_that_was_written_in_part_is_completed(
    spark: "SparkSession", tables: Tables
) -> None:
    this = epoch(spark, 0, SOME, 3)
    tables.append("contexts", this.tables["contexts"], EpochId("test", 0))
    for write_epoch in (write_small, write_large):
        write_epoch(tables, this)
        assert len(rows(tables, "contexts")) == 3
        assert len(rows(tables, "events")) == 3


def test_what_is_told_comes_once_however_often_an_epoch_is_tried(
    spark: "SparkSession", tmp_path: Path
) -> None:
    data = tmp_path / "data"
    tables = Tables(data)
    broker = BrokerProcess(data).wait_until_it_listens()
    client = StubbornClient("listener")
    try:
        client.connect(broker.port)
        client.subscribe("told", "end")
        for number, writers in enumerate(
            ((write_small, write_small), (write_small, write_large), (write_large, write_small))
        ):
            for write_epoch in writers:
                write_epoch(tables, telling(spark, data, number, "told", f"{number}"))
        write_small(tables, telling(spark, data, 3, "end", ""))
        client.wait_for("end", b"")
    finally:
        client.leave()
        close_idle()
        broker.end()
    assert [got.payload for got in client.got] == [b"0", b"1", b"2", b""]


@pytest.mark.parametrize("write_epoch", [write_small, write_large])
def test_events_of_a_subject_come_in_order_from_whatever_task(
    spark: "SparkSession", tmp_path: Path, write_epoch: Callable[[Tables, Epoch], None]
) -> None:
    data = tmp_path / "data"
    tables = Tables(data)
    broker = BrokerProcess(data).wait_until_it_listens()
    client = StubbornClient("listener")
    events = [
        ("local", "event", f"{subject} {number}", subject, number / 3, number, f"{number}".encode())
        for subject in ("a/1", "a/2", "a/3")
        for number in range(60)
    ]
    Random(1).shuffle(events)
    outgoing = spark.createDataFrame(
        events,
        "broker string, kind string, id string, subject string, time double, number long, "
        "payload binary",
    ).repartition(5)
    ordered = Epoch(
        0, {}, outgoing, {"path": str(data), "query": "test"}, ("subject", "time", "number")
    )
    try:
        client.connect(broker.port)
        client.subscribe("a/+", "end")
        write_epoch(tables, ordered)
        write_small(tables, telling(spark, data, 1, "end", ""))
        client.wait_for("end", b"")
    finally:
        client.leave()
        close_idle()
        broker.end()
    for subject in ("a/1", "a/2", "a/3"):
        got = [int(each.payload) for each in client.got if each.topic == subject]
        assert got == list(range(60))


def test_what_is_too_large_for_the_driver_is_written_by_tasks(
    spark: "SparkSession", tables: Tables
) -> None:
    payload = F.expr("cast(repeat(uuid(), 30000) as binary)")
    large = spark.range(100).select(F.lit(1.0).alias("time"), payload.alias("payload"))
    few = Epoch(
        0,
        {"contexts": large, "events": spark.range(3).selectExpr("0D as ingested")},
        spark.createDataFrame([], SINK_SCHEMA),
        {"path": "nowhere", "query": "test"},
    )
    with pytest.raises(ResultLimitError):
        write_small(tables, few)

    limits = list[int | None]()

    def make(most_copies: int | None) -> Epoch:
        limits.append(most_copies)
        return few

    EpochWriter(tables).write(make, rows=100)

    assert limits == [MOST_COPIES, None]
    assert {each.name: each.rows for each in tables.statistics()} == {"contexts": 100, "events": 3}


def test_copies_are_counted_while_they_are_made_and_many_are_written_by_tasks(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs: list[Input] = [
        Subscribed(Subscription(f"client-{n}\0news/#", f"client-{n}", "news/#")) for n in range(40)
    ]
    inputs += [Published(Event(f"e{n}", "news/a", "talker", 1.0 + n)) for n in range(50)]
    log = [record_row(Record(n, 1.0 + n, each), "b") for n, each in enumerate(inputs, 1)]
    write_log(tmp_path, "b", log)
    frame = spark.read.format("nearcast").option("path", str(tmp_path)).load()
    monkeypatch.setattr(epoch_writer, "MOST_COPIES", 1_999)
    limits = list[int | None]()

    def make(number: int) -> Callable[[int | None], Epoch]:
        def made(most_copies: int | None) -> Epoch:
            limits.append(most_copies)
            found = deliveries(decided(frame, str(tmp_path), most_copies=most_copies))
            nothing = spark.createDataFrame([], SINK_SCHEMA)
            options = {"path": "nowhere", "query": "test"}
            return Epoch(number, {"deliveries": found}, nothing, options)

        return made

    tables = Tables(tmp_path)
    writer = EpochWriter(tables)
    writer.write(make(0), rows=90)
    assert limits == [1_999, None]
    assert [row["count"] for row in rows(tables, "deliveries")] == [40] * 50
    # The next are not tried the other way, for a while.
    writer.write(make(1), rows=90)
    assert len(rows(tables, "deliveries")) == 100
    monkeypatch.setattr(epoch_writer, "MOST_COPIES", 2_000)
    writer.write(make(epoch_writer.LARGE_FOR), rows=90)
    assert len(rows(tables, "deliveries")) == 150
    assert limits[-1] == 2_000


def telling(spark: "SparkSession", data: Path, number: int, subject: str, text: str) -> Epoch:
    # Deliveries: of an event that comes again its broker would know by itself.
    to = [("listener", [f"listener\0{subject}"], 1, False)]
    told = spark.createDataFrame(
        [("local", "delivery", f"e{number}", subject, "somebody", 1.0, text.encode(), 2, to)],
        "broker string, kind string, id string, subject string, publisher string, time double, "
        "payload binary, qos int, recipients array<struct<session: string, "
        "subscriptions: array<string>, priority: int, replayed: boolean>>",
    )
    found = epoch(spark, number, SOME)
    return Epoch(number, found.tables, told, {"path": str(data), "query": "test"})


def test_a_table_can_be_read_before_it_has_rows(spark: "SparkSession", tables: Tables) -> None:
    for number in range(3):
        write_small(tables, epoch(spark, number, [], 0))
    found = tables.frame(spark, "contexts")
    assert found is not None
    assert found.count() == 0
    assert set(found.columns) == {"node", "time", "payload", "friends"}
    assert [each.files for each in tables.statistics()] == [0, 0]


def test_epochs_of_both_kinds_are_compacted_together(spark: "SparkSession", tables: Tables) -> None:
    for number in range(6):
        (write_large if number % 2 else write_small)(tables, epoch(spark, number, SOME, number))
    before = rows(tables, "contexts"), rows(tables, "events")
    assert set(tables.compact()) == {"contexts", "events"}
    assert (rows(tables, "contexts"), rows(tables, "events")) == before
    assert len(before[0]) == 18
