"""`nearcast pipeline`: run the data pipeline, show its status, replay, audit and compact."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from nearcast.broker.config.configuration import load
from nearcast.broker.config.settings import Settings
from nearcast.broker.operations.log_handler import set_up
from nearcast.broker.situation.metadata import time_text
from nearcast.cli.broker.file_access import limit_access
from nearcast.cli.failures import fail
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.errors import NearcastError
from nearcast.pipeline.jobs.status import STAGES, Status, problems, read_status
from nearcast.pipeline.tables.migration import migrate
from nearcast.pipeline.tables.tables import Tables, TableStatistics
from nearcast.store import StoreError, brokers_in, path_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.pipeline.jobs.audit import Audit

LARGE_ROWS = 1_000_000
"""From this number of rows on, compiling Java code pays off."""
app = typer.Typer(no_args_is_help=True, help="The data pipeline on Spark.")

Config = Annotated[
    Path | None, typer.Option(help="Settings in TOML; by default nearcast.toml here.")
]
Data = Annotated[
    str | None, typer.Option(help="The data directory of the brokers [default: nearcast-data].")
]
Master = Annotated[
    str | None, typer.Option(help="Where Spark runs, such as spark://HOST:7077 [local[*]].")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print figures as JSON.")]
Since = Annotated[str | None, typer.Option(help="From when on, as in 2026-11-15T08:00:00Z.")]
Until = Annotated[str | None, typer.Option(help="Until when; not included.")]


def _settings(config: Path | None, data: str | None, master: str | None = None) -> Settings:
    options = {"broker.data": data, "pipeline.master": master}
    return load(config, os.environ, options)


@app.command()
def run(
    config: Config = None,
    data: Data = None,
    master: Master = None,
    parent: Annotated[int | None, typer.Option(hidden=True, help="End with this process.")] = None,
) -> None:
    """Follow the logs of all brokers, resuming where it stopped; Ctrl-C stops.

    Writes the tables under DATA/tables and hands what it finds to the brokers. `nearcast up`
    runs one beside the broker unless it is told --no-pipeline.
    """
    from nearcast.cli.spark_settings import pipeline_settings, spark_settings
    from nearcast.pipeline.jobs.job import run as run_job

    settings = _settings(config, data, master)
    handler = set_up(settings.logging)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent, stopped), daemon=True).start()
    try:
        limit_access(settings)
        run_job(pipeline_settings(settings), spark_settings(settings, brisk=True), stopped)
    finally:
        handler.close()


def _end_with(parent: int, stopped: threading.Event) -> None:
    """Stop when the parent process has ended."""
    while os.getppid() == parent:
        time.sleep(1.0)
    stopped.set()


@app.command()
def status(
    config: Config = None,
    data: Data = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it anew every second; Ctrl-C ends that.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say how the pipeline is doing: rates, lag, batch times, size of state, and its tables."""
    settings = _settings(config, data)
    where = Path(settings.node.data)
    if watch:
        if as_json:
            why = "it is for people; programs call status --json again"
            raise typer.BadParameter(why, param_hint="--watch")
        _watch_status(where, _tables(settings))
        return
    found, tables = read_status(where), _tables(settings).statistics()
    if as_json:
        shown = None if found is None else _with_times(msgspec.to_builtins(found))
        alive = found is not None and found.is_up
        value = {
            "running": alive,
            "state": "absent" if found is None else found.state,
            "status": shown,
            "tables": msgspec.to_builtins(tables),
        }
        typer.echo(json.dumps(value, indent=2))
        return
    console = Console()
    for part in _shown_status(where, found, tables):
        console.print(part, soft_wrap=isinstance(part, Text))


def _watch_status(data: Path, tables: Tables) -> None:
    """Show the status until the user has seen enough."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with Live(auto_refresh=False) as live:
        while not stopped.is_set():
            shown = _shown_status(data, read_status(data), tables.statistics())
            live.update(Group(*shown), refresh=True)
            stopped.wait(1.0)


@app.command()
def replay(
    config: Config = None,
    data: Data = None,
    master: Master = None,
    since: Since = None,
    until: Until = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Tell brokers what a run would have told them.")
    ] = False,
    state: Annotated[
        bool,
        typer.Option("--state", help="Only let the next run build its state anew from the log."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Give up rows whose part of the log is dropped.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the tables anew from history, as fast as it goes, and put them in place.

    A range replaces the rows of that range. Rows that the log cannot give again are not given up
    unless forced. The pipeline must not be running; earlier versions of the tables can still be
    read.
    """
    from nearcast.cli.spark_settings import pipeline_settings
    from nearcast.pipeline.jobs.job import alone
    from nearcast.pipeline.jobs.replay import Range
    from nearcast.pipeline.jobs.replay import replay as replay_history
    from nearcast.pipeline.jobs.state_rebuild import rebuild_state

    settings = _settings(config, data, master)
    chosen = pipeline_settings(settings)
    limit_access(settings)
    with alone(Path(chosen.data)):
        if state:
            migrate(Path(chosen.data), location=chosen.tables)
            rebuild_state(Path(chosen.data), chosen.tables)
            typer.echo("The next nearcast pipeline run builds its state anew.", err=as_json)
            return
        started = time.monotonic()
        span = Range(_time(since, "--since"), _time(until, "--until"))
        with _session(settings, quiet=as_json) as (spark, step):
            migrate(Path(chosen.data), step, chosen.tables)
            rows = replay_history(spark, chosen, span, step, publish=publish, force=force)
        seconds = time.monotonic() - started
    if as_json:
        typer.echo(json.dumps({"rows": rows, "seconds": seconds}, indent=2))
        return
    for name, count in rows.items():
        typer.echo(f"{name:12} {count:>12,} rows")
    typer.echo(f"Made anew in {seconds:.1f} s.")


