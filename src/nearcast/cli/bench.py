"""`nearcast bench`: measure Nearcast beside what else one could use, on this machine."""

import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer
from rich.console import Console

from nearcast.benchmarks.attacks import benchmark as attackers
from nearcast.benchmarks.attacks import report as attack_report
from nearcast.benchmarks.attacks import summary as attack_summary
from nearcast.benchmarks.attacks.catalogue.all_attacks import ATTACKS
from nearcast.benchmarks.broker import benchmark as brokers
from nearcast.benchmarks.broker import report as broker_report
from nearcast.benchmarks.broker.rows import BrokerBenchSettings as BrokerSettings
from nearcast.benchmarks.gathering import benchmark as gathering_costs
from nearcast.benchmarks.gathering import report as gathering_report
from nearcast.benchmarks.gathering.benchmark import GatheringBenchSettings
from nearcast.benchmarks.matching.benchmark import MatchingBenchSettings, run
from nearcast.benchmarks.matching.peers import PEERS
from nearcast.benchmarks.matching.report import show
from nearcast.benchmarks.peers import benchmark as peer_clients
from nearcast.benchmarks.peers import report as peer_report
from nearcast.benchmarks.peers.benchmark import PeerBenchSettings
from nearcast.benchmarks.relationships import benchmark as relationship_costs
from nearcast.benchmarks.relationships import report as relationship_report
from nearcast.benchmarks.relationships.benchmark import RelationshipBenchSettings
from nearcast.benchmarks.situation import benchmark as situations
from nearcast.benchmarks.situation import report as situation_report
from nearcast.benchmarks.situation.city import Scenario
from nearcast.benchmarks.soak import benchmark as soaks
from nearcast.benchmarks.soak import report as soak_report
from nearcast.benchmarks.soak.benchmark import SoakSettings
from nearcast.benchmarks.thin_link import benchmark as thin_links
from nearcast.benchmarks.thin_link import report as thin_link_report
from nearcast.benchmarks.thin_link.benchmark import ThinLinkSettings

Result = TypeVar("Result")
HUGE = 10_000_000
SUFFIXES = {"k": 1_000, "m": 1_000_000}
QUICK = MatchingBenchSettings(sizes=(10_000,), events=1_024, sample=128, budget_s=0.5, runs=2)
QUICK_BROKERS = BrokerSettings(
    deliveries=5_000,
    fan_outs=(1, 10, 100),
    pairs=10,
    connections=200,
    latency_messages=100,
    runs=1,
    settle_s=0.0,
)
QUICK_GATHERING = GatheringBenchSettings(subscribers=(6, 600), rounds=2)
QUICK_PEERS = PeerBenchSettings(20, 3, 1, 2, 20.0)
QUICK_SITUATION = situations.SituationBenchSettings(
    scenario=Scenario(movers=100, side_m=6_000.0, rounds=4),
    cells_m=(500.0,),
    growth=(50,),
    paced_rounds=1,
    runs=1,
)
QUICK_SOAK = SoakSettings(quick=True, sample_s=1.0, clients=10, steps_per_s=20.0, kill_every_s=5.0)
QUICK_RELATIONSHIPS = RelationshipBenchSettings((0, 100), (1, 100), fixes=1_000, runs=1)
QUICK_THIN_LINK = ThinLinkSettings(seconds=2.0, quiet_events=5)

app = typer.Typer(no_args_is_help=True, help="Measure Nearcast beside what else one could use.")


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
    seed: Annotated[
        int, typer.Option(min=0, help="Draws another city.")
    ] = MatchingBenchSettings().seed,
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
    base = QUICK if quick else MatchingBenchSettings()
    settings = msgspec.structs.replace(
        base,
        sizes=(base.sizes if sizes is None else _sizes(sizes)) + ((HUGE,) if huge else ()),
        events=base.events if events is None else events,
        seed=seed,
        peers=base.peers if peers is None else _peers(peers),
    )
    result = _measured(lambda step: run(settings, step))
    if as_json:
        _print_json(result)
    else:
        show(result, Console())


@app.command()
def broker(
    runs: Annotated[
        int | None, typer.Option(min=1, help="The best of so many runs counts.  [default: 3]")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="Which rows, with commas: ingest-qos0,pairs,memory; all by default."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few messages and connections: a smoke test.")
    ] = False,
) -> None:
    """Pass messages on, and so does mosquitto: rates, latency and memory of both brokers."""
    base = QUICK_BROKERS if quick else BrokerSettings()
    settings = msgspec.structs.replace(
        base,
        runs=base.runs if runs is None else runs,
        rows=() if rows is None else _rows(rows, base),
    )
    result = _measured(lambda step: brokers.run(settings, step))
    if as_json:
        _print_json(result)
    else:
        broker_report.show(result, Console())
    if result.failures:
        raise typer.Exit(1)


