"""`nearcast relate`: define, watch and end relationships between nodes."""

import asyncio
import contextlib
from typing import Annotated, Literal

import msgspec
import typer

from nearcast.cli.client import server_options as server
from nearcast.client.receive.observations import Relation
from nearcast.wire.mqtt import MQTT_5

Members = list[str] | dict[str, float]


@server.with_broker
def relate(
    name: Annotated[str, typer.Argument(help="The name of the relationship.")],
    *,
    members: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            help="Define it: its nodes, or A=METRES,B=METRES if each has its own. May be repeated.",
        ),
    ] = None,
    within: Annotated[
        float | None, typer.Option(min=0, help="Near while they are so many metres apart at most.")
    ] = None,
    beyond: Annotated[
        float | None, typer.Option(min=0, help="Apart while they are farther than that.")
    ] = None,
    need: Annotated[
        str, typer.Option(help="How many of them: all, any (two), or a number.")
    ] = "all",
    of: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Compare a number of their contexts, not positions."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CQL2", help="Only members whose context fits.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print its state, now and on change, until Ctrl-C.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, help="With --watch, stop after so many.")
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="End it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    broker: server.BrokerOptions,
    mqtt: server.MqttOption = MQTT_5,
) -> None:
    """Tell when nodes come near each other, and when they part: define it, watch it, end it."""
    if not (members or watch or end):
        raise typer.BadParameter("give --members to define it, --watch or --end")
    if end and (members or watch):
        raise typer.BadParameter("it is defined, watched or ended", param_hint="--end")
    nodes, needed = _members(members or []), _need(need)
    me = broker.node("relate", version=mqtt)

    async def work() -> None:
        async with me:
            if end:
                await me.unrelate(name)
            if members:
                await me.relate(
                    name, nodes, within=within, beyond=beyond, need=needed, of=of, where=where
                )
            if not watch:
                return
            shown = 0
            async with me.relation(name) as states:
                async for state in states:
                    typer.echo(_json(state) if as_json else _line(state))
                    shown += 1
                    if shown == count:
                        return

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(work())


def _members(texts: list[str]) -> Members:
    """The nodes that are named, with the metres of each if they are given."""
    names = [name for text in texts for name in text.split(",") if name]
    if not any("=" in name for name in names):
        return names
    metres: dict[str, float] = {}
    for each in names:
        name, _, number = each.rpartition("=")
        try:
            metres[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise typer.BadParameter(
                f"{each!r} is not NODE=METRES, as all are or none is", param_hint="--members"
            )
    return metres


def _need(text: str) -> Literal["all", "any"] | int:
    if text == "all":
        return "all"
    if text == "any":
        return "any"
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter("all, any or a number", param_hint="--need") from None


def _json(state: Relation) -> str:
    members = msgspec.to_builtins(state)
    if state.ended:
        members = {name: members[name] for name in ("state", "ended", "time")}
    else:
        del members["ended"]
        if state.by is None:
            del members["by"]
    return msgspec.json.encode(members).decode()


def _line(state: Relation) -> str:
    if state.ended:
        return f"{state.state} (ended)"
    distance = "unknown" if state.distance is None else f"{state.distance:.6g}"
    by = "" if state.by is None else f" by {state.by}"
    return f"{state.state} {distance}{by} {' '.join(state.members)}"
