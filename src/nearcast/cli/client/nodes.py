"""`nearcast nodes`: list the visible nodes."""

import asyncio
from typing import Annotated

import msgspec
import typer

from nearcast.cli.client import server_options as server
from nearcast.client.receive.observations import Present
from nearcast.core.model.geometry.position import plain
from nearcast.wire.mqtt import MQTT_5


@server.with_broker
def nodes(
    *,
    area: Annotated[
        str | None,
        typer.Option("--in", metavar="AREA", help="Only there: circle:LAT,LON,METRES, place:x."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Only those whose context fits, as in role = 'medic'."),
    ] = None,
    near: Annotated[
        str | None, typer.Option(metavar="NODE", help="The nearest to a node first.")
    ] = None,
    most: Annotated[
        int | None, typer.Option(min=1, help="So many at most [default: all; with --near 10].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    broker: server.BrokerOptions,
    mqtt: server.MqttOption = MQTT_5,
) -> None:
    """List the nodes that are there: name, whether online, LAT,LON, distance and context.

    You see what your user, and the node that --id names, may see.
    """
    options = broker.client_options("nodes", version=mqtt)
    me = broker.node_with(options)
    found: list[Present] = []

    async def work() -> None:
        async with me:
            found.extend(await me.nodes(area, where=where, near=near, most=most))

    asyncio.run(work())
    # The node of this command is not listed, unless the user named it.
    asking = options.client_id.lstrip(server.PART)
    found = [each for each in found if broker.client_id is not None or each.node != asking]
    if as_json:
        typer.echo(msgspec.json.encode([_members(each) for each in found]).decode())
        return
    for each in found:
        typer.echo(_line(each))


def _members(known: Present) -> dict[str, object]:
    at = known.position
    members: dict[str, object] = {
        "node": known.node,
        "position": None if at is None else [at.lon, at.lat],
        "time": known.time,
        "context": known.context,
        "online": known.online,
    }
    return members if known.distance_m is None else members | {"distance": known.distance_m}


def _line(known: Present) -> str:
    online = {True: "online", False: "offline", None: "unknown"}[known.online]
    at = known.position
    where = "nowhere" if at is None else f"{plain(at.lat)},{plain(at.lon)}"
    away = "" if known.distance_m is None else f"{known.distance_m:,.0f} m "
    context = msgspec.json.encode(known.context).decode()
    return f"{known.node} {online} {where} {away}{context}"
