"""The job behind `nearcast pipeline run`: runs the queries until it is stopped.

A query that fails is restarted from its checkpoint, after a pause that grows. A query that makes no
progress ends the job, so that its supervisor restarts everything.
"""

import contextlib
import fcntl
import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]

from nearcast.logs import log_event
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.jobs.queries import Pipeline, PipelineSettings, query_names
from nearcast.pipeline.jobs.spark_session import SparkSettings, session, stop
from nearcast.pipeline.jobs.status import (
    QueryState,
    QueryStatus,
    Stage,
    Status,
    cause_of,
    query_status,
    watermark_of,
    write_status,
)
from nearcast.pipeline.sink.epoch_writer import RESULT_LIMIT
from nearcast.pipeline.tables.migration import migrate, needs_migration
from nearcast.pipeline.tables.tables import Tables, drop_old
from nearcast.store import LogReader, StoreError, follow, log_directory, path_at
from nearcast.store.file_access import make_directory

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("nearcast.pipeline")

FORM = 1
"""The format version of checkpoints and their content."""
LOOK_S = 1.0
PROGRESS_S = 5.0
LONGEST_PAUSE_S = 30.0
MOST_FAILURES = 10
"""Consecutive failures allowed without progress."""
COMPACT_S = 600.0
COMPACT_FROM = 200
"""Tables with at least this many files are compacted."""
VACUUM_S = 86_400.0


class Began(Struct):
    """The settings that the checkpoints of a data directory were created with."""

    form: int
    shuffle_partitions: int


class _Failing(Struct):
    """The failures of a query so far."""

    times: int = 0
    in_a_row: int = 0
    epoch: int = -1
    again_at: float = 0.0
    problem: str = ""
    since: float | None = None
    """The time of the first of these consecutive failures."""


def run(
    settings: PipelineSettings, spark_settings: SparkSettings, stopped: threading.Event
) -> None:
    """Run until `stopped` is set; raises `PipelineError` and the errors of `session`."""
    data = Path(settings.data)
    with alone(data):
        parts = check_checkpoints(data, spark_settings)
        waiting = [QueryStatus(name, "waiting") for name in query_names(settings)]
        write_status(data, Status(time.time(), os.getpid(), waiting, stage="java"))
        conf = RESULT_LIMIT | spark_settings.conf
        spark = session(replace(spark_settings, shuffle_partitions=parts, conf=conf))
        try:
            if not stopped.is_set():
                _PipelineRun(Pipeline(spark, settings), data).run(stopped)
        except (Py4JNetworkError, ConnectionError) as error:
            raise PipelineError(f"Java ended, and Spark with it: {error}") from None
        finally:
            with contextlib.suppress(Py4JError, OSError):
                stop(spark)


@contextlib.contextmanager
def alone(data: Path) -> Iterator[None]:
    """Lock a data directory; raises `PipelineError` if another pipeline holds the lock."""
    directory = data / "checkpoints"
    try:
        make_directory(directory)
        # The lock may be writable where nothing else can be created.
        with tempfile.TemporaryFile(dir=directory):
            lock = (directory / "lock").open("a")
    except OSError as error:
        raise PipelineError(
            f"{directory} cannot be written to: {error.strerror}; the pipeline keeps there how "
            "far it has got, so let its user write there, or choose another directory by --data"
        ) from None
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineError(
                f"another pipeline runs on {data}; stop it first (nearcast up runs one unless it "
                "is told --no-pipeline)"
            ) from None
        yield


def check_checkpoints(data: Path, settings: SparkSettings) -> int:
    """Return the number of partitions of the state; raises `PipelineError` if it is unusable.

    Unless a number is requested, it is the one that the checkpoints were created with.
    """
    path = data / "checkpoints" / "began.json"
    now = Began(FORM, settings.parts)
    if path.exists():
        began = msgspec.json.decode(path.read_bytes(), type=Began)
        if began.form > FORM:
            raise PipelineError(
                f"{path.parent} was written by a later release (form {began.form}; this one "
                f"knows {FORM}): use that one, or begin anew with nearcast pipeline replay"
            )
        if settings.shuffle_partitions not in (0, began.shuffle_partitions):
            raise PipelineError(
                f"the state in {path.parent} is in {began.shuffle_partitions} partitions, and "
                f"{now.shuffle_partitions} are asked for: set pipeline.shuffle_partitions to the "
                "former, or to 0 for what there is, or build the state anew with nearcast pipeline "
                "replay --state"
            )
        return began.shuffle_partitions
    path.write_bytes(msgspec.json.encode(now))
    return now.shuffle_partitions


