"""All of it with real parts: clients, a broker, a pipeline that follows its log, and tables.

Ten people tell where they are and what goes on at a spot, one of them has news, and two of them
meet. Somebody far away hears of the news that the pipeline decided on, of the spot once all ten
are there, and of the two.
"""

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.core.gathering import cell_of
from nearcast.core.model.geometry.position import Position
from nearcast.pipeline.jobs.audit import Audit, audit
from tests.support.broker_process import BrokerProcess
from tests.support.clients.person import METRE, Person
from tests.support.logs.broker_log import count_rows
from tests.support.logs.table_rows import table_rows
from tests.support.pipeline_process import PipelineProcess, variables
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WITHIN_S = 300.0
SETTINGS = """
[record]
deliveries = true

[decide]
"news/#" = "spark"

[aggregates]
"spots/#" = "people 10 per cell 500"

[pipeline]
encounters_m = 100
encounters_fresh_s = 3600
"""
SPOT = cell_of(51.4416, 5.4697, 500.0)
EAST = METRE / math.cos(math.radians(SPOT.centre.lat))
PLACES = [
    Position(
        SPOT.centre.lat + (row - 1) * 130 * METRE, SPOT.centre.lon + (column - 1.5) * 130 * EAST
    )
    for row in range(3)
    for column in range(4)
][:10]
"""In one cell of 500 m, none within 100 m of another."""
BESIDE_P1 = Position(PLACES[1].lat, PLACES[1].lon - 20 * EAST)


class Heard(Struct, frozen=True):
    """A message that came."""

    topic: str
    payload: bytes
    qos: int
    properties: list[tuple[str, str]]


class Story(Struct):
    """What came of it."""

    heard: list[Heard]
    heard_before_the_tenth: list[str]
    status: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    audit: Audit

    def of(self, first_level: str) -> list[Heard]:
        return [each for each in self.heard if each.topic.split("/")[0] == first_level]

    def said(self, first_level: str) -> list[dict[str, Any]]:
        return [json.loads(each.payload) for each in self.of(first_level)]


