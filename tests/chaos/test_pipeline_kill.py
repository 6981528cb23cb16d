"""kill -9 of the pipeline or a part of it, of the broker, of both: nothing is lost, nothing twice.

People publish on, somebody listens, and whatever is killed begins again where it was. In the end
every table is complete, and what was decided, gathered or noticed in the pipeline has come once.
`NEARCAST_KILLS_PIPELINE` says how often something is killed. Moments differ from run to
run, whatever the seed: the system has a say in them.
"""

import json
import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.core.gathering import cell_of
from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs.java import find_java
from nearcast.store import Row
from tests.chaos.workers import Worker, check_errors, until_with
from tests.support.broker_process import BrokerProcess
from tests.support.clients.person import METRE
from tests.support.clients.stubborn_client import GoneError, Got, StubbornClient
from tests.support.logs.broker_log import read_log
from tests.support.logs.table_rows import table_rows
from tests.support.pipeline_process import PipelineProcess
from tests.support.waiting import WAIT_S

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("NEARCAST_KILLS_PIPELINE", "3"))
EVERY_S = 0.1
"""How often each publisher publishes."""
LOG_LOOK_S = 0.5
"""How often the whole log is read, to wait for something in it."""
SETTINGS: dict[str, object] = {
    "decide": '{"news/#" = "spark"}',
    "aggregates": '{"spots/#" = "people 10 per cell 500"}',
    "pipeline.encounters_fresh_s": 86_400,
    "situation.position_ttl_s": 86_400,
}
BROKER, PIPELINE, BOTH = "broker", "pipeline", "both"
JAVA, WORKER = "java", "worker"
"""Parts of the pipeline: it ends without the first, and does without one of the second."""


