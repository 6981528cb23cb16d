"""Aggregates: the processor alone, real queries with watermarks and timers, history the same."""

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues
from pyspark.sql.streaming.tws_tester import TwsTester

from nearcast.core.gathering import GatheringRule, Part, parse_rules
from nearcast.core.model import Circle, Position, subject_matches
from nearcast.pipeline.gather.aggregates import AGGREGATES, Gathering, aggregates, named_in
from nearcast.pipeline.gather.gathered_events import NamedPlace, Packet, java_regex, pack
from nearcast.store import Row
from nearcast.store.log.segments import batch_of
from tests.support.logs.spark_schema import LOG_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

HERE = Position(53.35, -6.26)
PUB: NamedPlace = ("pub", "Joe's", Circle(HERE, 100.0))


def event(
    seq: int,
    publisher: str,
    ingested: float,
    subject: str = "spots/a",
    *,
    event_id: str | None = None,
    time: float | None = None,
    at: Position | None = HERE,
) -> Row:
    """A row of the log: an event at the pub, unless said otherwise."""
    return Row(
        "b", seq, "event", ingested,
        event_id=event_id or f"e{seq}",
        subject=subject,
        publisher=publisher,
        time=ingested if time is None else time,
        lat=None if at is None else at.lat,
        lon=None if at is None else at.lon,
        payload=b'{"mood":"good"}',
    )  # fmt: skip


# The processor alone


def arrival(seq: int, publisher: str, ingested: float) -> SparkRow:
    part = Part(f"e{seq}", publisher, ingested, ingested)
    return SparkRow(ingested=ingested, broker="b", seq=seq, packet=pack(Packet(part, None)))


class OneGroup:
    """The processor of one rule, with one group."""

    def __init__(self, text: str, lateness_s: float = 900.0) -> None:
        self.processor = _OneKey(parse_rules({"a": text}), lateness_s)
        # The events here have no time of their own that Spark would know of.
        self._tester = TwsTester(
            self.processor, timeMode="EventTime", eventTimeExtractor=lambda row: 1 << 60
        )

    def add(self, *rows: SparkRow) -> list[SparkRow]:
        return _aggregates(self._tester.test("a", list(rows)))

    def pass_time(self, watermark: float) -> list[SparkRow]:
        found = self._tester.setWatermark(int(watermark * 1000))
        assert isinstance(found, list)
        return _aggregates(found)

    def has_state(self) -> bool:
        return self._tester.peekValueState("group", "a") is not None

    @property
    def timers(self) -> list[int]:
        self._tester.handle.setGroupingKey("a")
        return list(self._tester.handle.listTimers())


def _aggregates(rows: Iterable[SparkRow]) -> list[SparkRow]:
    """Return rows without those that only say when a group is due."""
    return [row for row in rows if row.id is not None]


class _OneKey(Gathering):
    """The tester knows keys of one value only."""

    def handleInputRows(  # type: ignore[override]  # noqa: N802
        self, key: tuple[str], rows: Iterator[SparkRow], values: TimerValues
    ) -> Iterator[SparkRow]:
        return super().handleInputRows((key[0], "subject:a"), rows, values)

    def handleExpiredTimer(  # type: ignore[override]  # noqa: N802
        self, key: tuple[str], values: TimerValues, info: ExpiredTimerInfo
    ) -> Iterator[SparkRow]:
        return super().handleExpiredTimer((key[0], "subject:a"), values, info)


def test_rows_of_a_batch_are_gathered_in_the_order_of_ingest() -> None:
    tester = OneGroup("volume 2")
    found = tester.add(*(arrival(seq, "ann", 1000.0 + seq) for seq in (4, 2, 1, 3, 5)))
    assert [ids(row) for row in found] == [["e1", "e2"], ["e3", "e4"]]
    assert [ids(row) for row in tester.add(arrival(6, "ann", 1006.0))] == [["e5", "e6"]]


def test_a_part_that_came_before_is_not_counted_again() -> None:
    tester = OneGroup("volume 2")
    one, two, three = (arrival(seq, "ann", 1000.0 + seq) for seq in (1, 2, 3))
    assert tester.add(one, one) == []
    assert [ids(row) for row in tester.add(one, two)] == [["e1", "e2"]]
    assert tester.add(one, two, three) == []


def test_what_waits_too_long_goes_out_by_a_timer() -> None:
    tester = OneGroup("volume 5 wait 30")
    assert tester.add(arrival(1, "ann", 1000.0), arrival(2, "ann", 1010.0)) == []
    assert tester.pass_time(1029.9) == []
    assert [ids(row) for row in tester.pass_time(1030.1)] == [["e1", "e2"]]
    assert tester.pass_time(1100.0) == []


