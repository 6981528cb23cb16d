"""`nearcast simulate`: nodes that move and keep silent in pairs, in virtual time."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from nearcast.cli.failures import fail
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.simulation.movement.fixes import FixQuality
from nearcast.simulation.movement.population import MovementKind, MovingNode, population
from nearcast.simulation.movement.recorded_tracks import recorded_nodes
from nearcast.simulation.network.virtual_connection import LinkQuality
from nearcast.simulation.pair_world import PairWorld, PairWorldSettings


def simulate(
    nodes: Annotated[int, typer.Option(min=2, max=10_000, help="The number of nodes.")] = 50,
    movement: Annotated[MovementKind, typer.Option(help="How they move.")] = MovementKind.WALKERS,
    tracks: Annotated[
        Path | None,
        typer.Option(
            help="Replay a Parquet file of entity_id, ts, lat, lon instead.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="ring, strip, exit-hazard or predictive-strip.")
    ] = "exit-hazard",
    within: Annotated[float, typer.Option(min=0.1, help="Near is within so many metres.")] = 20.0,
    peers: Annotated[int, typer.Option(min=1, help="How many others each is related to.")] = 4,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long, in virtual time.")] = 600.0,
    seed: Annotated[int, typer.Option(min=0, help="Draws another world.")] = 1,
    fix_every: Annotated[float, typer.Option(min=0.05, help="Seconds between fixes.")] = 1.0,
    noise: Annotated[float, typer.Option(min=0.0, help="Noise of fixes, in metres.")] = 0.0,
    gaps: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability that a gap follows a fix.")
    ] = 0.0,
    clock_error: Annotated[
        float, typer.Option(min=0.0, help="By how many seconds clocks are off.")
    ] = 0.0,
    delay: Annotated[float, typer.Option(min=0.0, help="Longest delay, in seconds.")] = 0.05,
    loss: Annotated[
        float, typer.Option(min=0.0, max=0.95, help="Probability that a datagram is lost.")
    ] = 0.0,
    duplication: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability that it arrives twice.")
    ] = 0.0,
    reordering: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability that it is overtaken.")
    ] = 0.0,
    crashes: Annotated[float, typer.Option(min=0.0, help="Crashes of a node per hour.")] = 0.0,
    partitions: Annotated[
        float, typer.Option(min=0.0, help="Partitions of a node from its peers per hour.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Let nodes move and keep silent in pairs, and say what was sent and detected."""
    if strategy not in STRATEGIES:
        fail(f"There is no strategy {strategy!r}; there are {', '.join(STRATEGIES)}.", 2)
    is_predictive = strategy == "predictive-strip"
    if is_predictive and (clock_error > 0.0 or gaps > 0.0):
        fail(
            "predictive-strip needs clocks that agree and fixes at common instants; leave out "
            "--clock-error and --gaps.",
            2,
        )
    jitter = 0.0 if is_predictive else 0.2
    settings = PairWorldSettings(
        seed, seconds, within, STRATEGIES[strategy], peers,
        FixQuality(fix_every, jitter, noise, gaps, clock_error_s=clock_error),
        LinkQuality(0.0, delay, loss=loss, duplication=duplication, reordering=reordering,
                    reordering_s=2.0),
        crashes, partitions,
    )  # fmt: skip
    moving = population(movement, nodes, seed) if tracks is None else _recorded(tracks, nodes)
    world = PairWorld(moving, settings)
    errors = Console(stderr=True)
    with Progress(console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task("virtual time", total=seconds)
        result = world.run(lambda elapsed_s: bar.update(task, completed=elapsed_s))
    if as_json:
        found = {**msgspec.to_builtins(result), "saved": _saved(result.messages, result.raw)}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return
    table = Table("", "", box=None, show_header=False)
    for name, value in (
        ("nodes, pairs", f"{result.nodes:,}, {result.pairs:,}"),
        ("raw messages", f"{result.raw:,}"),
        ("sent", f"{result.messages:,} ({_saved(result.messages, result.raw):.1f} % saved)"),
        ("acknowledgements", f"{result.acks:,}"),
        ("bytes", f"{result.bytes:,}"),
        ("crashes", f"{result.crashes:,}"),
        ("partitions", f"{result.partitions:,}"),
        ("near or apart began", f"{result.changes:,}"),
        ("detected before the next", f"{result.detected:,}"),
        ("delay", f"{result.mean_delay_s:.3f} s, longest {result.longest_delay_s:.3f} s"),
    ):
        table.add_row(name, value)
    Console().print(table)


def _recorded(tracks: Path, nodes: int) -> list[MovingNode]:
    try:
        return recorded_nodes(tracks, nodes)
    except (ValueError, KeyError) as error:
        fail(f"{tracks} is not a Parquet file of entity_id, ts, lat, lon: {error}", 1)


def _saved(messages: int, raw: int) -> float:
    return 100.0 * (1.0 - messages / max(raw, 1))
