"""`nearcast top`: who uses what of a running broker."""

import json
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer
from msgspec import convert, to_builtins
from rich.console import Console
from rich.live import Live

from nearcast.broker.operations.operator_requests import (
    LONGEST_INTERVAL_S,
    MOST_SESSIONS,
    SessionReport,
)
from nearcast.broker.operations.session_table import SortKey
from nearcast.cli.broker.control_requests import (
    ConfigOption,
    DataOption,
    answer_of,
    broker_of,
)
from nearcast.cli.broker.session_view import HEADER_LINES, session_view

WIDE = 200
"""Columns where the output is no terminal: nothing is cut."""


def top(
    config: ConfigOption = None,
    data: DataOption = None,
    sort: Annotated[SortKey, typer.Option(help="Which sessions come first.")] = SortKey.CPU,
    most: Annotated[
        int, typer.Option(min=1, max=MOST_SESSIONS, help="The most sessions to show.")
    ] = 50,
    interval: Annotated[
        float,
        typer.Option(min=0.1, max=LONGEST_INTERVAL_S, help="Seconds that rates are taken over."),
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it once, as JSON.")] = False,
) -> None:
    """Show the sessions of a running broker that use most, and its load; Ctrl-C ends that.

    CPU is what the work of a session costs, as a share of a core: receiving and deciding what it
    publishes, copies for others, its filters. Run it as the user that the broker runs as.
    """
    directory = broker_of(config, data)

    def read(rows: int) -> SessionReport:
        answer = answer_of(directory, "sessions", sort=sort, most=rows, interval_s=interval)
        return convert(answer, SessionReport)

    console = Console()
    if as_json:
        typer.echo(json.dumps(to_builtins(read(most)), indent=2))
    elif once or not console.is_terminal:
        wide = console if console.is_terminal else Console(width=WIDE)
        wide.print(session_view(read(most), sort))
    else:
        _watch(console, read, most, sort)


def _watch(
    console: Console, read: Callable[[int], SessionReport], most: int, sort: SortKey
) -> None:
    """Show the sessions until the user has seen enough."""
    # Both end the program by an exception, so that the terminal is left in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        while True:
            rows = max(1, min(most, console.height - HEADER_LINES))
            live.update(session_view(read(rows), sort), refresh=True)