def test_state_and_timers_are_gone_when_nothing_on_time_could_find_them() -> None:
    tester = OneGroup("volume 5 within 100", lateness_s=50.0)
    tester.add(arrival(1, "ann", 1000.0))
    tester.add(arrival(2, "ann", 1020.0))
    assert len(tester.timers) == 1
    assert tester.pass_time(1169.9) == []
    assert tester.has_state()
    assert tester.pass_time(1170.1) == []
    assert not tester.has_state()
    assert tester.timers == []


def test_a_broker_that_is_far_behind_does_not_reach_state() -> None:
    tester = OneGroup("volume 1", lateness_s=50.0)
    tester.pass_time(2000.0)
    assert tester.add(arrival(1, "ann", 1949.0)) == []
    assert len(tester.add(arrival(2, "ann", 1950.0))) == 1


def test_state_of_a_rule_that_is_no_more_goes_with_its_timer() -> None:
    tester = OneGroup("volume 5 wait 30")
    tester.add(arrival(1, "ann", 1000.0))
    tester.processor._rules.clear()
    assert tester.pass_time(1031.0) == []
    assert not tester.has_state()


# Real queries


class Gatherer:
    """A query that follows a directory of files, one file a batch."""

    def __init__(
        self,
        spark: "SparkSession",
        directory: Path,
        rules: Sequence[GatheringRule],
        lateness_s: float,
    ) -> None:
        self._spark, self._directory = spark, directory
        self._rules, self._lateness_s = rules, lateness_s
        self._files = 0
        self._began = time.time() - 3600.0
        (directory / "log").mkdir()
        self.query: StreamingQuery = self.start()

    def start(self) -> "StreamingQuery":
        log = (
            self._spark.readStream.schema(LOG_SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._directory / "log"))
        )
        self.query = (
            aggregates(log, self._rules, [PUB], lateness_s=self._lateness_s)
            .writeStream.format("parquet")
            .option("path", str(self._directory / "found"))
            .option("checkpointLocation", str(self._directory / "checkpoint"))
            .start()
        )
        return self.query

    def put(self, *rows: Row) -> None:
        """Add a file of rows; it is seen when it is whole, after those that were added before."""
        self._files += 1
        partial = self._directory / f"partial-{self._files}"
        pq.write_table(pa.Table.from_batches([batch_of(rows)]), partial)
        # Spark takes files in the order of their times, and files of one time in any order.
        os.utime(partial, (self._began + self._files,) * 2)
        partial.rename(self._directory / "log" / f"{self._files:08d}.parquet")

    def gather(self, *rows: Row) -> None:
        self.put(*rows)
        self.query.processAllAvailable()

    def found(self) -> list[SparkRow]:
        return self._spark.read.schema(AGGREGATES).parquet(str(self._directory / "found")).collect()

    def of_history(self) -> list[SparkRow]:
        log = self._spark.read.schema(LOG_SCHEMA).parquet(str(self._directory / "log"))
        return aggregates(log, self._rules, [PUB], lateness_s=self._lateness_s).collect()


Gatherers = Callable[..., Gatherer]


@pytest.fixture
def gatherers(spark: "SparkSession", tmp_path: Path) -> Iterator[Gatherers]:
    started: list[Gatherer] = []

    def start(texts: dict[str, object], lateness_s: float = 900.0) -> Gatherer:
        started.append(Gatherer(spark, tmp_path, parse_rules(texts), lateness_s))
        return started[-1]

    yield start
    for gatherer in started:
        gatherer.query.stop()


def ids(row: SparkRow) -> list[str]:
    return [each["id"] for each in json.loads(row.payload)["events"]]


def test_ten_people_release_one_aggregate_also_over_a_stop(gatherers: Gatherers) -> None:
    gatherer = gatherers({"spots/#": "people 10 per place pub"})
    nine = [event(number, f"person-{number}", 1000.0 + number) for number in range(1, 10)]
    own = event(40, "$pipeline/aggregates", 1010.0)
    elsewhere = event(41, "far", 1010.0, at=Position(53.5, -6.26))
    nowhere = event(42, "lost", 1010.0, at=None)
    gatherer.gather(*nine, nine[3], own, elsewhere, nowhere)
    assert gatherer.found() == []
    gatherer.query.stop()
    gatherer.start()
    gatherer.gather(event(50, "person-10", 1020.0))
    gatherer.gather(*nine, event(51, "person-11", 1021.0))
    (found,) = gatherer.found()
    assert (found.group, found.subject, found.people, found["count"]) == (
        "place:pub/Joe's", "spots", 10, 10,
    )  # fmt: skip
    assert "person" not in found.payload
    assert gatherer.of_history() == [found]


