"""Prints the figures of an attack run as tables."""

from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nearcast.benchmarks.attacks.attacked_broker import STOP_WITHIN_S
from nearcast.benchmarks.attacks.benchmark import AttackFigures, AttackResult
from nearcast.benchmarks.attacks.fairness import WANTED_INDEX
from nearcast.benchmarks.attacks.round_trips import RoundTripFigures
from nearcast.benchmarks.broker.peers import OURS

MEGABYTE = 1 << 20
MOST_P99_MS, MOST_MS = 100.0, 500.0
"""Aims for the honest client beside an attacker."""


def show(result: AttackResult, console: Console) -> None:
    """Print all tables."""
    parts: list[RenderableType] = [Text(_heading(result)), ""]
    if result.rows:
        parts += [_waits(result), _work(result), _costs(result)]
    if result.fairness:
        parts.append(_fairness(result))
    parts += [Text(f"{row.name}: {row.describe}") for row in result.rows]
    parts += [Text(f"Not run: {name}: {why}") for name, why in result.skipped.items()]
    parts += [Text(f"Failed: {what}") for what in result.failures]
    console.print(Group(*parts))


def _heading(result: AttackResult) -> str:
    machine = result.machine
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return (
        "Attacks: an honest client publishes every 10 ms, alone and beside an attacker.\n"
        f"{machine['processor']}, {machine['cores']} cores; {versions};\n"
        f"load of the machine {result.load[0]:.1f} before and {result.load[1]:.1f} after."
    )


def _rows(result: AttackResult) -> Iterator[tuple[str, str, AttackFigures]]:
    """The heading and unit of each row with its figures."""
    for row in result.rows:
        for name, figures in row.brokers.items():
            if figures.failed is None:
                yield row.name if name == OURS else f"  {name}", row.unit, figures


def _waits(result: AttackResult) -> RenderableType:
    title = (
        "Round trip of the honest client in ms: p50 / p99 / max\n"
        f"(aims beside an attacker: p99 {MOST_P99_MS:g}, max {MOST_MS:g})"
    )
    table = _table("", "quiet", "attacked", "filter and area", "lost")
    for name, _, figures in _rows(result):
        assert figures.quiet is not None
        assert figures.attacked is not None
        plain, situated = figures.attacked.plain, figures.attacked.situated
        lost = plain.lost + (situated.lost if situated else 0)
        trips = map(trip, (figures.quiet.plain, plain, situated))
        table.add_row(name, *trips, f"{lost:,}")
    return Group(title, table)


def _work(result: AttackResult) -> RenderableType:
    title = "What the attacker got done"
    table = _table("", "done", "of", "", "refused", "closed", "s")
    for name, unit, figures in _rows(result):
        work = figures.work
        assert work is not None
        table.add_row(
            name,
            f"{work.done:,}",
            f"{work.wanted:,}",
            unit + (f"; {work.note}" if work.note else ""),
            f"{work.refused:,}",
            f"{work.closed:,}",
            f"{work.wall_s:.1f}",
        )
    return Group(title, table)


def _costs(result: AttackResult) -> RenderableType:
    repeats = result.settings.repeats
    title = (
        "The broker: CPU seconds of an attack, memory in MB before and after attacks,\n"
        "messages dropped, and seconds from SIGTERM in an attack until it had ended"
    )
    after = ("after 1", f"after {repeats}") if repeats > 1 else ("after 1",)
    table = _table("", "CPU s", "before", *after, "dropped", "stop s")
    for name, _, figures in _rows(result):
        memory = (figures.memory_before, figures.memory_after, figures.memory_repeated)
        table.add_row(
            name,
            f"{figures.cpu_s:.1f}",
            *(f"{size / MEGABYTE:,.0f}" for size in memory[: 1 + len(after)]),
            f"{figures.dropped:,}",
            f"> {STOP_WITHIN_S:.0f}" if figures.stopped_s is None else f"{figures.stopped_s:.1f}",
        )
    return Group(title, table)


def _fairness(result: AttackResult) -> RenderableType:
    title = (
        f"{result.settings.publishers} honest publishers of equal load, alone and beside a flood"
        f" of QoS 0:\nmessages through a second, and Jain's index of their shares"
        f" (aim: {WANTED_INDEX:g})"
    )
    table = _table("", "alone", "index", "attacked", "index", "least", "most", "attacker")
    for name, figures in result.fairness.items():
        if figures.failed is None:
            table.add_row(
                name,
                f"{sum(figures.alone) / figures.seconds:,.0f}",
                f"{figures.index_alone:.3f}",
                f"{sum(figures.attacked) / figures.seconds:,.0f}",
                f"{figures.index_attacked:.3f}",
                f"{min(figures.attacked) / figures.seconds:,.0f}",
                f"{max(figures.attacked) / figures.seconds:,.0f}",
                f"{figures.attacker_messages_per_s:,.0f}",
            )
    return Group(title, table)


def trip(figures: RoundTripFigures | None) -> str:
    """Round trips in ms: p50 / p99 / max."""
    if figures is None:
        return ""
    return " / ".join(_ms(each) for each in (figures.p50_ms, figures.p99_ms, figures.max_ms))


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 10.0 else f"{value:,.0f}"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for number, column in enumerate(columns):
        words = number == 0 or not column
        table.add_column(column, justify="left" if words else "right", no_wrap=number == 0)
    return table
