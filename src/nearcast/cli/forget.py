"""`nearcast forget`: a person out of a broker's state and log."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from nearcast.broker.configuration import load
from nearcast.broker.control import ControlError, ask
from nearcast.broker.forgetting import forget_in_store
from nearcast.store import InUseError, Store, StoreError, broker_directory


def forget(
    node: Annotated[str, typer.Argument(help="Whom to forget: a node, without its parts.")],
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML; by default nearcast.toml here.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The broker's data directory [default: nearcast-data].")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask again.")] = False,
) -> None:
    """Remove all that a broker knows of a person, while it runs or not.

    Sessions, queued and live messages, context and announcements go, and every row of the log that
    tells of the node is erased. What others have received is theirs. Backups are not touched.
    """
    settings = load(config, os.environ, {"broker.data": data})
    if not yes:
        typer.confirm(f"Forget {node}? This cannot be undone", abort=True)
    name = settings.node.name
    where = Path(settings.node.data)
    try:
        directory = broker_directory(where, name)
        try:
            found = ask(directory, "forget", node=node)
        except ConnectionError:
            if not directory.is_dir():
                raise StoreError(f"{directory} holds no broker; name its data directory") from None
            store = Store(where, name)
            try:
                found = forget_in_store(store, settings, node, time.time())
            finally:
                store.close()
    except InUseError as error:
        typer.echo(f"{error}; it is starting or stopping: try again", err=True)
        raise typer.Exit(1) from None
    except (StoreError, ControlError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    assert isinstance(found, dict)
    typer.echo(
        f"Forgot {node}: {found['sessions']} sessions, {found['messages']} waiting messages, "
        f"rows in {found['segments']} segments of the log."
    )