def test_all_rows_move_time_on_but_no_clock_of_a_publisher_does(gatherers: Gatherers) -> None:
    texts: dict[str, object] = {
        "slow/a": "time 30 wait 40",
        "quick/a": "volume 2 within 20",
    }
    gatherer = gatherers(texts, lateness_s=60.0)
    gatherer.gather(
        event(1, "ann", 1000.0, "slow/a"),
        event(2, "ann", 1000.0, "quick/a"),
        event(3, "ann", 1001.0, "slow/a", time=9_000_000.0),
        event(4, "ann", 1001.0, "slow/a", time=940.9),
        event(5, "$pipeline", 1001.0, "slow/a", time=991.0),
    )
    gatherer.gather(event(6, "ann", 1002.0, "slow/a", time=995.0))
    assert gatherer.found() == []
    # A position of anybody: with it, time has passed for the query, and then for its timers.
    gatherer.gather(Row("b", 7, "position", 1045.5, node="bob", lat=1.0, lon=1.0))
    found = gatherer.found()
    assert [(row.rule, ids(row)) for row in found] == [("slow/a", ["e1", "e6"])]
    assert rows_of_state(gatherer.query) == 2
    gatherer.gather(Row("b", 8, "position", 5000.0, node="bob", lat=1.0, lon=1.0))
    assert rows_of_state(gatherer.query) == 0
    assert gatherer.of_history() == found


def rows_of_state(query: "StreamingQuery") -> int:
    progress = query.lastProgress
    assert progress is not None
    return int(progress.stateOperators[0].numRowsTotal)


def test_a_stream_and_its_history_gather_the_same(gatherers: Gatherers) -> None:
    chance = random.Random(20)
    texts: dict[str, object] = {
        "a/#": "volume 3 within 40",
        "+/b": "time 20 wait 25 per cell 500",
        "a/+": "people 3 per place pub within 60 at most 5",
    }
    rows, now = [], 1000.0
    for seq in range(1, 400):
        now += chance.choice((0.0, 0.0, 0.1, 1.0, 1.0, 5.0))
        rows.append(
            event(
                seq,
                f"person-{chance.randrange(6)}",
                now,
                chance.choice(("a", "a/b", "a/c", "c/b", "other")),
                event_id=f"e{chance.randrange(300)}",
                time=now - chance.choice((0.0, 0.0, 2.0, 15.0, 31.0, -50.0, -61.0)),
                at=Position(HERE.lat + chance.choice((0.0, 0.0, 0.0004, 0.01)), HERE.lon),
            )
        )
    gatherer = gatherers(texts, lateness_s=30.0)
    start = 0
    while start < len(rows):
        end = start + chance.choice((1, 10, 60, 120))
        gatherer.put(*rows[start:end])
        start = end
    gatherer.query.processAllAvailable()
    found = gatherer.found()
    assert {row.rule for row in found} == set(texts)
    assert len({row.id for row in found}) == len(found) > 30
    assert sorted(found) == sorted(gatherer.of_history())


def test_a_pattern_selects_in_spark_what_it_selects_in_the_core(spark: "SparkSession") -> None:
    chance = random.Random(5)
    levels = ("a", "b", "", "$x", "é", ".", r"\E", "a b", "\n", "(")
    subjects = ["/".join(chance.choices(levels, k=chance.randint(1, 3))) for _ in range(150)]
    subjects = [subject for subject in set(subjects) if subject]
    patterns = ["#", "+", "a/#", "+/#", "a/+/b", "/", "/+", "a", r"\E/#", "./+", "$x/#", "é", "(/#"]
    frame = spark.createDataFrame([(subject,) for subject in subjects], "subject string")
    columns = [F.col("subject").rlike(java_regex(pattern)) for pattern in patterns]
    for row in frame.select("subject", *columns).collect():
        expected = [subject_matches(pattern, row[0]) for pattern in patterns]
        assert list(row)[1:] == expected, row[0]


def test_an_aggregate_is_about_those_whom_it_names(spark: "SparkSession") -> None:
    said = ['{"people": ["ann", "ben"], "count": 3}', '{"people": 10, "count": 12}']
    rows = spark.createDataFrame([(each,) for each in said], "payload string")
    assert [row.about for row in rows.select(named_in("payload").alias("about")).collect()] == [
        ["ann", "ben"],
        None,
    ]