class Lives:
    """A broker and a pipeline that are killed and begin again on the same data and port."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.broker = BrokerProcess(data, SETTINGS).wait_until_it_listens()
        self.port = self.broker.port
        self.pipeline = PipelineProcess(data, SETTINGS)

    def kill(self, what: str) -> None:
        if what in (PIPELINE, BOTH):
            self.pipeline.kill()
        if what in (BROKER, BOTH):
            self.broker.kill()
        if what == JAVA:
            self.pipeline.kill_programs("java")
            self.pipeline.process.wait(WAIT_S)
            self.pipeline.kill()
        if what == WORKER:
            self.pipeline.kill_programs("python")

    def begin_again(self, what: str) -> None:
        if what in (PIPELINE, BOTH, JAVA):
            self.pipeline = PipelineProcess(self.data, SETTINGS)
        if what in (BROKER, BOTH):
            self.broker = BrokerProcess(self.data, SETTINGS, port=self.port).wait_until_it_listens()

    def end(self) -> None:
        self.pipeline.end()
        self.broker.end()


class Publisher(Worker):
    """Publishes numbers, each again until it is acknowledged, by QoS 1 and 2 in turn."""

    def __init__(self, client: StubbornClient, port: int) -> None:
        super().__init__(client, port)
        self.published = 0
        self.quiet = threading.Event()
        self._next = 0.0

    def step(self) -> None:
        client = self.client
        if client.has_room and not self.quiet.is_set() and time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            number = self.published
            # Counted before: a message that the connection did not take is sent again.
            self.published += 1
            qos = 1 + number % 2
            news = {"id": f"n{number}", "text": str(number)}
            client.publish(f"$me/publish/news/{self.name}/{qos}", json.dumps(news).encode(), qos)
        client.listen(EVERY_S / 2)


def stubbornly(name: str, lives: Lives, topic: str, payload: str) -> None:
    """Let somebody publish one message, however often that takes."""
    client = StubbornClient(name)
    deadline = time.monotonic() + WAIT_S
    while True:
        assert time.monotonic() < deadline, f"{name} cannot publish"
        try:
            client.connect(lives.port)
            if not client.unfinished:
                client.publish(topic, payload.encode(), 1)
            client.finish(WAIT_S)
            client.disconnect()
            return
        except GoneError:
            time.sleep(0.05)


class Story(Struct):
    """What came of it."""

    got: list[Got]
    published: dict[str, int]
    """Numbers that each publisher published."""
    meetings: int
    spots: list[str]
    tables: dict[str, list[dict[str, Any]]]
    log: list[Row]
    broker_said: str


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, chance: random.Random) -> Iterator[Story]:
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    lives = Lives(tmp_path_factory.mktemp("pipeline-kill") / "data")
    workers: list[Worker] = []
    try:
        yield _lived(lives, workers, chance)
    finally:
        for worker in workers:
            worker.done.set()
        lives.end()


def _lived(lives: Lives, workers: list[Worker], chance: random.Random) -> Story:
    listener = Worker(StubbornClient("listener"), lives.port)
    listener.client.connect(lives.port)
    listener.client.subscribe("news/#", "spots", "encounters/#", qos=2)
    publishers = [Publisher(StubbornClient(f"pub-{number}"), lives.port) for number in range(2)]
    workers += [listener, *publishers]
    for worker in workers:
        worker.start()
    spots: list[str] = []
    meetings = 0
    stubbornly("stays", lives, "$me/position", "51.0,5.0")
    stubbornly("walks", lives, "$me/position", f"{51 + 140 * METRE},5.0")
    for what in _deck(chance):
        spot = len(spots)
        for person in range(9):
            at_spot(lives, spot, person)
        if not spots:
            # Between the ninth and the tenth, exactly: the pipeline knows nine of them.
            knows_nine = "the pipeline knows nine people"
            until_with(workers, lambda: knows(lives, "s0-8"), knows_nine, LOG_LOOK_S)
        else:
            _at_some_moment(lives, workers, chance)
        lives.kill(what)
        at_once = what in (PIPELINE, JAVA)
        if at_once:
            at_spot(lives, spot, 9)
        lives.begin_again(what)
        if not at_once:
            at_spot(lives, spot, 9)
        spots.append(cell_of(*place(spot), 500.0).label)
        meetings += 1
        away_m = 70 if meetings % 2 else 140
        stubbornly("walks", lives, "$me/position", f"{51 + away_m * METRE},5.0")
        check_errors(workers)
    for publisher in publishers:
        publisher.quiet.set()
    until_with(
        workers, lambda: not any(each.client.unfinished for each in publishers), "all is sent"
    )
    wanted = sum(each.published for each in publishers) + len(spots) + meetings
    until_with(workers, lambda: len(once(listener.client.got)) >= wanted, "all has come")
    # What the pipeline told is in the log too, and so in the tables.
    told = len(spots) + meetings
    until_with(workers, lambda: told_in_log(lives) >= told, "all is in the log", LOG_LOOK_S)
    lives.pipeline.wait_until_it_has_all()
    for worker in workers:
        worker.end()
    assert lives.pipeline.stop() == 0, lives.pipeline.said
    assert lives.broker.stop() == 0
    return Story(
        listener.client.got,
        {each.name: each.published for each in publishers},
        meetings,
        spots,
        table_rows(lives.data),
        read_log(lives.data),
        lives.broker.said,
    )


def _deck(chance: random.Random) -> list[str]:
    """What is killed, one after the other: first the pipeline, then each in an order that differs.

    Three kills are one of each kind.
    """
    deck = [PIPELINE, *chance.sample((BROKER, BOTH), 2)]
    while len(deck) < KILLS:
        deck += chance.sample((BROKER, PIPELINE, BOTH, JAVA, WORKER), 5)
    return deck[:KILLS]


def _at_some_moment(lives: Lives, workers: list[Worker], chance: random.Random) -> None:
    """Return while the pipeline begins, or while it is at work."""
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0.0, 8.0))
        return
    reached = lives.pipeline.reached("tables")
    until_with(workers, lambda: lives.pipeline.reached("tables") > reached, "the pipeline goes on")
    time.sleep(chance.uniform(0.0, 2.0))


def place(spot: int) -> tuple[float, float]:
    return 52.0 + spot * 0.1, 5.0


def at_spot(lives: Lives, spot: int, person: int) -> None:
    lat, lon = place(spot)
    event = {"id": f"s{spot}-{person}", "at": f"{lat},{lon}", "payload": {"noise": person}}
    stubbornly(f"p{person}", lives, "$me/publish/spots/pub", json.dumps(event))


def knows(lives: Lives, event_id: str) -> bool:
    """Whether the pipeline has gathered an event."""
    seqs = [row.seq for row in read_log(lives.data) if row.event_id == event_id]
    return bool(seqs) and lives.pipeline.reached("gather") >= seqs[0]


def told_in_log(lives: Lives) -> int:
    found = read_log(lives.data)
    return len({row.event_id for row in found if row.publisher == "$pipeline"})


def once(got: list[Got]) -> set[tuple[str, bytes]]:
    return {(each.topic, each.payload) for each in list(got)}


def test_news_decided_in_the_pipeline_are_neither_lost_nor_repeated(story: Story) -> None:
    came: defaultdict[str, list[int]] = defaultdict(list)
    for got in story.got:
        if got.topic.startswith("news/"):
            came[got.topic].append(int(got.payload))
    for name, published in story.published.items():
        assert published > 10 * KILLS
        for qos in (1, 2):
            found = came.pop(f"news/{name}/{qos}")
            assert sorted(set(found)) == list(range(qos - 1, published, 2)), "something is lost"
            # By QoS 1 a client may get a message again when its broker cannot know better.
            assert qos == 1 or len(found) == len(set(found)), "something came twice"
            first = list(dict.fromkeys(found))
            assert first == sorted(first), "something is out of order"
    assert not came


def test_ten_people_at_a_spot_release_one_aggregate_with_all_ten(story: Story) -> None:
    told = [json.loads(got.payload) for got in story.got if got.topic == "spots"]
    assert [each["cell"] for each in told].count(story.spots[0]) == 1
    assert Counter(each["cell"] for each in told) == Counter(story.spots)
    for each in told:
        assert (each["people"], each["count"]) == (10, 10)
        assert each["attributes"] == {"noise": {"mean": 4.5}}
    kept = Counter(row["group"].removeprefix("cell:") for row in story.tables["aggregates"])
    assert kept == Counter(story.spots)


def test_who_meets_is_told_once(story: Story) -> None:
    wanted = ["near" if number % 2 == 0 else "apart" for number in range(story.meetings)]
    told = [json.loads(got.payload) for got in story.got if got.topic.startswith("encounters/")]
    assert [each["state"] for each in told] == wanted
    assert {(each["a"], each["b"]) for each in told} == {("stays", "walks")}
    kept = sorted(story.tables["encounters"], key=lambda row: float(row["time"]))
    assert [row["state"] for row in kept if row["state"] != "closer"] == wanted


def test_every_table_is_complete(story: Story) -> None:
    tables = story.tables
    logged = [row for row in story.log if row.kind == "event"]
    assert sorted(row["seq"] for row in tables["events"]) == [row.seq for row in logged]
    published = {
        (name, f"n{number}") for name, count in story.published.items() for number in range(count)
    }
    people = {(f"p{n}", f"s{spot}-{n}") for spot in range(len(story.spots)) for n in range(10)}
    told = len(story.spots) + story.meetings
    names = Counter((row["publisher"], row["event_id"]) for row in tables["events"])
    assert set(names.values()) == {1}
    assert {name for name in names if name[0] != "$pipeline"} == published | people
    # When it takes so long that windows of traffic end: nobody here wants to be told.
    assert sum(name[0] == "$pipeline" for name in names) == told
    windows = Counter((row["cell"], row["start"]) for row in tables.get("traffic", []))
    assert set(windows.values()) <= {1}
    assert tables["rejects"] == []

    moved = [row.seq for row in story.log if row.kind == "position"]
    assert sorted(row["seq"] for row in tables["contexts"]) == moved
    to = Counter((row["publisher"], row["event_id"]) for row in tables["deliveries"])
    assert set(to) == set(names) - people
    assert set(to.values()) == {1}
    assert all(row["count"] == 1 for row in tables["deliveries"])


def test_the_broker_has_nothing_to_complain_of(story: Story) -> None:
    assert "Traceback" not in story.broker_said