@app.command()
def audit(
    config: Config = None,
    data: Data = None,
    master: Master = None,
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Compare what brokers delivered with what they should have by their own logs.

    Needs `record.deliveries = true` at the brokers. The exit code is 1 if anything differs, and 2
    if nothing could be compared.
    """
    settings = _settings(config, data, master)
    try:
        found = _compare(settings, since, until, quiet=as_json)
    except NearcastError as error:
        fail(str(error), 2)
    if as_json:
        typer.echo(json.dumps({"passed": found.passed} | msgspec.to_builtins(found), indent=2))
    else:
        _print_audit(found)
    raise typer.Exit(audit_exit_code(found))


def audit_exit_code(found: "Audit") -> int:
    """Return 1 if anything differs, and 2 if nothing could be compared."""
    if not found.passed:
        return 1
    return 0 if found.copies else 2


def _compare(settings: Settings, since: str | None, until: str | None, *, quiet: bool) -> "Audit":
    from nearcast.pipeline.jobs.audit import audit as audit_log

    with _session(settings, quiet=quiet) as (spark, step):
        reader = spark.read.format("nearcast").option("path", settings.logs)
        span = {"since": _time(since, "--since"), "until": _time(until, "--until")}
        for name, moment in span.items():
            if moment is not None:
                reader = reader.option(name, moment)
        step("comparing", 0, 1)
        shards = settings.pipeline.decide_shards
        return audit_log(reader.load(), settings.logs, shards, **span)


@app.command()
def compact(
    config: Config = None,
    data: Data = None,
    history_hours: Annotated[
        float | None,
        typer.Option(min=0, help="Also delete what only versions before so many hours have."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put the many small files of each table together; the pipeline may be running."""
    settings = _settings(config, data)
    limit_access(settings)
    tables = _tables(settings)
    merged = tables.compact()
    deleted = 0 if history_hours is None else tables.vacuum(history_hours * 3600.0)
    if as_json:
        typer.echo(json.dumps({"merged": merged, "deleted": deleted}))
        return
    if not merged:
        typer.echo("There is nothing to put together.")
    for name, files in merged.items():
        typer.echo(f"{name}: {files} files put together")
    if history_hours is not None:
        typer.echo(f"{deleted} files of earlier versions deleted")


@app.command()
def dictionary(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(help="Topic filters; without any, all of before are trained anew."),
    ] = None,
    config: Config = None,
    data: Data = None,
    least: Annotated[
        int, typer.Option(help="Every text in it is of at least so many publishers.")
    ] = 10,
    size: Annotated[int, typer.Option("--bytes", help="The limit of its size.")] = 4096,
    as_json: AsJson = False,
) -> None:
    """Train a dictionary for the small messages of each topic filter, from the broker's log.

    Clients that accept it get messages of these topics encoded with it at once, as far as they may
    subscribe to the whole filter. The broker may be running. `nearcast forget` trains all anew.
    """
    from nearcast.cli.dictionary_training import train_anew, train_patterns

    settings = _settings(config, data)
    limit_access(settings)
    found = train_patterns(settings, patterns, least, size) if patterns else train_anew(settings)
    shown = [
        {"pattern": each.pattern, "number": each.number, "bytes": len(each.trained),
         "messages": each.messages, "least_publishers": each.least_publishers}
        for each in found
    ]  # fmt: skip
    if as_json:
        typer.echo(json.dumps({"dictionaries": shown}))
        return
    if not found:
        typer.echo("No dictionaries are kept; name topic filters to train some.")
    for each in found:
        what = f"dictionary {each.number}, {len(each.trained):,} bytes"
        typer.echo(f"{each.pattern}: {what} from {each.messages:,} messages")


def _tables(settings: Settings) -> Tables:
    return Tables(Path(settings.node.data), settings.tables)


