"""`nearcast experiment`: the tables and figures of the source documents, ours beside them."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from nearcast.cli.failures import fail
from nearcast.experiments import report
from nearcast.experiments.agent import experiment as agents
from nearcast.experiments.experiment_result import ExperimentFigure, ExperimentResult
from nearcast.experiments.experiment_result import Progress as Follow
from nearcast.experiments.fulcrum import experiment as pairs
from nearcast.experiments.radiator import experiment as crowds
from nearcast.experiments.steam import experiment as proximities

app = typer.Typer(
    no_args_is_help=True,
    help="Repeat the experiments of the source documents, and print ours beside theirs.",
)


@app.callback()
def _experiments() -> None:
    """Repeat the experiments of the source documents, and print ours beside theirs."""


@app.command()
def agent(
    seed: Annotated[
        int, typer.Option(min=0, help="Draws other events and subscribers.")
    ] = agents.AgentSettings().seed,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few clients and runs: a smoke test.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all rows as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Draw each figure to a PNG in this directory.")
    ] = None,
) -> None:
    """Relevance, context and priorities (seed C): its tables, listings and client figures.

    The exit code is 1 if selection or a change of class costs more than it is to cost.
    """
    base = agents.QUICK if quick else agents.AgentSettings()
    settings = msgspec.structs.replace(base, seed=seed)
    found = _run(agents.PARTS, lambda follow: agents.run(settings, follow), out, as_json=as_json)
    if not quick and (missed := report.missed_aims(found)):
        fail("\n".join(missed))


@app.command()
def fulcrum(
    data: Annotated[
        Path | None,
        typer.Option(
            help="The directory of real tracks (taxis, pedestrians); without, a city is invented.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Draws other pairs and walkers.")
    ] = pairs.FulcrumSettings().seed,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few pairs and distances: a smoke test.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all rows as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Draw each figure to a PNG in this directory.")
    ] = None,
) -> None:
    """Pairs that say only what matters (seed A): its scenarios, and real tracks."""
    base = pairs.QUICK if quick else pairs.FulcrumSettings()
    settings = msgspec.structs.replace(base, seed=seed, data=None if data is None else str(data))
    _run(pairs.PARTS, lambda follow: pairs.run(settings, follow), out, as_json=as_json)


@app.command()
def radiator(
    seed: Annotated[
        int, typer.Option(min=0, help="Draws other clients and messages.")
    ] = crowds.RadiatorSettings().seed,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few clients and chain sizes: a smoke test.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all rows as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Draw each figure to a PNG in this directory.")
    ] = None,
) -> None:
    """Aggregates and chains of recipients (seed E): outbound bandwidth and lag."""
    base = crowds.QUICK if quick else crowds.RadiatorSettings()
    settings = msgspec.structs.replace(base, seed=seed)
    parts = crowds.parts(settings)
    _run(parts, lambda follow: crowds.run(settings, follow), out, as_json=as_json)


@app.command()
def steam(
    seed: Annotated[
        int, typer.Option(min=0, help="Draws other places and vehicles.")
    ] = proximities.SteamSettings().seed,
    quick: Annotated[bool, typer.Option("--quick", help="Few runs: a smoke test.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all rows as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Draw each figure to a PNG in this directory.")
    ] = None,
) -> None:
    """Events in proximities, without a broker (seed D): its figures, and Table 1."""
    base = proximities.QUICK if quick else proximities.SteamSettings()
    settings = msgspec.structs.replace(base, seed=seed)
    _run(proximities.PARTS, lambda follow: proximities.run(settings, follow), out, as_json=as_json)


@app.command("all")
def all_(
    quick: Annotated[bool, typer.Option("--quick", help="Smoke tests of all.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results of all as a JSON array.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Draw each figure to a PNG in this directory.")
    ] = None,
) -> None:
    """All experiments, one after the other."""
    found: list[ExperimentResult] = []
    figures: list[ExperimentFigure] = []
    radiators = crowds.QUICK if quick else crowds.RadiatorSettings()
    for parts, run in (
        (agents.PARTS, partial(agents.run, agents.QUICK if quick else agents.AgentSettings())),
        (pairs.PARTS, partial(pairs.run, pairs.QUICK if quick else pairs.FulcrumSettings())),
        (crowds.parts(radiators), partial(crowds.run, radiators)),
        (
            proximities.PARTS,
            partial(proximities.run, proximities.QUICK if quick else proximities.SteamSettings()),
        ),
    ):
        result, drawn = _find(parts, run)
        found.append(result)
        figures += drawn
        if not as_json:
            report.show(result, Console())
    if as_json:
        _print_json(found)
    _draw(figures, out, quiet=as_json)
    missed = [line for result in found for line in report.missed_aims(result)]
    if missed and not quick:
        fail("\n".join(missed))


def _run(
    parts: Sequence[str],
    run: Callable[[Follow], tuple[ExperimentResult, list[ExperimentFigure]]],
    out: Path | None,
    *,
    as_json: bool,
) -> ExperimentResult:
    """Run an experiment, show what it found and return it."""
    result, figures = _find(parts, run)
    if as_json:
        _print_json(result)
    else:
        report.show(result, Console())
    _draw(figures, out, quiet=as_json)
    return result


def _find(
    parts: Sequence[str], run: Callable[[Follow], tuple[ExperimentResult, list[ExperimentFigure]]]
) -> tuple[ExperimentResult, list[ExperimentFigure]]:
    """Run an experiment behind a progress bar."""
    errors = Console(stderr=True)
    with Progress(console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task("starting", total=len(parts))
        begun = -1

        def follow(part: str) -> None:
            nonlocal begun
            begun += 1
            bar.update(task, description=part, completed=begun)

        return run(follow)


def _print_json(found: ExperimentResult | list[ExperimentResult]) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")


def _draw(figures: Sequence[ExperimentFigure], out: Path | None, *, quiet: bool) -> None:
    files = [] if out is None else report.draw(figures, out)
    for file in () if quiet else files:
        typer.echo(f"Drew {file}")
