"""`nearcast policy`: policies of a broker, loaded from files, listed, shown and removed."""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nearcast.cli.client import server_options as server
from nearcast.cli.client.policy_files import PolicyKey, read_policies
from nearcast.cli.client.policy_loading import load_policies, policies_in_force
from nearcast.cli.failures import fail
from nearcast.core.adaptation.errors import AdaptationError

app = typer.Typer(
    help="Load, list, show and remove policies: how events are adapted to subscribers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KindArgument = Annotated[str, typer.Argument(help="template, roles, awareness, matrix or servers.")]
NameArgument = Annotated[str, typer.Argument(help="The policy's name.")]


@app.command()
@server.with_broker
def load(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="JSON or TOML (KIND -> NAME -> document), or XML: SUBSCRIPTION, RELEVANCE, "
            "SERVERLIST.",
        ),
    ],
    *,
    name: Annotated[str | None, typer.Option(help="The name of the policy in XML.")] = None,
    as_json: JsonOption = False,
    broker: server.BrokerOptions,
) -> None:
    """Set all policies of a file, or none if one of them is wrong."""
    try:
        policies = read_policies(file, name)
    except AdaptationError as error:
        fail(str(error))
    me = broker.node("policy")

    async def work() -> str | None:
        async with me:
            return await load_policies(me, policies)

    refused = asyncio.run(work())
    if refused is not None:
        fail(f"{file}: nothing was loaded; the broker refused {refused}")
    if as_json:
        loaded = [{"kind": each.kind, "name": each.name} for each in policies]
        typer.echo(msgspec.json.encode({"loaded": loaded}).decode())
    else:
        for each in policies:
            typer.echo(f"{each.kind}/{each.name}")


@app.command("list")
@server.with_broker
def list_(
    kind: Annotated[str | None, typer.Argument(help="Only policies of this kind.")] = None,
    *,
    as_json: JsonOption = False,
    broker: server.BrokerOptions,
) -> None:
    """Print the policies that the broker has."""
    found = [
        (key, document) for key, document in _read(broker).items() if kind is None or key[0] == kind
    ]
    if as_json:
        typer.echo(msgspec.json.encode([_as_json(*each) for each in found]).decode())
    else:
        for (of_kind, name), _ in found:
            typer.echo(f"{of_kind}/{name}")


@app.command()
@server.with_broker
def show(
    kind: KindArgument,
    name: NameArgument,
    *,
    as_json: JsonOption = False,
    broker: server.BrokerOptions,
) -> None:
    """Print a policy as it was published; the exit code is 1 if there is none."""
    document = _read(broker).get((kind, name))
    if document is None:
        fail(f"There is no policy {kind}/{name}.")
    if as_json:
        typer.echo(msgspec.json.encode(_as_json((kind, name), document)).decode())
    else:
        typer.echo(document.decode())


@app.command()
@server.with_broker
def remove(
    kind: KindArgument,
    name: NameArgument,
    *,
    broker: server.BrokerOptions,
) -> None:
    """Remove a policy; the exit code is 1 if there is none."""
    me = broker.node("policy")

    async def work() -> None:
        async with me:
            if (kind, name) not in await policies_in_force(me):
                fail(f"There is no policy {kind}/{name}.")
            await me.remove_policy(kind, name)

    asyncio.run(work())


def _read(broker: server.BrokerOptions) -> dict[PolicyKey, bytes]:
    me = broker.node("policy")

    async def work() -> dict[PolicyKey, bytes]:
        async with me:
            return await policies_in_force(me)

    return asyncio.run(work())


def _as_json(key: PolicyKey, document: bytes) -> dict[str, object]:
    """Return a policy with its document as JSON, or as text if it is XML."""
    text = document.removeprefix(b"\xef\xbb\xbf")
    is_xml = text.lstrip(b" \t\r\n").startswith(b"<")
    shown: object = text.decode() if is_xml else msgspec.Raw(text)
    return {"kind": key[0], "name": key[1], "document": shown}
