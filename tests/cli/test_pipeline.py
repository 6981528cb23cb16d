"""`nearcast pipeline`: what can be asked without Spark, and one history replayed and audited."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from nearcast.cli import app
from nearcast.cli.pipeline import audit_exit_code
from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs.java import find_java
from nearcast.pipeline.jobs.job import alone
from nearcast.pipeline.jobs.status import QueryStatus, Status, write_status
from nearcast.pipeline.tables.tables import EpochId, Tables, time_column
from nearcast.store import DELIVERY
from nearcast.testing import World
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import log_of_a_life, recorded
from tests.support.logs.table_rows import table_rows
from tests.support.pipeline_process import variables
from tests.support.waiting import until

SMALL = """
[pipeline]
master = "local[1]"
memory = "1g"
shuffle_partitions = 1
encounters_m = 0
"""


def pipeline(data: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["pipeline", *arguments, "--data", str(data)])
    assert result.exit_code == code, result.output
    return result


def by_itself(data: Path, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    """As users call it: in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "nearcast", "pipeline", *arguments, "--data", str(data)],
        capture_output=True, text=True, timeout=300, check=False, cwd=data, env=variables({}),
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def write(tables: Tables, name: str, epoch: int) -> None:
    rows = pa.table({time_column(name): [float(epoch)]})
    tables.append(name, rows, EpochId("q", epoch))


def test_a_status_is_told_before_during_and_after_a_run(tmp_path: Path) -> None:
    assert "No pipeline has run" in pipeline(tmp_path, "status").stdout
    told = json.loads(pipeline(tmp_path, "status", "--json").stdout)
    assert told == {"running": False, "state": "absent", "status": None, "tables": []}

    waiting = [QueryStatus("tables", "waiting")]
    write_status(tmp_path, Status(time.time(), 1, waiting, stage="java"))
    told = json.loads(pipeline(tmp_path, "status", "--json").stdout)
    assert (told["running"], told["state"]) == (False, "starting")
    shown = pipeline(tmp_path, "status").stdout
    assert "The pipeline is starting: Java and Spark." in shown
    assert "waiting" not in shown

    tables = Tables(tmp_path)
    write(tables, "events", 3)
    lagging = QueryStatus("tables", "running", 12, batch_rows=345, lag={"a": 6, "b": 1})
    write_status(tmp_path, Status(time.time(), 1, [lagging]))
    told = json.loads(pipeline(tmp_path, "status", "--json").stdout)
    assert told["running"]
    assert told["status"]["queries"][0]["lag"] == {"a": 6, "b": 1}
    assert (told["tables"][0]["name"], told["tables"][0]["rows"]) == ("events", 1)
    shown = pipeline(tmp_path, "status").stdout
    assert "345" in shown
    assert "7 rows" in shown

    why = "LinkError: [SSL: X] " + "no way in " * 20
    failing = QueryStatus("gather", "failing", failures=2, problem=why, failing_since=1.0)
    write_status(tmp_path, Status(time.time(), 1, [lagging, failing]))
    told = json.loads(pipeline(tmp_path, "status", "--json").stdout)["status"]
    assert told["written"].endswith("Z")
    assert [each["failing_since"] for each in told["queries"]] == [None, "1970-01-01T00:00:01.000Z"]
    lines = pipeline(tmp_path, "status").stdout.splitlines()
    assert f"gather fails since 1970-01-01T00:00:01Z, 2 times in all: {why}" in lines

    write_status(tmp_path, Status(time.time() - 3600.0, 1, [lagging]))
    assert "does not run" in pipeline(tmp_path, "status").stdout
    assert not json.loads(pipeline(tmp_path, "status", "--json").stdout)["running"]


def test_tables_are_compacted(tmp_path: Path) -> None:
    assert "nothing to put together" in pipeline(tmp_path, "compact").stdout
    tables = Tables(tmp_path)
    for epoch in range(12):
        write(tables, "traffic", epoch)
    assert pipeline(tmp_path, "compact").stdout == "traffic: 12 files put together\n"
    done = pipeline(tmp_path, "compact", "--history-hours", "0", "--json").stdout
    assert json.loads(done) == {"merged": {}, "deleted": 12}
    assert (tables.statistics()[0].rows, tables.statistics()[0].files) == (12, 1)


