"""`nearcast bench`: measure Nearcast beside what else one could use, on this machine."""

import sys
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from nearcast.benchmarks.agreement import DisagreementError
from nearcast.benchmarks.matching import Settings, run
from nearcast.benchmarks.matching_report import show
from nearcast.benchmarks.peers import PEERS
from nearcast.benchmarks.peers.server_process import ServerFailedError

HUGE = 10_000_000
SUFFIXES = {"k": 1_000, "m": 1_000_000}
QUICK = Settings(sizes=(10_000,), events=1_024, sample=128, budget_s=0.5, runs=2)

app = typer.Typer(no_args_is_help=True, help="Measure Nearcast beside what else one could use.")


@app.callback()
def _bench() -> None:
    """Keep `matching` a word of its own while it is the only benchmark."""


@app.command()
def matching(
    sizes: Annotated[
        str | None,
        typer.Option(help="Numbers of subscriptions, with commas: 10000,100k,1M (the default)."),
    ] = None,
    huge: Annotated[
        bool, typer.Option("--huge", help="Also 10M subscriptions, Nearcast alone.")
    ] = False,
    events: Annotated[
        int | None, typer.Option(min=1, help="How many events to match.  [default: 20000]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws another city.")] = Settings().seed,
    peers: Annotated[
        str | None,
        typer.Option(help=f"Whom to compare with: {','.join(PEERS)} (the default), or none."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="10k subscriptions and few events: a smoke test.")
    ] = False,
) -> None:
    """Match events with subscriptions in a city with hot spots, and so do others."""
    base = QUICK if quick else Settings()
    settings = msgspec.structs.replace(
        base,
        sizes=(base.sizes if sizes is None else _sizes(sizes)) + ((HUGE,) if huge else ()),
        events=base.events if events is None else events,
        seed=seed,
        peers=base.peers if peers is None else _peers(peers),
    )
    errors = Console(stderr=True)
    try:
        if errors.is_terminal:
            with errors.status("starting") as status:
                result = run(settings, status.update)
        else:
            result = run(settings, lambda what: None)
    except (DisagreementError, ServerFailedError) as error:
        errors.print(f"No figures: {error}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result)).decode() + "\n")
    else:
        show(result, Console())


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted({_size(part) for part in text.split(",")}))


def _size(text: str) -> int:
    digits = text.strip().replace("_", "").lower()
    factor = SUFFIXES.get(digits[-1:], 1)
    if factor > 1:
        digits = digits[:-1]
    if not digits.isdecimal() or int(digits) == 0:
        raise typer.BadParameter(
            f"{text.strip()!r} is no number of subscriptions; give for example 10000,100k,1M",
            param_hint="--sizes",
        )
    return int(digits) * factor


def _peers(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if names == ("none",):
        return ()
    for name in names:
        if name not in PEERS:
            raise typer.BadParameter(
                f"{name!r} is no peer; there are {', '.join(PEERS)}, and none",
                param_hint="--peers",
            )
    return names
