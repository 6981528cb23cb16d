"""The progress of the pipeline beside a broker: the steps of its start, from its status."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from nearcast.cli.broker.pipeline_process import PipelineBeside
from nearcast.pipeline.jobs.status import STAGES, Status, problems, read_status


class Step(Struct, frozen=True):
    """One step of a start, and how much of it is done, if that can be counted."""

    name: str
    state: Literal["done", "now", "to do"]
    of: tuple[int, int] | None = None

    def __str__(self) -> str:
        """The step as text."""
        return self.name if self.of is None else f"{self.name} {self.of[0]} of {self.of[1]}"


class PipelineProgress(Struct, frozen=True):
    """The steps of a pipeline's start, and its status once it runs."""

    steps: list[Step]
    status: Status | None
    restarts: int

    @property
    def is_up(self) -> bool:
        """Whether every query has completed an epoch."""
        return all(step.state == "done" for step in self.steps)

    @property
    def now(self) -> Step | None:
        """The current step; None once all are done."""
        return next((step for step in self.steps if step.state == "now"), None)

    @property
    def problem(self) -> str | None:
        """The current problem, in one line."""
        if self.status is not None and (found := problems(self.status)):
            return found[0]
        times = f"{self.restarts} time{'s' * (self.restarts != 1)}"
        return f"it was started again {times}" if self.restarts else None


def progress(data: Path, beside: PipelineBeside) -> PipelineProgress:
    """Return the progress of the pipeline of a data directory."""
    status = read_status(data)
    if status is not None and (status.pid != beside.pid or status.ended):
        # The status of another process.
        status = None
    return PipelineProgress(_steps(beside.pid, status), status, beside.restarts)


def _steps(pid: int | None, status: Status | None) -> list[Step]:
    queries = [] if status is None else status.queries
    started = sum(query.state == "running" for query in queries)
    worked = sum(query.epoch >= 0 for query in queries)
    reached = list(STAGES).index(status.stage) if status is not None else -1
    names = [STAGES[stage] for stage in STAGES if stage != "running"]
    done = [pid is not None and status is not None]
    done += [reached > number for number in range(len(names))]
    done.append(done[-1] and worked == len(queries))
    counted = {
        "queries": (started, len(queries)) if queries else None,
        "first results": (worked, len(queries)) if queries else None,
    }
    first = done.index(False) if False in done else len(done)
    return [
        Step(
            name,
            "done" if number < first else "now" if number == first else "to do",
            counted.get(name) if number <= first else None,
        )
        for number, name in enumerate(("process", *names, "first results"))
    ]
