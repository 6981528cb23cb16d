"""`nearcast place`: named places of a broker, loaded from files, listed and removed."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import msgspec
import typer

from nearcast.cli.client import server_options as server
from nearcast.cli.failures import fail
from nearcast.client.api.node import Node
from nearcast.client.api.node_messages import place_topic

if TYPE_CHECKING:
    from nearcast.core.model.geometry.place_loading import Loaded
    from nearcast.core.model.geometry.places import Place, Places

app = typer.Typer(
    help="Load, list and remove named places.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AT_ONCE = 100
"""How many places are sent concurrently."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
@server.with_broker
def load(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="GeoJSON ([lon, lat]), or Parquet with a column of WKB.",
        ),
    ],
    *,
    kind: Annotated[
        str | None, typer.Option(help="The kind of places that do not say theirs.")
    ] = None,
    name_member: Annotated[str, typer.Option("--name", help="What holds a place's name.")] = "name",
    kind_member: Annotated[
        str, typer.Option("--kind-in", help="What holds a place's kind.")
    ] = "kind",
    as_json: JsonOption = False,
    broker: server.BrokerOptions,
) -> None:
    """Define the places in a file; what cannot be a place is named, and the others are loaded.

    The exit code is 1 if there was one.
    """
    # Not at the top: the other commands do not need shapely.
    from nearcast.core.model.geometry.places import Places

    places = Places()
    loaded = _loaded(places, file, name_member, kind_member, kind)
    # The broker identifies places by kind and name; the last one with the same would win.
    found = {(place.kind, place.name): place for place in places}
    twice = len(places) - len(found)
    me = broker.node("place")
    asyncio.run(_define(me, list(found.values())))
    if as_json:
        rejects = [msgspec.structs.asdict(each) for each in loaded.rejects]
        summary = msgspec.json.encode({"loaded": len(found), "twice": twice, "rejects": rejects})
        typer.echo(summary.decode())
    else:
        typer.echo(f"{len(found)} loaded, {len(loaded.rejects)} rejected")
        if twice:
            typer.echo(f"{twice} have the kind and name of another, which they replace", err=True)
        for reject in loaded.rejects:
            typer.echo(f"row {reject.row} {reject.name}: {reject.reason}", err=True)
    if loaded.rejects:
        raise typer.Exit(1)


@app.command("list")
@server.with_broker
def list_(
    kind: Annotated[str | None, typer.Argument(help="Only places of this kind.")] = None,
    *,
    as_json: JsonOption = False,
    broker: server.BrokerOptions,
) -> None:
    """Print the places that the broker knows."""
    me = broker.node("place")

    async def work() -> None:
        shown: list[dict[str, object]] = []
        async with me:
            for event in await me.retained("$place/+/+"):
                found, name = map(unquote, event.subject.split("/")[1:3])
                if kind is not None and found != kind:
                    continue
                if as_json:
                    geometry = msgspec.Raw(event.payload)
                    shown.append({"kind": found, "name": name, "geometry": geometry})
                else:
                    typer.echo(f"{found}/{name}")
        if as_json:
            typer.echo(msgspec.json.encode(shown).decode())

    asyncio.run(work())


@app.command()
@server.with_broker
def remove(
    kind: Annotated[str, typer.Argument(help="The place's kind.")],
    name: Annotated[str, typer.Argument(help="The place's name.")],
    *,
    broker: server.BrokerOptions,
) -> None:
    """Remove a place; the exit code is 1 if there is none."""
    me = broker.node("place")

    async def work() -> None:
        async with me:
            if not await me.retained(place_topic(kind, name)):
                fail(f"There is no place {kind}/{name}.")
            await me.remove_place(kind, name)

    asyncio.run(work())


def _loaded(places: "Places", file: Path, name: str, kind: str, default: str | None) -> "Loaded":
    from nearcast.core.model.geometry.place_loading import load_geojson, load_table

    if file.suffix in (".parquet", ".pq"):
        import pyarrow.parquet as pq

        table = pq.read_table(file)
        return load_table(places, table, name=name, kind=kind, default_kind=default)
    return load_geojson(places, file.read_bytes(), name=name, kind=kind, default_kind=default)


async def _define(me: Node, places: "list[Place]") -> None:
    async with me:
        for at in range(0, len(places), AT_ONCE):
            await asyncio.gather(*(_define_one(me, place) for place in places[at : at + AT_ONCE]))


async def _define_one(me: Node, place: "Place") -> None:
    from nearcast.core.model import Box, Circle

    assert not isinstance(place.geometry, Box | Circle), "files hold polygons"
    await me.define_place(place.kind, place.name, place.geometry)
