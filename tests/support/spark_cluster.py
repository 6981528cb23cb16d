"""A standalone Spark cluster of processes: a master, and workers that do not see a directory."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs.java import find_java
from nearcast.pipeline.jobs.spark_session import PACKAGE
from tests.support.pipeline_process import JAVA, kill_session

SPARK_HOME = Path(pyspark.__file__).parent
START_S = 90.0
HERE = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
_HIDING = """
set -e
mount --make-rprivate /
shared=$(mktemp -d)
mount --bind "$1/checkpoints" "$shared"
mount -t tmpfs none "$1"
mkdir "$1/checkpoints"
mount --move "$shared" "$1/checkpoints"
mount -t tmpfs none "$2"
shift 2
exec "$@"
"""
"""Runs a command in a mount namespace in which a directory has nothing but `checkpoints`.

The installed package is hidden too: executors have the one that the driver sends.
"""


class SparkCluster:
    """The address of a master, and its workers as sessions of processes."""

    def __init__(self, address: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self.address = address
        self.workers = workers

    def kill_worker(self, number: int) -> None:
        """SIGKILL to a worker, its executors and their Python processes."""
        kill_session(self.workers[number].pid)
        self.workers[number].wait()


@contextmanager
def spark_cluster(place: Path, hidden: Path) -> Iterator[SparkCluster]:
    """Run a master and two workers with a core each, which see only `checkpoints` of `hidden`.

    What they write is below `place`. Skips the test without Java, or without mount namespaces.
    """
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot make mount namespaces (unshare -m)")
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        log = place / "master.log"
        master = stack.enter_context(_program(log, _spark_class(f"{deploy}.master.Master")))
        address = _wait_for(r"Starting Spark master at (spark://\S+)", log, master)
        workers = []
        for number in (1, 2):
            command = _spark_class(
                f"{deploy}.worker.Worker", "--cores", "1", "--memory", "900m",
                "--work-dir", str(place / f"worker-{number}"), address,
            )  # fmt: skip
            hiding = [
                "unshare",
                "-m",
                "sh",
                "-c",
                _HIDING,
                "sh",
                str(hidden),
                str(PACKAGE),
                *command,
            ]
            workers.append(stack.enter_context(_program(place / f"worker-{number}.log", hiding)))
        _wait_for(r"Registering worker (\S+)", log, master, times=2)
        yield SparkCluster(address, workers)


def _spark_class(name: str, *arguments: str) -> list[str]:
    return [str(SPARK_HOME / "bin" / "spark-class"), name, *HERE, *arguments]


@contextmanager
def _program(log: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, which writes to `log`, as long as this context lasts."""
    environment = os.environ | {
        "SPARK_HOME": str(SPARK_HOME),
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": JAVA,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill_session(process.pid)
        process.wait()


def _wait_for(pattern: str, log: Path, process: subprocess.Popen[bytes], times: int = 1) -> str:
    """Return the first group of a pattern when a program has written it so many times."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        found = re.findall(pattern, log.read_text(errors="replace"))
        if len(found) >= times:
            return str(found[0])
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} within {START_S} s in:\n{log.read_text()}")