@contextmanager
def _session(
    settings: Settings, quiet: bool
) -> "Iterator[tuple[SparkSession, Callable[[str, int, int], None]]]":
    """Start Spark, with a progress bar."""
    if not brokers_in(path_at(settings.logs)):
        raise StoreError(f"{settings.logs} has no logs of brokers: see --data and data.storage")
    from nearcast.cli.spark_settings import spark_settings
    from nearcast.pipeline.jobs.spark_session import session, stop
    from nearcast.pipeline.source.log_follower import Logs

    logs = Logs(path_at(settings.logs))
    logs.refresh()
    rows = sum(manifest.last_seq for manifest in logs.manifests().values())
    hidden = quiet or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), disable=hidden, transient=True) as bar:
        task = bar.add_task("Starting Spark", total=None)
        spark = session(spark_settings(settings, brisk=rows < LARGE_ROWS))
        ended = threading.Event()
        doing = ["Starting Spark"]

        def step(what: str, at: int, of: int) -> None:
            doing[0] = f"{what} ({at + 1} of {of})" if at < of else what

        def watch() -> None:
            tracker = spark.sparkContext.statusTracker()
            while not ended.wait(0.5):
                stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
                known = [each for each in stages if each is not None]
                total = sum(each.numTasks for each in known)
                done = sum(each.numCompletedTasks for each in known)
                bar.update(task, description=doing[0], completed=done, total=total or None)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield spark, step
        finally:
            ended.set()
            watcher.join()
            stop(spark)


def _time(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time; write one as in 2026-11-15T08:00:00Z", param_hint=option
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _with_times(status: dict[str, object]) -> dict[str, object]:
    """Return a status with times in RFC 3339; the status file has seconds."""
    shown = status | {"written": time_text(float(str(status["written"])))}
    queries = status["queries"]
    assert isinstance(queries, list)
    shown["queries"] = [
        query
        if query["failing_since"] is None
        else query | {"failing_since": time_text(query["failing_since"])}
        for query in queries
    ]
    backlogs = status["backlogs"]
    assert isinstance(backlogs, list)
    shown["backlogs"] = [
        each if each["since"] is None else each | {"since": time_text(each["since"])}
        for each in backlogs
    ]
    return shown


def _shown_status(
    data: Path, found: Status | None, tables: list[TableStatistics]
) -> list[Text | Table]:
    parts: list[Text | Table] = []
    if found is None:
        parts.append(Text(f"No pipeline has run on {data} yet; nearcast pipeline run starts one."))
    elif found.is_stale:
        ago = time.time() - found.written
        parts.append(Text(f"The pipeline does not run; it was last seen {ago:.0f} s ago."))
    elif not found.is_up:
        parts.append(Text(f"The pipeline is starting: {STAGES[found.stage]}."))
    if found is not None:
        shown = Table("query", "state", "epoch", "rows/s", "batch", "lag", "state", "failures")
        for query in found.queries:
            shown.add_row(
                query.name,
                query.state if found.state == "running" else found.state,
                str(query.epoch),
                f"{query.rows_per_s:,.0f}",
                f"{query.batch_rows:,} rows in {query.batch_s:.2f} s",
                f"{sum(query.lag.values()):,} rows, {query.lag_s:,.1f} s",
                f"{query.state_rows:,} rows, {query.state_bytes / 1e6:.1f} MB",
                f"{query.failures:,}",
            )
        parts.append(shown)
        parts += [Text(problem, style="red") for problem in problems(found)]
    if tables:
        shown = Table("table", "rows", "version", "files", "size")
        for each in tables:
            size = f"{each.bytes / 1e6:.1f} MB"
            shown.add_row(each.name, f"{each.rows:,}", str(each.version), str(each.files), size)
        parts.append(shown)
    return parts


def _print_audit(found: "Audit") -> None:
    typer.echo(f"{found.copies:,} copies compared.")
    for what, count in found.counts.items():
        if count:
            typer.echo(f"{count:,} {what}")
    for each in found.differences[:20]:
        wanted = ", ".join(SubscriptionId.parse(name).label for name in each.subscriptions)
        typer.echo(
            f"  {each.what}: {each.broker}, event {each.event} of {each.publisher} to "
            f"{each.session} by {wanted}; priority {each.decided} by the log, {each.recorded} "
            "as recorded"
        )
    if found.unrecorded:
        typer.echo(
            f"{found.unrecorded:,} copies were decided while their broker recorded no "
            "deliveries (record.deliveries): they could not be compared."
        )
    if found.unusable:
        typer.echo(f"{found.unusable:,} stretches of the log could not be applied: see rejects.")
    if not found.copies:
        typer.echo("Nothing could be compared.")
    elif found.passed:
        typer.echo("Nothing differs.")
