"""A pipeline of two brokers of which one is away: the other hears everything, and it later too."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.jobs.status import Status, figures, problems
from tests.support.broker_process import BrokerProcess
from tests.support.clients.person import Person
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.pipeline_process import PipelineProcess
from tests.support.waiting import until

pytestmark = pytest.mark.spark

SETTINGS = '[aggregates]\n"hazard/#" = "volume 2"\n\n[pipeline]\nencounters_m = 0\n'


class Story(Struct):
    """What came of it."""

    status: Status
    east: list[str]
    west: list[str]


def start(data: Path, name: str) -> BrokerProcess:
    errors = data.parent / f"{name}.stderr"
    return BrokerProcess(data, {"broker.name": name}, errors=errors).wait_until_it_listens()


def waits(pipeline: PipelineProcess, rows: int) -> bool:
    """Whether the status says that so many rows wait for the broker that is away."""
    status = pipeline.status()
    found = [] if status is None else status.backlogs
    return any(e.broker == "west" and e.rows == rows and e.problem for e in found)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("absent")
    (directory / "nearcast.toml").write_text(SETTINGS)
    data = directory / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        east, west = start(data, "east"), start(data, "west")
        far = StubbornClient("far")
        far.connect(west.port)
        far.subscribe("hazard/#")
        far.leave()
        west.kill()
        near = Person("near", east.port)
        pipeline = PipelineProcess(data)
        try:
            yield _lived(data, near, far, pipeline)
        finally:
            near.leave()
            far.leave()
            pipeline.end()
            east.end()


def _lived(data: Path, near: Person, far: StubbornClient, pipeline: PipelineProcess) -> Story:
    def heard() -> list[str]:
        told = [json.loads(each.payload) for each in list(near.got)]
        return [each["events"][0]["id"] for each in told if "events" in each]

    def publish(pair: int) -> None:
        for number in range(2):
            near.publish("hazard/ice", "{}", nc_id=f"{pair}.{number}")

    near.subscribe("hazard/#")
    for pair in range(3):
        publish(pair)
        until(lambda: len(heard()) > pair, f"pair {pair} was told of at once")  # noqa: B023
    until(lambda: waits(pipeline, 3), "the status says who is away")
    status = pipeline.status()
    assert status is not None
    # What waits survives the pipeline, and goes out before what comes later.
    pipeline.kill()
    publish(3)
    again = PipelineProcess(data)
    west = start(data, "west")
    try:
        until(lambda: len(heard()) == 4, "the fourth pair was told of")
        far.connect(west.port)

        def has_all() -> bool:
            far.listen(0.1)
            return len(far.got) >= 4

        until(has_all, "the other broker told of all")
        far.listen(0.5)
    finally:
        again.end()
        west.end()
    return Story(status, heard(), [json.loads(each.payload)["events"][0]["id"] for each in far.got])


def test_a_broker_that_is_away_holds_up_nobody_else(story: Story) -> None:
    assert story.east == ["0.0", "1.0", "2.0", "3.0"]
    assert [query.failures for query in story.status.queries] == [0] * len(story.status.queries)


def test_it_gets_all_that_it_missed_once_and_in_order(story: Story) -> None:
    assert story.west == ["0.0", "1.0", "2.0", "3.0"]


def test_the_status_says_what_waits_since_when_and_why(story: Story) -> None:
    (backlog,) = [each for each in story.status.backlogs if each.broker == "west"]
    assert backlog.rows == 3
    assert backlog.since is not None
    (problem,) = problems(story.status)
    assert problem.startswith("broker west takes no rows; 3 rows, 0.0 MB wait since 20")
    found = figures(story.status)
    assert (found["backlog_brokers"], found["backlog_rows"]) == (1, 3)
    assert found["backlog_seconds"] > 0
