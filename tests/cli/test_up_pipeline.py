"""`nearcast up` and the pipeline beside it: one runs, is started again, and never outlives it."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import paho.mqtt.publish as publish
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs.java import find_java
from nearcast.pipeline.jobs.status import read_status
from tests.support.pipeline_process import (
    kill_session,
    processes_of,
    variables,
    wait_until_gone,
)
from tests.support.terminal import Terminal
from tests.support.waiting import until

pytestmark = pytest.mark.spark

WITHIN_S = 240.0
UP = [sys.executable, "-m", "nearcast", "up", "--ws-port", "0", "--http-port", "-1"]


class Running:
    """`nearcast up` as a process, with what it says."""

    def __init__(self, data: Path, environment: Mapping[str, str]) -> None:
        self._errors = data.with_suffix(".stderr")
        with self._errors.open("ab") as stream:
            self.process = subprocess.Popen(
                [*UP, "--mqtt-port", "0", "--data", str(data)],
                stdout=subprocess.PIPE, stderr=stream, env=dict(environment), text=True,
            )  # fmt: skip
        self._watchdog = threading.Timer(WITHIN_S, self.process.kill)
        self._watchdog.start()
        assert self.process.stdout is not None
        told = ""
        while "Ctrl-C" not in told:
            line = self.process.stdout.readline()
            assert line, f"it ended: {self.said}"
            told += line
        self.port = int(told.partition("MQTT on 127.0.0.1:")[2].partition(".")[0])

    @property
    def said(self) -> str:
        return self._errors.read_text()

    def pipeline(self) -> int | None:
        """The pipeline beside it, if one runs now: its process, and the name of its session."""
        return pipeline_of(self.process.pid)

    def pipeline_after(self, *former: int) -> int:
        """The pipeline once there is another one."""
        until(lambda: self.pipeline() not in (None, *former), "a pipeline is started")
        found = self.pipeline()
        assert found is not None
        return found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(WITHIN_S)
        self._watchdog.cancel()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def environment() -> dict[str, str]:
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    return variables()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[[Mapping[str, str]], Running]]:
    started: list[Running] = []

    def start(environment: Mapping[str, str]) -> Running:
        started.append(Running(tmp_path / "data", environment))
        return started[-1]

    yield start
    for running in started:
        beside = running.pipeline()
        if running.process.poll() is None:
            running.process.kill()
            running.wait()
        if beside is not None:
            kill_session(beside)


Start = Callable[[Mapping[str, str]], Running]


def test_a_pipeline_that_dies_is_started_again_and_none_outlives_the_broker(
    up: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    group = 12_345 if os.geteuid() == 0 else os.getegid()
    running = up(environment | {"NEARCAST_DATA_GROUP": str(group)})
    publish.single("a/b", "hello", qos=1, hostname="127.0.0.1", port=running.port)
    first = running.pipeline_after()
    data = tmp_path / "data"

    def follows() -> bool:
        status = read_status(data)
        return status is not None and status.pid == first and status.is_up

    until(follows, "the pipeline follows the log")
    until(lambda: any(data.glob("tables/events/*/*.parquet")), "there is a table")
    # Without its Java it cannot go on, and says so by ending.
    os.kill(java_of(first), signal.SIGKILL)
    second = running.pipeline_after(first)
    wait_until_gone(first)
    assert "Java ended, and Spark with it" in running.said
    assert "the pipeline ended" in running.said
    # Killed whole, while it begins.
    kill_session(second)
    third = running.pipeline_after(first, second)
    assert running.stop() == 0
    for session in (first, second, third):
        wait_until_gone(session)
    check_group_may_read_tables_alone(data, group)


def check_group_may_read_tables_alone(data: Path, group: int) -> None:
    """Tables are for the group that the settings name too, checkpoints for their owner."""
    found = [path for path in (data / "tables").rglob("*") if not path.is_symlink()]
    assert {path.stat().st_gid for path in found} == {group}
    assert {path.stat().st_mode & 0o777 for path in found} == {0o640, 0o750}
    assert (data / "checkpoints").stat().st_mode & 0o777 == 0o700
    states = [path for path in (data / "checkpoints").rglob("*") if path.stat().st_mode & 0o007]
    assert states == []


def test_a_pipeline_ends_when_its_broker_is_killed(up: Start, environment: dict[str, str]) -> None:
    running = up(environment)
    beside = running.pipeline_after()
    until(lambda: bool(java_of(beside)), "Java is started")
    running.process.kill()
    running.wait()
    wait_until_gone(beside, WITHIN_S)


def test_a_demonstration_shows_how_the_pipeline_starts_and_what_it_decides(
    environment: dict[str, str],
) -> None:
    ports = ["--mqtt-port", "0", "--ws-port", "0", "--http-port", "-1"]
    command = [sys.executable, "-m", "nearcast", "up", "--demo", *ports]
    with (
        tempfile.TemporaryDirectory(prefix="nc") as temporary,
        Terminal(
            command,
            environment | {"TMPDIR": temporary},
            width=120,
            height=40,
            within_s=2 * WITHIN_S,
        ) as running,
    ):
        # As the pipeline says itself, one after the other.
        running.wait_for("Java and Spark", "first results")
        running.wait_for("queries 3 of 3")
        running.wait_for("encounter: ", "spots/visit", "slowest batch", "found: encounters")
        beside = pipeline_of(running.process.pid)
        assert beside is not None
        running.press_ctrl_c()
        assert running.end() == 0
        wait_until_gone(beside)
        assert not any(Path(temporary).iterdir())
        before = running.written.partition(b"\x1b[?1049h")[0]
        after = running.written.rpartition(b"\x1b[?1049l")[2]
    # Neither Spark nor anything else speaks on the terminal.
    assert b"WARN" not in running.written
    assert b"INFO" not in running.written
    assert before.rstrip().endswith(b"Ctrl-C stops.")
    assert b"; the pipeline published " in after


def test_without_java_the_broker_runs_and_says_why_there_is_no_pipeline(
    up: Start, tmp_path: Path
) -> None:
    without = {name: value for name, value in os.environ.items() if name != "PATH"}
    running = up(without | {"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(tmp_path)})
    publish.single("a/b", "hello", qos=1, hostname="127.0.0.1", port=running.port)
    told = [line for line in running.said.splitlines() if "pipeline" in line]
    assert len(told) == 1
    assert told[0].startswith("Without the data pipeline: JAVA_HOME is ")
    assert "install Java 17" in told[0]
    assert running.pipeline() is None
    assert running.stop() == 0
    assert "Traceback" not in running.said


def pipeline_of(broker: int) -> int | None:
    """The process of the pipeline beside a broker's process, if one runs now."""
    for path in Path("/proc/").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (path / "stat").read_text().rpartition(") ")[2].split()[1]
            command = (path / "cmdline").read_bytes().split(b"\0")
            if int(parent) == broker and b"pipeline" in command:
                return int(path.name)
    return None


def java_of(session: int) -> int:
    """The process of Java in a session; 0 if there is none."""
    for process in processes_of(session):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            if command[0].endswith(b"java"):
                return process
    return 0
