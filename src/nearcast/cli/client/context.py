"""`nearcast context`: show and set the context of a node."""

import asyncio
import contextlib
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from nearcast.cli.client import server_options as server
from nearcast.cli.client.option_checks import position_of
from nearcast.client.receive.observations import Known
from nearcast.core.model.geometry.position import plain
from nearcast.wire.mqtt import MQTT_5


@server.with_broker
def context(
    node: Annotated[str, typer.Argument(help="The node; of a part, its node.")],
    *,
    at: Annotated[
        str | None, typer.Option(metavar="LAT,LON", help="Say where the node is.")
    ] = None,
    attributes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="K=V",
            help="Say what it is or does, as JSON or text; null removes. May be repeated.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print every change until Ctrl-C.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, help="With --follow, stop after so many.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; a position is [lon, lat].")
    ] = False,
    broker: server.BrokerOptions,
    mqtt: server.MqttOption = MQTT_5,
) -> None:
    """Print what is known of a node; with --at and --set, say it as that node first."""
    position = None if at is None else position_of(at, "--at")
    patch = dict(_member(text) for text in attributes or ())
    says = position is not None or bool(patch)
    # Parts share the context of their node.
    node = node.partition("~")[0] or node
    if says and broker.client_id is None:
        # A part of the node: the node's context is changed, its own session is not affected.
        broker = replace(broker, client_id=f"{node}{broker.client_options('context').client_id}")
    me = broker.node("context", version=mqtt)

    async def work() -> None:
        async with me:
            if position is not None:
                await me.move(position.lat, position.lon)
            if patch:
                await me.update(patch)
            if not follow:
                _print(await me.read(node), as_json)
                return
            shown = 0
            async with me.observe(node) as changes:
                async for known in changes:
                    _print(known, as_json)
                    shown += 1
                    if shown == count:
                        return

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(work())


def _member(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    try:
        return key, msgspec.json.decode(value.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return key, value


def _print(known: Known, as_json: bool) -> None:
    at = known.position
    if as_json:
        members = {
            "node": known.node,
            "position": None if at is None else [at.lon, at.lat],
            "context": known.context,
            "online": known.online,
        }
        typer.echo(msgspec.json.encode(members).decode())
        return
    online = {True: "online", False: "offline", None: "unknown"}[known.online]
    where = "nowhere" if at is None else f"{plain(at.lat)},{plain(at.lon)}"
    typer.echo(f"{known.node} {online} {where} {msgspec.json.encode(known.context).decode()}")
