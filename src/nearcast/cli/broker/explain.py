"""`nearcast explain`: why a node did or did not get an event."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from msgspec import convert, to_builtins
from rich.console import Console
from rich.progress import Progress

from nearcast.broker.config.configuration import load
from nearcast.broker.operations.control import ControlError, ask
from nearcast.broker.operations.explanations.explanation import (
    Explanation,
    as_value,
    events_named,
    explain_everyone,
    label_of,
)
from nearcast.broker.operations.explanations.explanation import explain as explained
from nearcast.broker.operations.explanations.recent_events import recent_events
from nearcast.broker.operations.explanations.relationship_explanation import explain_relationship
from nearcast.broker.operations.explanations.waiting_copies import WaitingCopy
from nearcast.broker.situation.metadata import time_text
from nearcast.cli.broker.relationship_lines import print_relationship
from nearcast.cli.failures import fail
from nearcast.core.model.event import Event
from nearcast.core.model.subject import check_pattern
from nearcast.core.propagation.outbox import WITHHELD
from nearcast.store import LogReader, broker_directory

LOGGED_WITHIN_S = 1.5
ASKED_FOR_S = 5.0
"""How long a running broker may take to say what waits."""
T = TypeVar("T")
Progressing = Callable[[int, int], None]


def explain(
    event: Annotated[
        str | None,
        typer.Argument(help="The id of the event, as pub prints it and nc-id of a delivery tells."),
    ] = None,
    node: Annotated[
        str | None,
        typer.Argument(help="The node that did or did not get it [default: all that subscribed]."),
    ] = None,
    *,
    last: Annotated[
        str | None,
        typer.Option(
            metavar="SUBJECT", help="The newest event on a subject; + and # may be in it."
        ),
    ] = None,
    relationship: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A relationship: why it is near or apart."),
    ] = None,
    most: Annotated[
        int, typer.Option(min=1, help="So many recent events, or changes, are listed.")
    ] = 20,
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
    """List recent events; or say, step by step, why a node did or did not get one.

    `explain` lists, `explain EVENT NODE` and `explain --last SUBJECT NODE` say why; `explain
    --relationship NAME` says whose reports made it near or apart, and by what margin. The broker's
    log is played again up to the event, so the answer is that of then, not of now; for an event
    that stays it is played on until the node got it. If the broker is running, it says as well what
    of the event still waits for the node. An event is in the log a second after it was published.
    """
    settings = load(config, os.environ, {"broker.data": data})
    log = broker_directory(Path(settings.node.data), settings.node.name) / "log"
    if relationship is not None:
        if event is not None or last is not None:
            raise typer.BadParameter("a relationship is explained by itself", param_hint="EVENT")
        quiet = partial(explain_relationship, log, relationship, most)
        print_relationship(_with_progress(as_json, quiet), as_json)
        return
    if last is not None:
        if node is not None:
            raise typer.BadParameter("with --last, give the node alone", param_hint="EVENT")
        check_pattern(last)
        node = event
        found = recent_events(log, 1, last, _of(publisher))
        if not found:
            fail(f"no event on {last} is in {log}; one is there a second after it was published")
        event, publisher = found[0].id, found[0].publisher
    if event is None:
        _list(recent_events(log, most, "#", _of(publisher)), as_json)
        return
    _wait_for(log, event)
    if node is None:
        _print_everyone(_played(as_json, explain_everyone, log, event, publisher), as_json)
    else:
        explanation = _played(as_json, partial(_of_node, node), log, event, publisher)
        _print(explanation, as_json, _waiting(log.parent, explanation))


def _wait_for(log: Path, event: str) -> None:
    """Wait until an event that was just published is in the log, which takes a second."""
    until = time.monotonic() + LOGGED_WITHIN_S
    while log.is_dir() and not events_named(LogReader(log), event) and time.monotonic() < until:
        time.sleep(0.1)


def _waiting(directory: Path, found: Explanation) -> list[WaitingCopy] | None:
    """Ask the broker what waits of an event for a node; None if it does not run."""
    event, publisher = found.event.id, found.event.publisher
    try:
        answer = ask(
            directory, "waiting", ASKED_FOR_S, event=event, node=found.node, publisher=publisher
        )
    except (ConnectionError, ControlError):
        return None
    return convert(answer, list[WaitingCopy])


def _of(publisher: str | None) -> Callable[[Event], bool]:
    return lambda event: publisher in (None, event.publisher)


def _of_node(
    node: str, log: Path, event: str, settings: None, progress: Progressing, publisher: str | None
) -> Explanation:
    return explained(log, event, node, settings, progress, publisher)


def _played(
    as_json: bool, play: Callable[..., T], log: Path, event: str, publisher: str | None
) -> T:
    """Replay the log for an event, with a progress bar on a terminal."""
    return _with_progress(as_json, lambda progress: play(log, event, None, progress, publisher))


def _with_progress(as_json: bool, play: Callable[[Progressing], T]) -> T:
    quiet = as_json or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), disable=quiet, transient=True) as bar:
        task = bar.add_task("Playing the log again", total=None)

        def progress(at: int, of: int) -> None:
            bar.update(task, completed=at, total=of)

        return play(progress)


def _list(events: Sequence[Event], as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "time": time_text(each.time),
                "subject": each.subject,
                "publisher": each.publisher,
                "id": each.id,
            }
            for each in events
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    for each in events:
        typer.echo(f"{time_text(each.time)} {each.subject} {each.publisher} {each.id}")
    if not events:
        typer.echo("No events are in the log.", err=True)


def _print_everyone(found: Sequence[Explanation], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([as_value(each) for each in found], indent=2))
        return
    for each in found:
        _print(each, False, None)
    if not found:
        typer.echo("Nobody had a subscription then.")


def _print(found: Explanation, as_json: bool, waiting: list[WaitingCopy] | None) -> None:
    if as_json:
        told = {} if waiting is None else {"waiting": to_builtins(waiting)}
        typer.echo(json.dumps(as_value(found) | told, indent=2))
        return
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
    for copy in waiting or ():
        urgency = "withheld" if copy.priority == WITHHELD else f"priority {copy.priority}"
        ahead = f", {copy.ahead} before it" if copy.ahead else ""
        so_far = f"{copy.waits_s:.0f} s so far ({urgency}{ahead})"
        typer.echo(f"It waits for {copy.client}, {so_far}: {copy.why}.")
    for gap in found.missing:
        typer.echo(f"Part of the log is missing, so this may be wrong: {gap}", err=True)
