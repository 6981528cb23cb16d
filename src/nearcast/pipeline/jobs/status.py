"""The status of the pipeline, as reported by Spark: rates, lag, batch times, size of state.

The running pipeline writes it to a file in the data directory, which `nearcast pipeline status` and
the metrics of brokers read; this module does not need Spark.
"""

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from nearcast.pipeline.sink.backlog import BacklogStatus

FILE = Path("checkpoints") / "status.json"
STALE_S = 30.0
"""An older status belongs to a pipeline that no longer runs."""

LONGEST_PROBLEM = 500
QueryState = Literal["running", "waiting", "failing"]
"""Failing: it failed and made no progress since, whether it is running or waits for a retry."""
PipelineState = Literal["starting", "running", "ended"]
Stage = Literal["java", "tables", "queries", "running"]
"""The start-up stage of a pipeline, then "running"."""
STAGES: Mapping[Stage, str] = {
    "java": "Java and Spark",
    "tables": "tables",
    "queries": "queries",
    "running": "running",
}


class QueryStatus(Struct, frozen=True):
    """The status of one query."""

    name: str
    state: QueryState
    epoch: int = -1
    """The last finished epoch."""
    rows_per_s: float = 0.0
    """Input rows per second."""
    processed_per_s: float = 0.0
    """Rows processed per second of batch time."""
    batch_rows: int = 0
    batch_s: float = 0.0
    steps_s: dict[str, float] = {}
    """The time of each step of the last batch."""
    lag: dict[str, int] = {}
    """Rows in each broker's log that are not processed yet."""
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    """Rows of the last batch that were too late for the state."""
    failures: int = 0
    problem: str = ""
    """The cause of the last failure, in one line."""
    failing_since: float | None = None
    """The time of the first failure without progress since; null while it works."""
    lag_s: float = 0.0
    """The age of the segment with the oldest row that is not processed yet."""


class Status(Struct, frozen=True):
    """The status of the pipeline."""

    written: float
    pid: int
    queries: list[QueryStatus] = []
    ended: bool = False
    """True if it was stopped on request."""
    stage: Stage = "running"
    backlogs: list[BacklogStatus] = []
    """The brokers that rows wait for."""
    undecided: dict[str, list[tuple[int, int]]] = {}
    """Rows of each broker's log on which nothing was decided, because rows before were dropped."""

    @property
    def is_stale(self) -> bool:
        """True if no process updates it any more."""
        return self.ended or time.time() - self.written > STALE_S

    @property
    def state(self) -> PipelineState:
        """Whether it is starting, running, or ended."""
        if self.is_stale:
            return "ended"
        return "running" if self.stage == "running" else "starting"

    @property
    def is_up(self) -> bool:
        """True if all queries have been started and the status is up to date."""
        return self.stage == "running" and not self.is_stale


def query_status(
    name: str, progress: Mapping[str, object] | None, ends: Mapping[str, int], **known: object
) -> QueryStatus:
    """Return a query's status from Spark's last progress and the ends of the logs."""
    if progress is None:
        return msgspec.convert({"name": name, "lag": dict(ends)} | known, QueryStatus)
    reported = msgspec.convert(progress, _Progress)
    steps = {step: milliseconds / 1000 for step, milliseconds in reported.durationMs.items()}
    offset = reported.sources[0].endOffset if reported.sources else None
    done = msgspec.json.decode(offset) if isinstance(offset, str) else offset
    at = done if isinstance(done, dict) else {}
    return msgspec.convert(
        {
            "name": name,
            "epoch": reported.batchId,
            "rows_per_s": _finite(reported.inputRowsPerSecond),
            "processed_per_s": _finite(reported.processedRowsPerSecond),
            "batch_rows": reported.numInputRows,
            "batch_s": steps.pop("triggerExecution", 0.0),
            "steps_s": steps,
            "lag": {broker: max(0, end + 1 - at.get(broker, 1)) for broker, end in ends.items()},
            "state_rows": sum(each.numRowsTotal for each in reported.stateOperators),
            "state_bytes": sum(each.memoryUsedBytes for each in reported.stateOperators),
            "late_rows": sum(each.numRowsDroppedByWatermark for each in reported.stateOperators),
        }
        | known,
        QueryStatus,
    )


def watermark_of(progress: Mapping[str, object] | None) -> float | None:
    """Return the watermark that the last batch of a query had; None if it had none."""
    if progress is None:
        return None
    reported = msgspec.convert(progress, _Progress)
    text = reported.eventTime.get("watermark")
    if text is None or "addBatch" not in reported.durationMs:
        return None
    return datetime.fromisoformat(text).timestamp()


_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:: .*)?)$")


