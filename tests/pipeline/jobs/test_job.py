"""What the job says of queries that cannot be started, or fail."""

import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.jobs.job import _PipelineRun, alone
from nearcast.pipeline.jobs.queries import Pipeline, PipelineSettings
from nearcast.pipeline.jobs.status import Status, read_status
from nearcast.pipeline.sink.backlog import Backlog, PartWriter
from nearcast.pipeline.sink.sink_options import SinkPart
from nearcast.store import Row
from nearcast.wire.handover import EventRow
from tests.support.logs.broker_log import write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_that_does_not_start_is_failing_from_then_on(tmp_path: Path) -> None:
    no_spark = cast("SparkSession", None)
    job = _PipelineRun(
        Pipeline(no_spark, PipelineSettings(data=str(tmp_path), movement=None)), tmp_path
    )
    stopped = threading.Event()
    stopped.set()
    job.run(stopped)
    status = read_status(tmp_path)
    assert status is not None
    (query,) = status.queries
    assert (query.name, query.state, query.failures) == ("tables", "failing", 1)
    assert query.problem.startswith("'NoneType' object")
    assert query.failing_since is not None
    assert query.failing_since <= status.written


def test_a_start_is_told_stage_by_stage(tmp_path: Path) -> None:
    told: list[Status] = []

    class Watched(Pipeline):
        def start_query(self, name: str) -> None:
            found = read_status(tmp_path)
            assert found is not None
            told.append(found)

    no_spark = cast("SparkSession", None)
    job = _PipelineRun(Watched(no_spark, PipelineSettings(data=str(tmp_path))), tmp_path)
    stopped = threading.Event()
    stopped.set()
    job.run(stopped)
    assert [status.stage for status in told] == ["queries", "queries"]
    assert [query.name for query in told[0].queries] == ["tables", "movement"]
    last = read_status(tmp_path)
    assert last is not None
    assert (last.stage, last.ended) == ("running", True)


def test_what_waits_for_brokers_is_told_when_a_pipeline_ends_and_nothing_is_sent_then(
    tmp_path: Path,
) -> None:
    west = tmp_path / "checkpoints" / "backlog" / "west"
    with PartWriter(west, SinkPart("west", "q", 0, 0, "a", 0)) as writer:
        writer.add([EventRow("1", "t")])
        Backlog(west).add([writer.finish()])
    no_spark = cast("SparkSession", None)
    job = _PipelineRun(
        Pipeline(no_spark, PipelineSettings(data=str(tmp_path), movement=None)), tmp_path
    )
    stopped = threading.Event()
    stopped.set()
    job.run(stopped)
    status = read_status(tmp_path)
    assert status is not None
    assert [(each.broker, each.rows) for each in status.backlogs] == [("west", 1)]
    senders = [each.name for each in threading.enumerate() if each.name == "send-west"]
    assert senders == []


def test_lag_is_told_in_rows_and_in_seconds(tmp_path: Path) -> None:
    then = time.time() - 100.0
    rows = [Row("broker", seq, "position", then + seq, node="ann") for seq in range(1, 6)]
    write_log(tmp_path, "broker", rows, per_segment=2)
    no_spark = cast("SparkSession", None)
    settings = PipelineSettings(data=str(tmp_path), movement=None)

    _PipelineRun(Pipeline(no_spark, settings), tmp_path)._report()

    status = read_status(tmp_path)
    assert status is not None
    (query,) = status.queries
    assert query.lag == {"broker": 5}
    assert 99.0 <= query.lag_s <= 99.0 + time.time() - status.written + 60.0


@pytest.mark.usefixtures("as_nobody")
def test_a_checkpoint_directory_that_may_not_be_written_is_one_message() -> None:
    with TemporaryDirectory() as place:
        checkpoints = Path(place) / "checkpoints"
        checkpoints.mkdir()
        (checkpoints / "lock").touch()
        checkpoints.chmod(0o555)
        with (
            pytest.raises(PipelineError, match="checkpoints cannot be written to: Permission"),
            alone(Path(place)),
        ):
            pass
        checkpoints.chmod(0o755)
        with alone(Path(place)):
            pass
