"""`nearcast explain`: why a node did or did not get an event."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from nearcast.broker.configuration import load
from nearcast.broker.explaining import Explanation, as_value, label_of
from nearcast.broker.explaining import explain as explained
from nearcast.broker.situation.metadata import time_text
from nearcast.store import StoreError, broker_directory


def explain(
    event: Annotated[str, typer.Argument(help="The id of the event: nc-id of a delivery.")],
    node: Annotated[str, typer.Argument(help="The node that did or did not get it.")],
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML; by default nearcast.toml here.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The broker's data directory [default: nearcast-data].")
    ] = None,
    publisher: Annotated[
        str | None, typer.Option(help="Whose event it is, where two have the same id.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say, step by step, why a node did or did not get an event.

    The broker's log is played again up to the event, so the answer is that of then, not of now;
    for an event that stays it is played on until the node got it. The broker may be running.
    """
    settings = load(config, os.environ, {"broker.data": data})
    log = broker_directory(Path(settings.node.data), settings.node.name) / "log"
    quiet = as_json or not sys.stderr.isatty()
    try:
        with Progress(console=Console(stderr=True), disable=quiet, transient=True) as bar:
            task = bar.add_task("Playing the log again", total=None)
            found = explained(
                log,
                event,
                node,
                None,
                lambda at, of: bar.update(task, completed=at, total=of),
                publisher,
            )
    except StoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(as_value(found), indent=2))
    else:
        _print(found)


def _print(found: Explanation) -> None:
    event = found.event
    got = "was for" if found.delivered else "was not for"
    typer.echo(f"{event.subject} ({event.id}, input {found.seq}) {got} {found.node}.")
    if not found.verdicts:
        typer.echo(f"{found.node} had no subscription then.")
    for verdict in found.verdicts:
        typer.echo(f"  {label_of(verdict.subscription)}")
        for step in verdict.steps:
            typer.echo(f"    {'yes' if step.passed else 'no '}  {step.step}: {step.why}")
    if found.later is not None:
        when = time_text(found.later.time)
        typer.echo(f"{found.node} got it later, by input {found.later.seq} at {when}.")
    for gap in found.missing:
        typer.echo(f"Part of the log is missing, so this may be wrong: {gap}", err=True)