def cause_of(message: str) -> str:
    """Return the line of a Spark failure message that names the cause.

    That is the exception of the innermost traceback; without a traceback, the last cause in the
    Java stack trace, or else the first line.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    starts = [at for at, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    raised = [line for line in lines[starts[-1] + 1 :] if line[0] > " "] if starts else []
    causes = [line.split(":", 1)[1] for line in lines if line.startswith("Caused by:")]
    found = (raised[:1] or causes[-1:] or lines[:1] or [""])[0].strip()
    short = _RAISED.match(found)
    return (short[1] if short else found)[:LONGEST_PROBLEM]


class _Source(Struct):
    endOffset: object = None  # noqa: N815


class _Operator(Struct):
    numRowsTotal: int = 0  # noqa: N815
    memoryUsedBytes: int = 0  # noqa: N815
    numRowsDroppedByWatermark: int = 0  # noqa: N815


class _Progress(Struct):
    """The fields read from Spark's progress."""

    batchId: int = -1  # noqa: N815
    numInputRows: int = 0  # noqa: N815
    inputRowsPerSecond: float | None = 0.0  # noqa: N815
    processedRowsPerSecond: float | None = 0.0  # noqa: N815
    durationMs: dict[str, float] = {}  # noqa: N815
    sources: list[_Source] = []
    stateOperators: list[_Operator] = []  # noqa: N815
    eventTime: dict[str, str] = {}  # noqa: N815


def _finite(value: float | None) -> float:
    return value if value is not None and 0.0 <= value < 1e15 else 0.0


def write_status(data: Path, status: Status) -> None:
    """Replace the status file."""
    path = data / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(msgspec.json.encode(status))
    partial.rename(path)


def read_status(data: Path) -> Status | None:
    """Return the last written status; None if the pipeline never ran here."""
    try:
        return msgspec.json.decode((data / FILE).read_bytes(), type=Status)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def problems(status: Status) -> list[str]:
    """Return the problems of queries and brokers, and rows never decided, a line each."""
    found = []
    for query in status.queries:
        times = f"{query.failures} time{'s' * (query.failures != 1)}"
        if query.failing_since is not None:
            since = datetime.fromtimestamp(query.failing_since, UTC)
            what = f"fails since {since:%Y-%m-%dT%H:%M:%SZ}, {times} in all"
        else:
            what = f"failed {times} and goes on; the last time"
        if query.problem:
            found.append(f"{query.name} {what}: {query.problem}")
    for broker, ranges in status.undecided.items():
        rows = ", ".join(f"{first} to {last}" for first, last in ranges)
        found.append(
            f"rows {rows} of {broker} were never decided: rows before had been dropped from its "
            "log, see log.keep_s and the table rejects"
        )
    return found + [line for each in status.backlogs for line in _backlog_problems(each)]


def _backlog_problems(backlog: BacklogStatus) -> list[str]:
    found = []
    if backlog.problem:
        since = datetime.fromtimestamp(backlog.since or 0.0, UTC)
        waits = f"{backlog.rows:,} rows, {backlog.bytes / 1e6:.1f} MB"
        full = "; its backlog is full, and queries wait for it" if backlog.full else ""
        found.append(
            f"broker {backlog.broker} takes no rows; {waits} wait since "
            f"{since:%Y-%m-%dT%H:%M:%SZ}{full}: {backlog.problem}"
        )
    if backlog.dropped_rows:
        found.append(
            f"broker {backlog.broker}: {backlog.dropped_rows:,} rows were dropped because its "
            "backlog was full (pipeline.backlog_full)"
        )
    return found


def figures(status: Status) -> dict[str, float]:
    """Return the status as numbers by name, for metrics."""
    since = min((each.since for each in status.backlogs if each.since), default=None)
    found: dict[str, float] = {
        "up": float(status.is_up),
        "backlog_brokers": sum(bool(each.problem) for each in status.backlogs),
        "backlog_rows": sum(each.rows for each in status.backlogs),
        "backlog_bytes": sum(each.bytes for each in status.backlogs),
        "backlog_seconds": 0.0 if since is None else max(0.0, time.time() - since),
        "backlog_dropped_rows_total": sum(each.dropped_rows for each in status.backlogs),
    }
    for query in status.queries:
        name = query.name
        found |= {
            f"{name}_running": float(query.state == "running"),
            f"{name}_epoch": query.epoch,
            f"{name}_rows_per_s": query.rows_per_s,
            f"{name}_processed_per_s": query.processed_per_s,
            f"{name}_batch_seconds": query.batch_s,
            f"{name}_lag_rows": sum(query.lag.values()),
            f"{name}_lag_seconds": query.lag_s,
            f"{name}_state_rows": query.state_rows,
            f"{name}_state_bytes": query.state_bytes,
            f"{name}_failures_total": query.failures,
        }
    return found
