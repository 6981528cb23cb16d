"""`nearcast script`: scripts placed at nodes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from nearcast.cli.client import server_options as server
from nearcast.cli.failures import fail
from nearcast.client.api.node import Node
from nearcast.client.api.node_scripts import ListedScript, Wanted

app = typer.Typer(
    help="Place scripts at nodes: add, edit, execute, remove and list them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

IdArgument = Annotated[str, typer.Argument(help="The script's name at its node.")]
FileArgument = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="The source, in Starlark.")
]
NodeOption = Annotated[
    str | None,
    typer.Option(metavar="NODE", help="The node that it runs for [default: that of the client]."),
]
EventsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILTER",
        help='A topic filter, or JSON such as {"subject": "speed/#", "where": "kmh > 50"}; '
        "may be repeated.",
    ),
]
RunOption = Annotated[bool, typer.Option("--run", help="Call its run(args, state) at once.")]


@app.command()
@server.with_broker
def add(
    id: IdArgument,  # noqa: A002  # the word of the contract
    file: FileArgument,
    *,
    node: NodeOption = None,
    events: EventsOption = None,
    run: RunOption = False,
    broker: server.BrokerOptions,
) -> None:
    """Place a script at a node; it is in force when this returns."""
    source, wanted = file.read_text(encoding="utf-8"), _wanted(events or [])
    _run(
        broker, node,
        lambda me: me.add_script(id, source, events=wanted, node=node, run_on_load=run),
    )  # fmt: skip


@app.command()
@server.with_broker
def edit(
    id: IdArgument,  # noqa: A002
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help="The new source.")
    ] = None,
    *,
    node: NodeOption = None,
    events: EventsOption = None,
    run: RunOption = False,
    broker: server.BrokerOptions,
) -> None:
    """Change a script; its state, and what is not given, stay. A stopped script goes on."""
    source = None if file is None else file.read_text(encoding="utf-8")
    wanted = None if events is None else _wanted(events)
    _run(
        broker, node,
        lambda me: me.edit_script(id, source, events=wanted, node=node, run_on_load=run),
    )  # fmt: skip


@app.command()
@server.with_broker
def execute(
    id: IdArgument,  # noqa: A002
    args: Annotated[str, typer.Argument(help="The arguments, as JSON.")] = "null",
    *,
    node: NodeOption = None,
    broker: server.BrokerOptions,
) -> None:
    """Call run(args, state) of a script."""
    try:
        given = msgspec.json.decode(args)
    except msgspec.DecodeError as error:
        fail(f"the arguments are no JSON: {error}", 2)
    _run(broker, node, lambda me: me.execute_script(id, given, node=node))


@app.command()
@server.with_broker
def remove(
    id: IdArgument,  # noqa: A002
    *,
    node: NodeOption = None,
    evict: Annotated[
        bool, typer.Option("--evict", help="Also if another sent it to the client's own node.")
    ] = False,
    broker: server.BrokerOptions,
) -> None:
    """Remove a script."""
    if evict:
        _run(broker, node, lambda me: me.evict_script(id))
    else:
        _run(broker, node, lambda me: me.remove_script(id, node=node))


@app.command("list")
@server.with_broker
def list_(
    *,
    node: NodeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    broker: server.BrokerOptions,
) -> None:
    """List the scripts of the client's own node."""
    found: list[ListedScript] = []

    async def read(me: Node) -> None:
        found.extend(await me.scripts())

    _run(broker, node, read)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    for each in found:
        events = " ".join(msgspec.json.encode(wanted).decode() for wanted in each.events)
        problem = "" if each.error is None else f" ({each.error})"
        typer.echo(f"{each.id} {each.state}{problem} from {each.sender}: {events or 'no events'}")


def _run(
    broker: server.BrokerOptions,
    node: str | None,
    work: Callable[[Node], Awaitable[None]],
) -> None:
    """Connect, as a part of the node unless a user or an id is given, and do the work."""
    options = broker.client_options("script")
    if broker.client_id is None and broker.user is None and node is not None:
        options = replace(options, client_id=f"{node}{options.client_id}")
    me = broker.node_with(options)

    async def connected() -> None:
        async with me:
            await work(me)

    asyncio.run(connected())


def _wanted(events: list[str]) -> list[Wanted]:
    found: list[Wanted] = []
    for each in events:
        if each.lstrip().startswith("{"):
            try:
                found.append(msgspec.json.decode(each, type=dict[str, object]))
            except msgspec.DecodeError as error:
                fail(f"--events {each}: this is no JSON: {error}", 2)
        else:
            found.append(each)
    return found
