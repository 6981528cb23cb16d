"""How the pipeline is doing: from Spark's own words to a file, to figures and health."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearcast.broker.operations.metrics import Metrics
from nearcast.console.pipeline_figures import pipeline_figures, pipeline_health
from nearcast.pipeline.jobs.status import (
    FILE,
    STALE_S,
    QueryStatus,
    Status,
    cause_of,
    figures,
    problems,
    query_status,
    read_status,
    write_status,
)
from nearcast.pipeline.sink.backlog import BacklogStatus

PROGRESS = {
    "batchId": 41,
    "numInputRows": 1200,
    "inputRowsPerSecond": 600.5,
    "processedRowsPerSecond": 2400.0,
    "durationMs": {"addBatch": 400, "triggerExecution": 500},
    "sources": [{"description": "nearcast", "endOffset": '{"a": 101, "b": 51}'}],
    "stateOperators": [
        {"numRowsTotal": 10, "memoryUsedBytes": 1000, "numRowsDroppedByWatermark": 2},
        {"numRowsTotal": 5, "memoryUsedBytes": 500},
    ],
    "somethingElse": {"of": "a later release"},
}


def test_a_status_says_what_spark_says() -> None:
    found = query_status("gather", PROGRESS, {"a": 120, "b": 50, "c": 7}, state="running")
    assert found == QueryStatus(
        "gather", "running", 41, 600.5, 2400.0, 1200, 0.5, {"addBatch": 0.4},
        {"a": 20, "b": 0, "c": 7}, 15, 1500, 2,
    )  # fmt: skip


def test_an_offset_may_be_said_as_an_object() -> None:
    told = PROGRESS | {"sources": [{"endOffset": {"a": 101}}]}
    assert query_status("gather", told, {"a": 120}, state="running").lag == {"a": 20}


@pytest.mark.parametrize("rate", [None, float("nan"), float("inf"), -1.0])
def test_a_rate_that_is_no_number_is_none(rate: float | None) -> None:
    told = PROGRESS | {"inputRowsPerSecond": rate, "sources": [], "stateOperators": []}
    assert query_status("tables", told, {}, state="running").rows_per_s == 0.0


def test_a_query_that_has_done_nothing_yet_has_everything_before_it() -> None:
    found = query_status("tables", None, {"a": 12}, state="waiting", failures=2, problem="oh")
    assert found == QueryStatus("tables", "waiting", lag={"a": 12}, failures=2, problem="oh")


def test_what_is_written_is_read_and_replaces_what_was(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    for written in (1.0, 2.0):
        status = Status(written, 7, [query_status("tables", PROGRESS, {}, state="running")])
        write_status(tmp_path, status)
        assert read_status(tmp_path) == status
    assert [path.name for path in (tmp_path / FILE).parent.iterdir()] == [FILE.name]
    (tmp_path / FILE).write_bytes(b'{"written": 1')
    assert read_status(tmp_path) is None


def test_a_status_that_nobody_keeps_up_to_date_is_of_no_pipeline() -> None:
    assert not Status(time.time(), 1).is_stale
    assert Status(time.time() - STALE_S - 1.0, 1).is_stale
    assert figures(Status(time.time() - STALE_S - 1.0, 1))["up"] == 0.0


def test_a_pipeline_that_is_being_started_is_not_up_yet(tmp_path: Path) -> None:
    waiting = query_status("tables", None, {}, state="waiting")
    starting = Status(time.time(), 7, [waiting], stage="java")
    assert not starting.is_stale
    assert figures(starting)["up"] == 0.0
    write_status(tmp_path, starting)
    assert read_status(tmp_path) == starting
    assert "just been started" in pipeline_health(tmp_path).detail
    # What an earlier release wrote has no stage.
    (tmp_path / FILE).write_bytes(b'{"written": 1e12, "pid": 7, "queries": []}')
    earlier = read_status(tmp_path)
    assert earlier is not None
    assert earlier.is_up


def test_brokers_tell_of_it_in_their_metrics(tmp_path: Path) -> None:
    metrics = Metrics({"pipeline": lambda: pipeline_figures(tmp_path)})
    assert metrics.statistics() == {"pipeline": {"up": 0.0}}
    assert pipeline_health(tmp_path).status == "degraded"

    found = query_status("gather", PROGRESS, {"a": 120}, state="running", failures=3)
    away = BacklogStatus("west", 12, 3000, time.time() + 100.0, "refused", dropped_rows=5)
    write_status(tmp_path, Status(time.time(), 7, [found], backlogs=[away]))
    text, _ = metrics.text()
    told = dict(
        line.rsplit(" ", 1)
        for line in text.decode().splitlines()
        if line.startswith("nearcast_pipeline_")
    )
    assert {name: float(value) for name, value in told.items()} == {
        "nearcast_pipeline_up": 1.0,
        "nearcast_pipeline_backlog_brokers": 1.0,
        "nearcast_pipeline_backlog_rows": 12.0,
        "nearcast_pipeline_backlog_bytes": 3000.0,
        "nearcast_pipeline_backlog_seconds": 0.0,
        "nearcast_pipeline_backlog_dropped_rows_total": 5.0,
        "nearcast_pipeline_gather_running": 1.0,
        "nearcast_pipeline_gather_epoch": 41.0,
        "nearcast_pipeline_gather_rows_per_s": 600.5,
        "nearcast_pipeline_gather_processed_per_s": 2400.0,
        "nearcast_pipeline_gather_batch_seconds": 0.5,
        "nearcast_pipeline_gather_lag_rows": 20.0,
        "nearcast_pipeline_gather_lag_seconds": 0.0,
        "nearcast_pipeline_gather_state_rows": 15.0,
        "nearcast_pipeline_gather_state_bytes": 1500.0,
        "nearcast_pipeline_gather_failures_total": 3.0,
    }
    assert pipeline_health(tmp_path).status == "ok"


def test_a_query_that_waits_is_told_by_name_and_why_is_not(tmp_path: Path) -> None:
    waiting = QueryStatus("movement", "waiting", problem="a secret")
    write_status(tmp_path, Status(time.time(), 7, [QueryStatus("tables", "running"), waiting]))
    health = pipeline_health(tmp_path)
    assert (health.status, health.detail) == ("degraded", "to be started again: movement")


def test_a_query_that_fails_again_and_again_is_told_while_it_is_tried(tmp_path: Path) -> None:
    failing = QueryStatus(
        "gather", "failing", failures=3, problem="a secret", failing_since=1_794_786_172.8
    )
    status = Status(time.time(), 7, [QueryStatus("tables", "running"), failing])
    write_status(tmp_path, status)
    health = pipeline_health(tmp_path)
    assert health.status == "degraded"
    assert health.detail == "gather fails since 2026-11-15T23:42:52Z: see nearcast pipeline status"
    assert figures(status)["gather_running"] == 0.0
    assert problems(status) == ["gather fails since 2026-11-15T23:42:52Z, 3 times in all: a secret"]
    again = QueryStatus("gather", "running", failures=1, problem="a secret")
    told = "gather failed 1 time and goes on; the last time: a secret"
    assert problems(Status(time.time(), 7, [again])) == [told]
    missed = Status(time.time(), 7, undecided={"local": [(1, 5), (9, 12)]})
    (told,) = problems(missed)
    assert told.startswith("rows 1 to 5, 9 to 12 of local were never decided: ")


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        (
            "An exception was raised by the Python Proxy. Return Message: Traceback (most recent "
            'call last):\n  File "a.py", line 1, in call\n    raise e\npyspark.errors.exceptions.'
            "captured.PythonException: An exception was thrown from the Python worker:\nTraceback "
            '(most recent call last):\n  File "b.py", line 7, in stage\nnearcast.pipeline.'
            "sink.broker_link.LinkError: broker b, tried for 30 s: [SSL: X] verify failed\n\n"
            "=== Streaming Query ===\nIdentifier: [id = 1]",
            "LinkError: broker b, tried for 30 s: [SSL: X] verify failed",
        ),
        (
            "Job aborted\n\tat org.A\nCaused by: java.io.IOException: a\n\tat org.B\n"
            "Caused by: java.io.EOFException: no space",
            "EOFException: no space",
        ),
        ("Python worker failed to connect back.\n\tat x", "Python worker failed to connect back."),
        ("it ended", "it ended"),
        ("", ""),
        ("x" * 1000, "x" * 500),
    ],
)
def test_of_all_that_spark_tells_the_cause_is_one_line(told: str, cause: str) -> None:
    assert cause_of(told) == cause


def test_a_broker_that_takes_nothing_is_told_with_what_waits_for_it() -> None:
    away = BacklogStatus("west", 1200, 2_500_000, 1_795_000_000.0, "no answer", full=True)
    assert problems(Status(time.time(), 7, backlogs=[away, BacklogStatus("east", 3)])) == [
        "broker west takes no rows; 1,200 rows, 2.5 MB wait since 2026-11-18T11:06:40Z; its "
        "backlog is full, and queries wait for it: no answer"
    ]
    dropped = Status(time.time(), 7, backlogs=[BacklogStatus("west", dropped_rows=5)])
    assert problems(dropped) == [
        "broker west: 5 rows were dropped because its backlog was full (pipeline.backlog_full)"
    ]


def test_a_broker_loads_nothing_of_spark_for_it() -> None:
    code = (
        "import sys, nearcast.cli.broker.up; print('pyspark' in sys.modules, 'py4j' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False False\n"


def test_a_status_is_json_for_other_programs(tmp_path: Path) -> None:
    write_status(tmp_path, Status(2.5, 7, [QueryStatus("tables", "running")]))
    told = json.loads((tmp_path / FILE).read_bytes())
    assert told["queries"][0]["name"] == "tables"
    assert told["written"] == 2.5
