"""`nearcast backup`: a copy of a broker's data, while it runs or not."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from nearcast.broker.config.configuration import load
from nearcast.store import back_up, broker_directory


def backup(
    target: Annotated[Path, typer.Argument(help="A new data directory.")],
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML; by default nearcast.toml here.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The broker's data directory [default: nearcast-data].")
    ] = None,
    broker: Annotated[str | None, typer.Option(help="Its name [default: local].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Copy sessions, queues, live events and the log into a new data directory.

    The copy is that of one moment, with everything acknowledged until then; the broker may go on
    meanwhile. `nearcast up --data TARGET` runs on it.
    """
    settings = load(config, os.environ, {"broker.data": data, "broker.name": broker})
    name = settings.node.name
    seq = back_up(broker_directory(Path(settings.node.data), name), target, name)
    typer.echo(
        json.dumps({"broker": name, "target": str(target), "seq": seq})
        if as_json
        else f"Backed up {name} to {target}, up to input {seq}."
    )
