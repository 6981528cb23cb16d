"""The pipeline beside the broker: a separate process, restarted when it dies."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import typer

from nearcast.broker.config.settings import Settings
from nearcast.broker.shutdown import Deadline
from nearcast.cli.extras import how_to_install
from nearcast.logs import log_event

log = logging.getLogger("nearcast.cli")

LONGEST_PAUSE_S = 60.0
LASTING_S = 120.0
"""A pipeline that ran longer than this is restarted without an increased delay."""
STOP_WITHIN_S = 20.0
"""How long it may take to end, if the broker has so much time to stop."""
NICE = 5
"""Its niceness, so that the broker has priority."""


def obstacle() -> str | None:
    """Return why no pipeline can run here; None if one can."""
    if find_spec("pyspark") is None:
        return f"PySpark is not installed ({how_to_install('pipeline')})"
    from nearcast.pipeline.errors import JavaError
    from nearcast.pipeline.jobs.java import find_java

    try:
        find_java()
    except JavaError as error:
        return str(error)
    return None


def pipeline_beside(
    config: Path | None,
    settings: Settings,
    *,
    output: int | None = None,
    variables: Mapping[str, str] | None = None,
    stop_within_s: float = STOP_WITHIN_S,
) -> "tuple[PipelineBeside | None, str]":
    """Return the pipeline to run beside a broker; None if it cannot run, and why.

    If it cannot, the reason is also printed in one line.
    """
    why = obstacle()
    if why is not None:
        typer.echo(f"Without the data pipeline: {why}.", err=True)
        return None, why
    options = ["--data", settings.node.data]
    if config is not None:
        options += ["--config", str(config)]
    return PipelineBeside(
        options, output=output, variables=variables, stop_within_s=stop_within_s
    ), ""


class PipelineBeside:
    """Runs `nearcast pipeline run` with the same settings, from start to stop."""

    def __init__(
        self,
        options: Sequence[str],
        *,
        output: int | None = None,
        variables: Mapping[str, str] | None = None,
        stop_within_s: float = STOP_WITHIN_S,
    ) -> None:
        """Its output is written to the file `output`, by default that of this process.

        It gets `variables` in addition to those of this process. A pipeline that has not ended
        `stop_within_s` after SIGTERM is killed: the next run continues from its last epoch.
        """
        self._options = [*options, "--parent", str(os.getpid())]
        self._output = output
        self._variables = variables or {}
        self._stop_within_s = stop_within_s
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The id of the running process; None if there is none."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else None

    def start(self) -> None:
        """Run it, and again whenever it ends."""
        self._task = asyncio.create_task(self._watch())

    async def stop(self, deadline: Deadline) -> None:
        """Ask it to end, and kill it if it has not by a deadline; harmless if it does not run."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            within_s = min(self._stop_within_s, deadline.left_s())
            await asyncio.wait_for(process.wait(), within_s)
        except TimeoutError:
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """End it at once, with Java and the workers, which are in a session of their own."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def _watch(self) -> None:
        pause_s = 1.0
        while True:
            started = time.monotonic()
            command = [sys.executable, "-m", "nearcast", "pipeline", "run", *self._options]
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdout=self._output,
                stderr=self._output,
                env={**os.environ, **self._variables},
                start_new_session=True,
                preexec_fn=_give_way,
            )
            code = await self._process.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self.restarts += 1
            if time.monotonic() - started > LASTING_S:
                pause_s = 1.0
            log_event(log, logging.WARNING, "the pipeline ended", code=code, again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)


def _give_way() -> None:
    os.nice(NICE)
