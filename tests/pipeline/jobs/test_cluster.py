"""A real cluster: a standalone master and two workers from the Spark that pip installed."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs.java import find_java
from nearcast.store import Row
from tests.support.logs.broker_log import write_log
from tests.support.pipeline_process import JAVA

pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed")
pytestmark = pytest.mark.spark

SPARK_HOME = Path(pyspark.__file__).parent
JOB = Path(__file__).with_name("cluster_job.py")
START_S = 90.0
JOB_S = 240.0


@contextmanager
def spark_class(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of Spark's, which writes to `log`, as long as this context lasts."""
    environment = os.environ | {
        "SPARK_HOME": str(SPARK_HOME),
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": JAVA,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [SPARK_HOME / "bin" / "spark-class", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(pattern: str, log: Path, process: subprocess.Popen[bytes], times: int = 1) -> str:
    """Return the first group of a pattern when a program has written it so many times."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        found = re.findall(pattern, log.read_text(errors="replace"))
        if len(found) >= times:
            return str(found[0])
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} within {START_S} s in:\n{log.read_text()}")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        log = tmp_path / "master.log"
        deploy = "org.apache.spark.deploy"
        process = stack.enter_context(spark_class(log, f"{deploy}.master.Master", *here))
        address = wait_for(r"Starting Spark master at (spark://\S+)", log, process)
        for number in (1, 2):
            size = ("--cores", "1", "--memory", "600m")
            place = ("--work-dir", str(tmp_path / f"worker-{number}"))
            worker = (f"{deploy}.worker.Worker", *here, *size, *place, address)
            stack.enter_context(spark_class(tmp_path / f"worker-{number}.log", *worker))
        wait_for(r"Registering worker (\S+)", log, process, times=2)
        yield address


def test_two_workers_run_the_package_that_was_shipped_to_them(master: str, tmp_path: Path) -> None:
    rows = [
        Row("b", seq, "position", float(seq), lat=seq / 10, lon=seq / 20, node="bus")
        for seq in range(1, 401)
    ]
    metres = sum(distance_m(0.0, 0.0, row.lat or 0.0, row.lon or 0.0) for row in rows)
    write_log(tmp_path, "b", rows, per_segment=50)
    # From elsewhere, and without the sources on the path of Python workers.
    ran = subprocess.run(
        [sys.executable, JOB, master, str(tmp_path), str(tmp_path / "checkpoint")],
        capture_output=True,
        cwd=tmp_path,
        env=os.environ | {"JAVA_TOOL_OPTIONS": JAVA},
        timeout=JOB_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    found = json.loads(ran.stdout)
    for way in ("history", "stream"):
        parts = found[way]
        assert len(parts) == 8
        assert sum(part["rows"] for part in parts) == 400
        assert sum(part["metres"] for part in parts) == pytest.approx(metres)
        assert {part["executor"] for part in parts} <= set(executors(tmp_path))
        assert [part["code"] for part in parts if ".zip/nearcast/" not in part["code"]] == []
    assert len({part["executor"] for part in found["history"] + found["stream"]}) == 2


def executors(data: Path) -> Iterator[str]:
    """Yield the directories that workers gave to executors."""
    for worker in ("worker-1", "worker-2"):
        yield from map(str, (data / worker).glob("app-*/*"))