@app.command()
def attacks(
    only: Annotated[
        str | None,
        typer.Option(help="Which attacks, with commas: ping-1m,like-1x10; all by default."),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Make each so often; memory is compared after 1 and all.")
    ] = 1,
    peers: Annotated[
        bool, typer.Option(help="Also attack mosquitto, where it can be attacked alike.")
    ] = True,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print tables in Markdown.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small attacks: a smoke test.")] = False,
) -> None:
    """Attack the broker: how long an honest client waits meanwhile, here and at mosquitto."""
    base = attackers.AttackBenchSettings()
    settings = attackers.AttackBenchSettings(
        attacks=() if only is None else _attacks(only, attackers.row_names()),
        quick=quick,
        repeats=repeats,
        quiet_s=1.0 if quick else base.quiet_s,
        mosquitto=peers,
        publishers=10 if quick else base.publishers,
        fairness_s=1.0 if quick else base.fairness_s,
    )
    result = _measured(lambda step: attackers.run(settings, step))
    if as_json:
        _print_json(result)
    elif as_markdown:
        sys.stdout.write(attack_summary.markdown(result))
    else:
        attack_report.show(result, Console())
    if result.failures:
        raise typer.Exit(1)


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long it runs.")] = 60.0,
    only: Annotated[
        str | None,
        typer.Option(help="Which attacks take turns, with commas, or none; all by default."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws other clients.")] = SoakSettings().seed,
    out: Annotated[
        Path, typer.Option(help="The directory for the report, soak.md and soak.json.")
    ] = Path("soak-report"),
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small attacks and few clients: a smoke test.")
    ] = False,
) -> None:
    """Let clients come and go, move and attack: whether the broker stays flat, and its answers."""
    base = QUICK_SOAK if quick else SoakSettings()
    chosen = base.attacks if only is None else () if only == "none" else _attacks(only, ATTACKS)
    settings = msgspec.structs.replace(base, minutes=minutes, attacks=tuple(chosen), seed=seed)
    result = _measured(lambda step: soaks.run(settings, step))
    written = soak_report.write_report(result, out)
    if as_json:
        _print_json(result)
    else:
        sys.stdout.write(soak_report.markdown(result))
        sys.stdout.write(f"\nWritten: {', '.join(map(str, written))}\n")
    if not result.holds:
        raise typer.Exit(1)


@app.command()
def thin_link(
    kbps: Annotated[float, typer.Option(min=10.0, help="The rate of the link.")] = 200.0,
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="How long it is thin.  [default: 40]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Two seconds: a smoke test.")] = False,
) -> None:
    """Offer a thin link four times too much: how long urgent events take, with relevance or not."""
    base = QUICK_THIN_LINK if quick else ThinLinkSettings()
    settings = msgspec.structs.replace(
        base, kbps=kbps, seconds=base.seconds if seconds is None else seconds
    )
    result = _measured(lambda step: thin_links.run(settings, step))
    if as_json:
        _print_json(result)
    else:
        thin_link_report.show(result, Console())
    if result.failures:
        raise typer.Exit(1)


@app.command()
def gathering(
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few of them: a smoke test.")] = False,
) -> None:
    """Let events wait for subscribers of one rule: what one costs, by how many there are."""
    settings = QUICK_GATHERING if quick else GatheringBenchSettings()
    result = _measured(lambda step: gathering_costs.run(settings, step))
    if as_json:
        _print_json(result)
    else:
        gathering_report.show(result, Console())


@app.command()
def peers(
    clients: Annotated[
        int | None, typer.Option(min=10, max=20_000, help="How many pass on.  [default: 2000]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few clients: a smoke test.")] = False,
) -> None:
    """Let clients pass messages on over real sockets: what the server pushes, and who gets it."""
    base = QUICK_PEERS if quick else PeerBenchSettings()
    settings = base if clients is None else msgspec.structs.replace(base, peers=clients)
    result = _measured(lambda step: peer_clients.run(settings, step))
    if as_json:
        _print_json(result)
    else:
        peer_report.show(result, Console())


@app.command()
def relationships(
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A few of them: a smoke test.")] = False,
) -> None:
    """Move members of relationships: what a fix costs, by how many there are."""
    settings = QUICK_RELATIONSHIPS if quick else RelationshipBenchSettings()
    result = _measured(lambda step: relationship_costs.run(settings, step))
    if as_json:
        _print_json(result)
    else:
        relationship_report.show(result, Console())


@app.command()
def situation(
    movers: Annotated[
        int | None, typer.Option(min=2, help="How many move.  [default: 1000]")
    ] = None,
    growth: Annotated[
        str | None,
        typer.Option(help="Numbers of movers to grow through: 100,500,1k,5k (the default)."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="The best of so many runs counts.  [default: 2]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws another city.")] = Scenario().seed,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few movers and rounds: a smoke test.")
    ] = False,
) -> None:
    """Keep movers informed of what happens round them, and so do mosquitto and Redis."""
    base = QUICK_SITUATION if quick else situations.SituationBenchSettings()
    scenario = msgspec.structs.replace(
        base.scenario, seed=seed, movers=base.scenario.movers if movers is None else movers
    )
    settings = msgspec.structs.replace(
        base,
        scenario=scenario,
        growth=base.growth if growth is None else _sizes(growth, "movers", "--growth"),
        runs=base.runs if runs is None else runs,
    )
    result = _measured(lambda step: situations.run(settings, step))
    if as_json:
        _print_json(result)
    else:
        situation_report.show(result, Console())
    if result.failures:
        raise typer.Exit(1)


