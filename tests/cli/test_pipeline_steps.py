"""The steps of a pipeline's start are those that it wrote down itself."""

import time
from pathlib import Path

from msgspec.structs import replace

from nearcast.cli.broker.pipeline_process import PipelineBeside
from nearcast.cli.demo.pipeline_steps import PipelineProgress, progress
from nearcast.pipeline.jobs.status import QueryStatus, Status, write_status

PID = 4711
WAITING = [QueryStatus("tables", "waiting"), QueryStatus("movement", "waiting")]


class Started(PipelineBeside):
    """A pipeline whose process has been started."""

    @property
    def pid(self) -> int:
        return PID


def test_each_step_is_done_when_the_pipeline_says_so(tmp_path: Path) -> None:
    def after(status: Status | None = None) -> PipelineProgress:
        if status is not None:
            write_status(tmp_path, status)
        return progress(tmp_path, Started([]))

    def now(found: PipelineProgress) -> str:
        return str(found.now)

    assert now(after()) == "process"
    # What an earlier pipeline left says nothing of this one.
    assert now(after(Status(time.time(), PID - 1, WAITING))) == "process"
    status = Status(time.time(), PID, WAITING, stage="java")
    assert now(after(status)) == "Java and Spark"
    assert now(after(replace(status, stage="tables"))) == "tables"
    first = [QueryStatus("tables", "running"), WAITING[1]]
    assert now(after(replace(status, stage="queries", queries=first))) == "queries 1 of 2"
    both = [QueryStatus("tables", "running", epoch=3), QueryStatus("movement", "running")]
    assert now(after(replace(status, stage="running", queries=both))) == "first results 1 of 2"
    done = [replace(query, epoch=0) for query in both]
    found = after(replace(status, stage="running", queries=done))
    assert found.is_up
    assert found.now is None
    assert found.problem is None


def test_what_does_not_go_well_is_said(tmp_path: Path) -> None:
    failing = QueryStatus("tables", "failing", failures=2, problem="no disk", failing_since=0.0)
    write_status(tmp_path, Status(time.time(), PID, [failing]))
    found = progress(tmp_path, Started([]))
    assert found.problem is not None
    assert found.problem.endswith("2 times in all: no disk")


def test_nothing_is_said_of_a_pipeline_without_a_process(tmp_path: Path) -> None:
    write_status(tmp_path, Status(time.time(), PID, WAITING))
    found = progress(tmp_path, PipelineBeside([]))
    assert [step.state for step in found.steps] == ["now", *["to do"] * 4]
