"""`nearcast disconnect`: end the connection of a client, or those of a user."""

import json
from typing import Annotated

import typer
from msgspec import convert, to_builtins

from nearcast.broker.operations.operator_requests import Disconnected
from nearcast.cli.broker.control_requests import (
    ConfigOption,
    DataOption,
    answer_of,
    broker_of,
)
from nearcast.cli.failures import fail


def disconnect(
    client: Annotated[
        str | None, typer.Argument(help="The client id, as `nearcast top` shows it.")
    ] = None,
    *,
    user: Annotated[
        str | None, typer.Option(help="Disconnect all clients of a user instead.")
    ] = None,
    reason: Annotated[str, typer.Option(help="What clients of MQTT 5 are told.")] = (
        "disconnected by the operator"
    ),
    end_session: Annotated[
        bool,
        typer.Option("--end-session", help="End the session too, with what waits for the client."),
    ] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print who it was, as JSON.")] = False,
) -> None:
    """Disconnect a client of a running broker, or all clients of a user.

    A will is published as after any loss of a connection, and a session that outlives its
    connection stays unless --end-session is given, which works for clients that are away too. To
    keep somebody out, change users or rules before. Exit code 1: nobody of that name was there.
    """
    if (client is None) == (user is None):
        raise typer.BadParameter("name a client, or a user with --user", param_hint="CLIENT")
    whom = {"client": client} if user is None else {"user": user}
    about = {"reason": reason, "end_session": end_session, **whom}
    found = convert(answer_of(broker_of(config, data), "disconnect", **about), Disconnected)
    if as_json:
        typer.echo(json.dumps(to_builtins(found)))
    if not found.clients and not found.ended:
        name = f"client {client}" if user is None else f"client of user {user}"
        fail(f"no {name} is connected{', or has a session' if end_session else ''}")
    if not as_json:
        ended = f", ended {_counted(found.ended, 'session')}" if end_session else ""
        typer.echo(f"Disconnected {_counted(found.clients, 'client')}{ended}.")


def _counted(names: list[str], noun: str) -> str:
    return f"{len(names)} {noun}" if len(names) == 1 else f"{len(names)} {noun}s"
