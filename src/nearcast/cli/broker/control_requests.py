"""Requests of commands to a running broker: the options that say which, and the answer."""

import os
from pathlib import Path
from typing import Annotated

import typer

from nearcast.broker.config.configuration import load
from nearcast.broker.operations.control import ask
from nearcast.cli.failures import fail
from nearcast.store import broker_directory

ConfigOption = Annotated[
    Path | None, typer.Option(help="Settings in TOML; by default nearcast.toml here.")
]
DataOption = Annotated[
    str | None, typer.Option(help="The broker's data directory [default: nearcast-data].")
]

ANSWER_S = 60.0
"""How long a broker may take to answer."""


def broker_of(config: Path | None, data: str | None) -> Path:
    """Return the directory of the broker that the options mean."""
    settings = load(config, os.environ, {"broker.data": data})
    return broker_directory(Path(settings.node.data), settings.node.name)


def answer_of(directory: Path, what: str, **about: object) -> object:
    """Send a request to a running broker; the command ends if there is none."""
    try:
        return ask(directory, what, ANSWER_S, **about)
    except ConnectionError as error:
        fail(f"{error}; name the data directory of one that runs")
