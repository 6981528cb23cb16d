"""`nearcast forget`: erase a node from a broker's state, its log and the tables."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from nearcast.broker.config.configuration import load
from nearcast.broker.config.settings import Settings
from nearcast.broker.durability.clock_follower import clock_for
from nearcast.broker.durability.erasure import forget_in_store
from nearcast.broker.durability.log_copier import copy_of_log
from nearcast.broker.durability.node_erasures import read_intents, write_intents
from nearcast.broker.operations.control import ask
from nearcast.cli.broker.file_access import limit_access
from nearcast.cli.failures import fail
from nearcast.store import InUseError, Store, broker_directory, read_manifest
from nearcast.store.dictionaries import read_dictionaries, remove_trained

WAIT_S = 60.0
"""How long to wait for a running pipeline."""


def forget(
    node: Annotated[str, typer.Argument(help="Whom to forget: a node, without its parts.")],
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML; by default nearcast.toml here.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The broker's data directory [default: nearcast-data].")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask again.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Remove all that a broker knows of a person, while it runs or not.

    Sessions, queued and live messages, context and announcements go, every row of the log that
    tells of the node is erased, and so is what the data pipeline has of it in tables, in
    snapshots and waiting for brokers. What others have received is theirs. Backups are not touched.
    """
    settings = load(config, os.environ, {"broker.data": data})
    if not yes:
        typer.confirm(f"Forget {node}? This cannot be undone", abort=True)
    name = settings.node.name
    where = Path(settings.node.data)
    limit_access(settings)
    directory = broker_directory(where, name)
    try:
        found = ask(directory, "forget", node=node)
    except ConnectionError:
        if not directory.is_dir():
            fail(f"{directory} holds no broker; name its data directory")
        try:
            store = Store(where, name)
        except InUseError as error:
            fail(f"{error}; it is starting or stopping: try again")
        try:
            remove_trained(directory)
            found = forget_in_store(store, settings, node, clock_for(store).now())
            left = [each for each in read_intents(directory) if each != node]
            write_intents(directory, left)
        finally:
            store.close()
        copy = copy_of_log(store, settings.data.storage)
        if copy is not None:
            copy.update()
    assert isinstance(found, dict)
    _train_dictionaries_anew(settings)
    seq = read_manifest(directory / "log").last_seq
    rows, waiting, ready = _forget_in_pipeline(where, settings, node, {name: seq})
    figures = {
        "node": node,
        **found,
        "table_rows": rows,
        "backlog_rows": waiting,
        "pipeline_caught_up": ready,
    }
    typer.echo(
        json.dumps(figures)
        if as_json
        else f"Forgot {node}: {found['sessions']} sessions, {found['messages']} waiting messages, "
        f"rows in {found['segments']} segments of the log, {rows} rows of tables."
    )
    if not ready:
        fail(
            "The pipeline is behind, and may yet write what it read before: forget once more when "
            "nearcast pipeline status tells of no lag."
        )


def _train_dictionaries_anew(settings: Settings) -> None:
    directory = broker_directory(Path(settings.node.data), settings.node.name)
    if read_dictionaries(directory):
        # Imported here: it is installed where dictionaries are trained.
        from nearcast.cli.dictionary_training import train_anew

        train_anew(settings)


def _forget_in_pipeline(
    data: Path, settings: Settings, node: str, seqs: dict[str, int]
) -> tuple[int, int, bool]:
    """Erase a node from tables and backlogs; return rows of both, and if they were up to date."""
    if not (data / "checkpoints").is_dir():
        return 0, 0, True
    # Imported here: these are installed where a pipeline runs.
    from nearcast.pipeline.sink.backlog_erasure import forget_in_backlogs
    from nearcast.pipeline.tables.erasure import caught_up
    from nearcast.pipeline.tables.erasure import forget as forget_in_tables

    ready = caught_up(data, seqs, WAIT_S)
    rows = forget_in_tables(data, node, settings.tables, settings.data.storage)
    return rows, forget_in_backlogs(data, node), ready
