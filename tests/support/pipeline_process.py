"""A pipeline in processes of its own, which can be killed with all of them, and watched."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from nearcast.pipeline.jobs.spark_checkpoints import committed
from nearcast.pipeline.jobs.status import QueryStatus, Status, read_status
from nearcast.store import broker_directory, read_manifest

WITHIN_S = 900.0
STOP_WITHIN_S = 60.0
GONE_WITHIN_S = 30.0
LOOK_S = 0.1
SMALL: Mapping[str, object] = {
    "pipeline.master": "local[2]",
    "pipeline.shuffle_partitions": 2,
    "pipeline.memory": "1g",
}
"""Settings that suit tests: little of everything."""
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Java that begins fast instead of running fast, and trusts Spark's classes: tests begin often."""


class PipelineEndedError(Exception):
    """The pipeline ended before it was asked to, with what it said."""


class PipelineProcess:
    """`nearcast pipeline run` on a data directory; `settings` are dotted names and their values."""

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, object] | None = None,
        *,
        errors: Path | None = None,
    ) -> None:
        self.data = data
        self._errors = data.parent / f"{data.name}.pipeline.stderr" if errors is None else errors
        with self._errors.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "nearcast", "pipeline", "run", "--data", str(data)],
                stdout=stream,
                stderr=stream,
                env=variables({**SMALL, **(settings or {})}),
                start_new_session=True,
            )

    def wait_until_it_follows(self) -> "PipelineProcess":
        """Return once all queries run, or raise `PipelineEndedError`."""
        self.wait_until(lambda queries: True)
        return self

    def wait_until(
        self, holds: Callable[[Mapping[str, QueryStatus]], bool], within_s: float = WITHIN_S
    ) -> Status:
        """Return how it is doing once all queries run and something holds of them."""
        deadline = time.monotonic() + within_s
        while True:
            found = self.status()
            queries = {} if found is None else {query.name: query for query in found.queries}
            run = bool(queries) and all(each.state == "running" for each in queries.values())
            if found is not None and run and holds(queries):
                return found
            if not self.runs:
                raise PipelineEndedError(f"exit code {self.process.returncode}\n{self.said}")
            assert time.monotonic() < deadline, f"it never came to that: {found}\n{self.said}"
            time.sleep(LOOK_S)

    def wait_until_it_has_all(self) -> None:
        """Return once every query has dealt with all that was in the log when this was called."""
        log = broker_directory(self.data, "local") / "log"
        last = read_manifest(log).last_seq
        self.wait_until(lambda queries: all(self.reached(name) >= last for name in queries))

    def reached(self, query: str) -> int:
        """The last row of broker `local` that a query has dealt with, over all lives."""
        offset = committed(self.data / "checkpoints" / query)
        return 0 if offset is None else offset.get("local", 1) - 1

    def status(self) -> Status | None:
        """What it says of itself in this life; None if it has not said anything yet."""
        found = read_status(self.data)
        return found if found is not None and found.pid == self.process.pid else None

    @property
    def said(self) -> str:
        """All that it wrote, over all its lives on this data directory."""
        return self._errors.read_text()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL to all its processes: Python, Java and the workers of Spark."""
        kill_session(self.process.pid)
        self.process.wait()

    def kill_programs(self, name: str) -> None:
        """SIGKILL to all processes of one program below it, such as the workers of Spark."""
        for process in processes_of(self.process.pid):
            with contextlib.suppress(OSError):
                program = Path(f"/proc/{process}/comm").read_text()
                if process != self.process.pid and program.startswith(name):
                    os.kill(process, signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop, and return its exit code; nothing of it is left then."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        wait_until_gone(self.process.pid)
        return code

    def end(self) -> None:
        """Make sure that it is gone, whatever state it is in."""
        self.kill()


def variables(settings: Mapping[str, object] = SMALL) -> dict[str, str]:
    """The environment, with settings by their dotted names."""
    return dict(os.environ, JAVA_TOOL_OPTIONS=JAVA) | {
        "NEARCAST_" + name.replace(".", "_").upper(): str(value) for name, value in settings.items()
    }


def kill_session(session: int) -> None:
    """SIGKILL to every process of a session, those that are born meanwhile too."""
    while found := processes_of(session):
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def wait_until_gone(session: int, within_s: float = GONE_WITHIN_S) -> None:
    """Return once no process of a session is left."""
    deadline = time.monotonic() + within_s
    while found := processes_of(session):
        assert time.monotonic() < deadline, f"still there: {found}"
        time.sleep(LOOK_S)


def processes_of(session: int) -> list[int]:
    """The processes of a session that have not ended; Spark's are in several groups of one."""
    found = []
    for path in Path("/proc/").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of the program, which may hold anything, is in parentheses.
            state, _, _, its_session = path.read_text().rpartition(") ")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                found.append(int(path.parent.name))
    return found