def test_a_status_can_be_watched(tmp_path: Path) -> None:
    lagging = QueryStatus("tables", "running", 12, lag={"a": 6})
    write_status(tmp_path, Status(time.time(), 1, [lagging]))
    shown = tmp_path / "shown"
    with shown.open("w") as file:
        watching = subprocess.Popen(
            [sys.executable, "-m", "nearcast", "pipeline", "status", "--watch", "--data", "."],
            stdout=file, cwd=tmp_path, env=dict(os.environ, FORCE_COLOR="1", COLUMNS="200"),
        )  # fmt: skip
    try:
        until(lambda: "6 rows" in shown.read_text(), "the first status is shown")
        later = msgspec.structs.replace(lagging, lag={"a": 7})
        write_status(tmp_path, Status(time.time(), 1, [later]))
        until(lambda: "7 rows" in shown.read_text(), "the next status is shown")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 0
    finally:
        watching.kill()
        watching.wait()
    assert "--watch" in pipeline(tmp_path, "status", "--watch", "--json", code=2).stderr


@pytest.mark.parametrize("what", ["replay", "run"])
def test_there_is_one_pipeline_at_a_time(what: str, tmp_path: Path) -> None:
    with alone(tmp_path):
        done = by_itself(tmp_path, what, code=1)
    assert "another pipeline runs" in done.stderr


@pytest.mark.parametrize(("copies", "missing", "code"), [(3, 0, 0), (3, 1, 1), (0, 0, 2)])
def test_an_audit_says_by_its_exit_code_what_it_found(copies: int, missing: int, code: int) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    from nearcast.pipeline.jobs.audit import MISSING, Audit

    assert audit_exit_code(Audit(copies, {MISSING: missing}, [], 0, 0)) == code


def test_state_is_let_go_without_spark(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "gather" / "state").mkdir(parents=True)
    assert "builds its state anew" in pipeline(tmp_path, "replay", "--state").stdout
    assert not (tmp_path / "checkpoints" / "gather").exists()


def test_a_time_that_is_none_is_one_message(tmp_path: Path) -> None:
    done = pipeline(tmp_path, "replay", "--since", "yesterday", code=2)
    assert "--since" in done.stderr


@pytest.mark.parametrize(("what", "code"), [("audit", 2), ("replay", 1)])
def test_where_no_broker_has_a_log_is_one_message(what: str, code: int, tmp_path: Path) -> None:
    done = pipeline(tmp_path, what, code=code)
    assert "has no logs of brokers" in done.stderr


@pytest.mark.spark
def test_a_master_that_is_none_is_one_message(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    done = by_itself(tmp_path, "run", "--master", "nonsense", code=1)
    assert "Spark does not start at 'nonsense'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spark
def test_a_history_is_replayed_and_audited(tmp_path: Path) -> None:
    """The one test here that starts Spark, twice."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    rows = log_of_a_life(World(seed=901), 30)
    write_log(tmp_path, "broker", rows, per_segment=40)
    (tmp_path / "nearcast.toml").write_text(SMALL)

    told = json.loads(by_itself(tmp_path, "replay", "--json").stdout)
    events = [row for row in rows if row.kind == "event"]
    assert told["rows"]["events"] + told["rows"]["rejects"] == len(events)
    tables = table_rows(tmp_path)
    assert {row["event_id"] for row in tables["events"]} <= {row.event_id for row in events}
    assert sum(row["count"] for row in tables["deliveries"]) == recorded(rows).total()

    # As if the broker had left out what it recorded last.
    last = max(row.seq for row in rows if row.kind == DELIVERY)
    kept = [row for row in rows if row.seq < last]
    lost = [row for row in rows if row.seq == last]
    other = tmp_path / "other"
    other.mkdir()
    (other / "nearcast.toml").write_text(SMALL)
    write_log(other, "broker", kept, per_segment=40)
    found = by_itself(other, "audit", "--json", code=1)
    told = json.loads(found.stdout)
    assert not told["passed"]
    assert told["copies"] == recorded(rows).total()
    assert told["counts"]["missing"] == recorded(lost).total()
    assert {each["event"] for each in told["differences"]} == {lost[0].event_id}