@pytest.fixture(scope="module")
def story(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("end-to-end")
    (directory / "nearcast.toml").write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        # Where all programs find their settings.
        patch.chdir(directory)
        data = directory / "data"
        pipeline = PipelineProcess(data)
        broker = BrokerProcess(data)
        everybody: list[Person] = []
        try:
            broker.wait_until_it_listens()
            yield _lived(spark, data, broker.port, pipeline, everybody)
        finally:
            for person in everybody:
                person.leave()
            pipeline.end()
            broker.end()


def _lived(
    spark: "SparkSession",
    data: Path,
    port: int,
    pipeline: PipelineProcess,
    everybody: list[Person],
) -> Story:
    watcher = Person("watcher", port)
    everybody.append(watcher)
    watcher.subscribe("news/#", nc_where="urgency >= 2")
    watcher.subscribe("spots", "encounters/#", nc_meta="1")
    people = [Person(f"p{number}", port) for number in range(10)]
    everybody += people

    def heard(first_level: str) -> int:
        return sum(message.topic.split("/")[0] == first_level for message in list(watcher.got))

    for person, at in zip(people, PLACES, strict=True):
        person.move(at)
    for number, person in enumerate(people[:9]):
        person.publish("spots/pub", json.dumps({"noise": 60 + number}), nc_id=f"s{number}")
    for _ in range(2):
        people[3].publish("news/local", '{"urgency": 3}', nc_id="n1", colour="red", size="2")
    people[3].publish("news/local", '{"urgency": 1}', nc_id="n2")
    until(lambda: count_rows(data, "event") == 9 + 2, "all are in the log")
    pipeline.wait_until_it_has_all()
    until(lambda: heard("news") == 1, "the news came")
    before = [message.topic for message in list(watcher.got)]

    people[0].move(BESIDE_P1)
    until(lambda: heard("encounters") == 1, "two have met")
    people[0].move(PLACES[0])
    until(lambda: heard("encounters") == 2, "they have parted")
    people[9].publish("spots/pub", json.dumps({"noise": 69}), nc_id="s9")
    until(lambda: heard("spots") == 1, "ten people are at the spot")
    # What the pipeline tells is in the log too, and so in the tables.
    until(lambda: count_rows(data, "event") == 10 + 2 + 3, "all is in the log")
    pipeline.wait_until_it_has_all()
    pipeline.wait_until(lambda queries: not any(sum(e.lag.values()) for e in queries.values()))
    status = nearcast("pipeline", "status", "--json", "--data", str(data))
    assert pipeline.stop() == 0, pipeline.said
    log = spark.read.format("nearcast").option("path", str(data)).load()
    return Story(
        [
            Heard(each.topic, each.payload, each.qos, getattr(each.properties, "UserProperty", []))
            for each in watcher.got
        ],
        before,
        status,
        table_rows(data),
        audit(log, str(data)),
    )


def nearcast(*words: str) -> dict[str, Any]:
    """What a command prints as JSON, whatever its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "nearcast", *words],
        env=variables(), capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_news_decided_in_the_pipeline_come_once_with_all_that_they_carried(story: Story) -> None:
    (news,) = story.of("news")
    assert (news.topic, news.payload, news.qos) == ("news/local", b'{"urgency": 3}', 2)
    told = dict(news.properties)
    assert {name: told[name] for name in ("colour", "size", "nc-id", "nc-publisher")} == {
        "colour": "red",
        "size": "2",
        "nc-id": "n1",
        "nc-publisher": "p3",
    }
    assert told["nc-subscription"] == "news/#"
    assert told["nc-at"] == f"{PLACES[3].lat},{PLACES[3].lon}"


def test_ten_people_at_a_spot_are_told_of_together_and_nine_are_not(story: Story) -> None:
    assert story.heard_before_the_tenth == ["news/local"]
    (told,) = story.said("spots")
    assert (told["people"], told["count"], told["cell"]) == (10, 10, SPOT.label)
    assert told["attributes"] == {"noise": {"mean": pytest.approx(64.5)}}


def test_those_who_meet_are_told_of_when_they_do_and_when_they_part(story: Story) -> None:
    near, apart = story.said("encounters")
    assert [each.topic for each in story.of("encounters")] == ["encounters/p0/p1"] * 2
    assert (near["a"], near["b"], near["state"]) == ("p0", "p1", "near")
    assert near["distance_m"] == pytest.approx(20.0, rel=0.01)
    assert (apart["a"], apart["b"], apart["state"]) == ("p0", "p1", "apart")
    assert apart["distance_m"] == pytest.approx(130.0, rel=0.01)
    assert apart["time"] > near["time"]


def test_what_the_pipeline_tells_comes_exactly_once_by_qos_2(story: Story) -> None:
    assert {each.qos for each in story.heard} == {2}
    ids = [dict(each.properties)["nc-id"] for each in story.heard]
    assert len(set(ids)) == len(ids) == 4


def test_tables_hold_exactly_what_was_published(story: Story) -> None:
    tables = story.tables
    published = {
        **{(f"p{n}", f"s{n}"): ("spots/pub", b'{"noise": %d}' % (60 + n)) for n in range(10)},
        ("p3", "n1"): ("news/local", b'{"urgency": 3}'),
        ("p3", "n2"): ("news/local", b'{"urgency": 1}'),
    }
    told = {
        ("$pipeline", dict(each.properties)["nc-id"]): (each.topic, each.payload)
        for each in story.of("spots") + story.of("encounters")
    }
    events = {
        (row["publisher"], row["event_id"]): (row["subject"], row["payload"])
        for row in tables["events"]
    }
    assert events == published | told
    assert len(tables["events"]) == len(events)
    assert tables["rejects"] == []

    moves = [(f"p{n}", at) for n, at in enumerate(PLACES)]
    moves += [("p0", BESIDE_P1), ("p0", PLACES[0])]
    contexts = sorted(tables["contexts"], key=lambda row: int(row["seq"]))
    assert [(row["node"], Position(row["lat"], row["lon"])) for row in contexts] == moves

    delivered = {
        (row["publisher"], row["event_id"]): (
            row["elsewhere"],
            [each["session"] for each in row["recipients"]],
        )
        for row in tables["deliveries"]
    }
    assert delivered == {("p3", "n1"): (True, ["watcher"])} | {
        event: (False, ["watcher"]) for event in told
    }
    assert len(tables["deliveries"]) == len(delivered)

    (aggregate,) = tables["aggregates"]
    (heard,) = story.of("spots")
    assert aggregate["payload"].encode() == heard.payload
    assert (aggregate["people"], aggregate["count"]) == (10, 10)
    met = Counter((row["a"], row["b"], row["state"]) for row in tables["encounters"])
    assert met == {("p0", "p1", "near"): 1, ("p0", "p1", "apart"): 1}


def test_the_audit_finds_no_difference(story: Story) -> None:
    assert story.audit.passed, story.audit
    assert story.audit.copies == 4
    assert not any(story.audit.counts.values()), story.audit
    assert story.audit.unrecorded == story.audit.unusable == 0


def test_the_status_tells_how_it_does(story: Story) -> None:
    assert story.status["running"]
    queries = {query["name"]: query for query in story.status["status"]["queries"]}
    assert set(queries) == {"tables", "gather", "movement"}
    for query in queries.values():
        assert query["state"] == "running"
        assert query["epoch"] >= 0
        assert query["lag"] == {"local": 0}
    assert queries["gather"]["state_rows"] > 0
    assert queries["movement"]["state_rows"] > 0
    rows = {table["name"]: table["rows"] for table in story.status["tables"]}
    assert rows == {name: len(found) for name, found in story.tables.items()}
