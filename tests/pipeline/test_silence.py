"""Time passes for the pipeline though nobody says anything: pairs part, and waits end."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.core.model.geometry.position import Position
from nearcast.store.rows.row_kinds import TICK
from tests.support.broker_process import BrokerProcess
from tests.support.clients.person import METRE, Person
from tests.support.logs.broker_log import count_rows
from tests.support.pipeline_process import PipelineProcess
from tests.support.waiting import until

pytestmark = pytest.mark.spark

SETTINGS = """
[aggregates]
"spots/#" = "volume 5 wait 2"

[decide]
"left/#" = "spark"

[gathering]
every_s = 1
wait_s = 60

[pipeline]
lateness_s = 1
encounters_m = 100
encounters_fresh_s = 3
traffic_window_s = 5
"""
IDLE_S = 15.0
"""Far longer than time is asked for while something waits for it."""


class Story(Struct):
    """What came of it."""

    states: list[str]
    counts: list[int]
    left_events: list[str]
    left_people: list[int]
    ticks_before: int
    ticks: int
    ticks_later: int


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("silence")
    (directory / "nearcast.toml").write_text(SETTINGS)
    data = directory / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        pipeline, broker = PipelineProcess(data), BrokerProcess(data)
        people: list[Person] = []
        try:
            broker.wait_until_it_listens()
            yield _lived(data, broker.port, pipeline, people)
        finally:
            for person in people:
                person.leave()
            pipeline.end()
            broker.end()


def _lived(data: Path, port: int, pipeline: PipelineProcess, people: list[Person]) -> Story:
    people += [Person(name, port) for name in ("watcher", "ann", "ben")]
    watcher, ann, ben = people
    watcher.subscribe("encounters/#", "spots/#")

    def told(first_level: str) -> list[dict[str, object]]:
        messages = [each for each in list(watcher.got) if each.topic.startswith(first_level)]
        return [json.loads(each.payload) for each in messages]

    def aggregates() -> list[dict[str, object]]:
        return [each for each in told("spots") if "count" in each]

    def left() -> list[str]:
        return [each.payload.decode() for each in list(watcher.got) if each.topic == "left/one"]

    def left_people() -> list[int]:
        return [int(str(each["people"])) for each in told("left/two")]

    watcher.subscribe("left/one", nc_aggregate="volume 5 wait 2")
    watcher.subscribe("left/two")
    pipeline.wait_until_it_follows()
    before = count_rows(data, TICK)
    ann.move(Position(53.35, -6.26))
    ben.move(Position(53.35 + 20 * METRE, -6.26))
    ann.publish("spots/pub", "{}")
    until(lambda: len(aggregates()) == 1, "what waited went out")
    until(lambda: len(told("encounters")) == 2, "who fell silent have parted")
    # The last of the traffic is told of when its window is over.
    pipeline.wait_until(lambda queries: True)
    timers = data / "checkpoints" / "backlog" / "timers.json"
    until(lambda: json.loads(timers.read_text()) == {}, "nothing waits for time")
    # Now no other query asks for the time.
    ann.publish("left/one", "waits")
    until(lambda: len(left()) == 1, "what waited for a subscription went out")
    for each in (ann, ben):
        each.publish("left/two", "{}", nc_people="2")
    until(lambda: len(left_people()) == 1, "what two people said went out")
    until(lambda: json.loads(timers.read_text()) == {}, "nothing waits for time again")
    ticks = count_rows(data, TICK)
    time.sleep(IDLE_S)
    return Story(
        [str(each["state"]) for each in told("encounters")],
        [int(str(each["count"])) for each in aggregates()],
        left(),
        left_people(),
        before,
        ticks,
        count_rows(data, TICK),
    )


def test_two_who_fall_silent_part_though_nobody_else_moves(story: Story) -> None:
    assert story.states == ["near", "apart"]


def test_a_wait_ends_though_nothing_else_is_taken_in(story: Story) -> None:
    assert story.counts == [1]


def test_a_wait_of_a_subscription_ends_where_the_pipeline_alone_decides(story: Story) -> None:
    assert story.left_events == ["waits"]


def test_a_base_set_goes_out_at_a_tick_where_the_pipeline_alone_decides(story: Story) -> None:
    assert story.left_people == [2]


def test_a_broker_records_the_time_only_while_something_waits_for_it(story: Story) -> None:
    assert story.ticks_before == 0
    assert 0 < story.ticks < 30
    assert story.ticks_later <= story.ticks + 2