@app.command()
def pipeline(
    sizes: Annotated[
        str | None,
        typer.Option(help="Numbers of subscriptions, with commas: 10000,100k,1M (the default)."),
    ] = None,
    cores: Annotated[
        str | None, typer.Option(help="Numbers of cores, with commas: 1,2 (the default).")
    ] = None,
    events: Annotated[
        int | None, typer.Option(min=100, help="Events a run.  [default: 400000]")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="The best of so many runs counts.  [default: 2]")
    ] = None,
    matching: Annotated[
        bool, typer.Option(help="Measure matching in Spark, and hot cells.")
    ] = True,
    clients: Annotated[bool, typer.Option(help="Also measure with a broker and clients.")] = True,
    shards: Annotated[
        str | None,
        typer.Option(help="Numbers of shards that decide, with commas: 1,2,4 (the default), or 0."),
    ] = None,
    shards_size: Annotated[
        str | None, typer.Option(help="Subscriptions for that, such as 1M.  [default: 100k]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few subscriptions and events: a smoke test.")
    ] = False,
) -> None:
    """Match a city's events in Spark, beside the join that a Spark user would write."""
    from nearcast.benchmarks.pipeline import benchmark as pipelines
    from nearcast.benchmarks.pipeline import report as pipeline_report

    base = pipelines.PipelineBenchSettings()
    if quick:
        base = pipelines.PipelineBenchSettings(
            sizes=(1_000,), cores=(2,), events=2_000, runs=1, client_events=2_000, latency_s=15.0,
            shards=(1, 2), shards_size=1_000,
        )  # fmt: skip
    settings = msgspec.structs.replace(
        base,
        sizes=base.sizes if sizes is None else _sizes(sizes),
        cores=base.cores if cores is None else _sizes(cores, "cores", "--cores"),
        events=base.events if events is None else events,
        runs=base.runs if runs is None else runs,
        matching=matching,
        clients=clients,
        shards=base.shards if shards is None else _shard_counts(shards),
        shards_size=base.shards_size
        if shards_size is None
        else _size(shards_size, "subscriptions", "--shards-size"),
    )
    result = _measured(lambda step: pipelines.run(settings, step))
    if as_json:
        _print_json(result)
    else:
        pipeline_report.show(result, Console())


@app.command()
def tables(
    rows: Annotated[
        str, typer.Option(help="Rows of the table in all, such as 100k or 10M.")
    ] = "10M",
    epoch_rows: Annotated[int, typer.Option(min=1, help="Rows of an epoch.")] = 10_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Fill a table of the pipeline: what an epoch, compaction and vacuum cost as it grows."""
    from nearcast.benchmarks.pipeline import table_growth

    size = _size(rows, "rows", "--rows")
    settings = table_growth.TableBenchSettings(size, epoch_rows)
    result = _measured(lambda step: table_growth.run(settings, step))
    if as_json:
        _print_json(result)
    else:
        table_growth.show(result, Console())


def _measured(run: Callable[[Callable[[str], None]], Result]) -> Result:
    """Run a benchmark that starts its own servers, showing its progress."""
    errors = Console(stderr=True)
    # The servers have to end with this command.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if errors.is_terminal:
        with errors.status("starting") as status:
            return run(status.update)
    return run(lambda what: None)


def _print_json(result: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(result)).decode() + "\n")


def _rows(text: str, settings: BrokerSettings) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    known = brokers.row_names(settings)
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"{name!r} is no row; there are {', '.join(known)}", param_hint="--rows"
            )
    return names


def _attacks(text: str, known: Collection[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"{name!r} is no attack; there are {', '.join(known)}", param_hint="--only"
            )
    return names


def _sizes(text: str, what: str = "subscriptions", option: str = "--sizes") -> tuple[int, ...]:
    return tuple(sorted({_size(part, what, option) for part in text.split(",")}))


def _size(text: str, what: str, option: str) -> int:
    digits = text.strip().replace("_", "").lower()
    factor = SUFFIXES.get(digits[-1:], 1)
    if factor > 1:
        digits = digits[:-1]
    if not digits.isdecimal() or int(digits) == 0:
        raise typer.BadParameter(
            f"{text.strip()!r} is no number of {what}; give for example 10000,100k,1M",
            param_hint=option,
        )
    return int(digits) * factor


def _shard_counts(text: str) -> tuple[int, ...]:
    return () if text.strip() == "0" else _sizes(text, "shards", "--shards")


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