class _PipelineRun:
    """The running queries and their failures."""

    def __init__(self, pipeline: Pipeline, data: Path) -> None:
        self._pipeline = pipeline
        self._data = data
        self._settings = pipeline.settings
        self._failing = {name: _Failing() for name in pipeline.names}
        self._logs: dict[str, LogReader] = {}
        self._compact_at = self._vacuum_at = time.monotonic() + COMPACT_S
        self._tick_at = dict.fromkeys(pipeline.names, 0.0)
        self._undecided: dict[str, list[tuple[int, int]]] = {}
        self._followed: dict[str, int] = {}

    def run(self, stopped: threading.Event) -> None:
        self._report(stage="tables")
        self._migrate()
        for name in self._pipeline.names:
            self._report(stage="queries")
            self._start(name)
        log_event(log, logging.INFO, "following logs", brokers=", ".join(self._settings.brokers))
        try:
            while not stopped.wait(LOOK_S):
                for name in self._pipeline.names:
                    self._look_after(name)
                    self._advance_time(name)
                self._report()
                self._tidy()
        finally:
            self._pipeline.stop()
        self._report(ended=True)

    def _migrate(self) -> None:
        """Migrate tables of an earlier release, and report how far it has got."""
        if not needs_migration(self._data):
            return
        reported = 0.0

        def progress(what: str, done: int, total: int) -> None:
            nonlocal reported
            if time.monotonic() - reported >= PROGRESS_S or done == total:
                reported = time.monotonic()
                log_event(log, logging.INFO, what, epochs=done, of=total)
                self._report(stage="tables")

        migrate(self._data, progress, self._settings.tables)

    def _start(self, name: str) -> None:
        try:
            self._pipeline.start_query(name)
        except Exception as error:
            # Any error of Spark: it may be temporary, and if not, the job ends.
            self._failed(name, str(error))

    def _look_after(self, name: str) -> None:
        failing = self._failing[name]
        query = self._pipeline.queries.get(name)
        if query is not None and query.isActive:
            epoch = _epoch(query)
            if epoch > failing.epoch:
                failing.epoch, failing.in_a_row, failing.since = epoch, 0, None
            return
        if query is not None and not failing.again_at:
            self._failed(name, str(query.exception() or "it ended"))
        elif failing.again_at <= time.monotonic():
            failing.again_at = 0.0
            self._start(name)

    def _advance_time(self, name: str) -> None:
        """Let time pass for a query that waits for it, now and then while nothing else happens."""
        query = self._pipeline.queries.get(name)
        if query is None or not query.isActive or time.monotonic() < self._tick_at[name]:
            return
        progress = query.lastProgress
        reported = None if progress is None else msgspec.json.decode(progress.json)
        if self._pipeline.advance_time(name, str(query.id), watermark_of(reported)):
            self._tick_at[name] = time.monotonic() + self._pipeline.interval_s(name) + LOOK_S

    def _failed(self, name: str, problem: str) -> None:
        failing = self._failing[name]
        failing.times += 1
        failing.in_a_row += 1
        failing.problem = cause_of(problem)
        failing.since = failing.since or time.time()
        if failing.in_a_row > MOST_FAILURES:
            raise PipelineError(f"query {name} gets nowhere: {failing.problem}")
        pause_s = min(LONGEST_PAUSE_S, 2.0 ** (failing.in_a_row - 1))
        failing.again_at = time.monotonic() + pause_s
        log_event(
            log, logging.WARNING, "query failed", query=name, again_s=pause_s, why=failing.problem
        )

    def _report(self, *, stage: Stage = "running", ended: bool = False) -> None:
        ends = {name: self._end(name) for name in self._settings.brokers}
        found = [self._status(name, ends) for name in self._pipeline.names]
        undecided: dict[str, list[tuple[int, int]]] = {}
        for broker, end in ends.items():
            snapshots = Snapshots.of(self._settings.location, broker)
            # What the slowest query has yet to read is needed, and a snapshot before it.
            done = min(end - query.lag.get(broker, end) for query in found)
            self._follow(broker, snapshots.newest(done))
            if ranges := snapshots.undecided():
                undecided[broker] = ranges
        self._tell_undecided(undecided)
        waiting = [each for each in self._pipeline.backlogs() if each.rows or each.dropped_rows]
        status = Status(
            time.time(), os.getpid(), found, ended, stage, backlogs=waiting, undecided=undecided
        )
        write_status(self._data, status)

    def _follow(self, broker: str, snapshot: int) -> None:
        """Say up to which row there is a snapshot: to the broker, and to tasks."""
        follow(log_directory(self._data, broker), snapshot)
        if self._settings.storage and self._followed.get(broker) != snapshot:
            follow(log_directory(path_at(self._settings.storage), broker), snapshot)
            self._followed[broker] = snapshot

    def _tell_undecided(self, undecided: dict[str, list[tuple[int, int]]]) -> None:
        """Log rows that were never decided, once for each change."""
        for broker, ranges in undecided.items():
            if self._undecided.get(broker) != ranges:
                first, last = ranges[-1]
                log_event(
                    log, logging.WARNING, "rows never decided: those before had been dropped",
                    broker=broker, first=first, last=last,
                )  # fmt: skip
        self._undecided = undecided

    def _end(self, broker: str) -> int:
        """The last row of a broker's log that is in a segment."""
        try:
            reader = self._logs.get(broker)
            if reader is None:
                directory = log_directory(path_at(self._settings.location), broker)
                reader = self._logs[broker] = LogReader(directory)
            reader.refresh()
        except StoreError:
            return 0
        segments = reader.segments()
        return segments[-1].last_seq if segments else 0

    def _status(self, name: str, ends: dict[str, int]) -> QueryStatus:
        query, failing = self._pipeline.queries.get(name), self._failing[name]
        state: QueryState = "running" if query is not None and query.isActive else "waiting"
        if failing.since is not None:
            state = "failing"
        progress = None if query is None else query.lastProgress
        reported = None if progress is None else msgspec.json.decode(progress.json)
        found = query_status(
            name,
            reported,
            ends,
            state=state,
            failures=failing.times,
            problem=failing.problem,
            failing_since=failing.since,
        )
        waiting = [self._waiting_since(each, ends[each], lag) for each, lag in found.lag.items()]
        since = min((at for at in waiting if at is not None), default=None)
        return found if since is None else replace(found, lag_s=max(0.0, time.time() - since))

    def _waiting_since(self, broker: str, end: int, lag: int) -> float | None:
        """The time of the segment with a broker's oldest unprocessed row; None if there is none."""
        reader = self._logs.get(broker)
        if reader is None or not lag:
            return None
        next_seq = end + 1 - lag
        behind = (each for each in reader.segments() if each.last_seq >= next_seq)
        first = next(behind, None)
        return None if first is None else first.first_ingested

    def _tidy(self) -> None:
        """Compact the tables from time to time, drop old days, and vacuum."""
        if time.monotonic() < self._compact_at:
            return
        self._compact_at = time.monotonic() + COMPACT_S
        settings = self._settings
        # Opened anew: the queries write at the same time.
        tables = Tables(self._data, settings.tables)
        try:
            if any(each.files >= COMPACT_FROM for each in tables.statistics()):
                log_event(log, logging.INFO, "tables compacted", **tables.compact())
            if time.monotonic() >= self._vacuum_at:
                self._vacuum_at = time.monotonic() + VACUUM_S
                dropped = drop_old(tables, settings.keep_days, time.time())
                log_event(
                    log, logging.INFO, "tables vacuumed", old=dropped, deleted=tables.vacuum()
                )
        except (OSError, PipelineError) as error:
            log_event(log, logging.WARNING, "tables cannot be compacted", why=str(error))


def _epoch(query: "StreamingQuery") -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)
