"""Prints the figures of a matching run as tables."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nearcast.benchmarks.matching.benchmark import MatchingResult, PeerFigures, SizeFigures
from nearcast.benchmarks.matching.nearcast_side import BATCHES, OBJECT_BATCHES


def show(result: MatchingResult, console: Console) -> None:
    """Print all tables."""
    sizes = result.sizes
    parts: list[RenderableType] = [Text(_heading(result)), _rates(sizes)]
    if result.settings.peers:
        parts += [_peers(size) for size in sizes]
    if len(sizes) > 1:
        parts.append(_growth(sizes))
    parts += [_costs(sizes), Text(f"First start, caches warm: {result.first_start_s:.2f} s")]
    console.print(Group(*parts))


def _heading(result: MatchingResult) -> str:
    machine, settings = result.machine, result.settings
    return (
        f"Matching: {settings.events:,} events, seed {settings.seed}, best of {settings.runs}; "
        f"{machine['processor']}, {machine['cores']} cores, Python {result.versions['python']}.\n"
        "All rates are per CPU-second, of one core."
    )


def _rates(sizes: Sequence[SizeFigures]) -> RenderableType:
    title = "Nearcast: events per CPU-second, in ready batches and made from Event values"
    table = _table(
        "subscriptions", "matches\n/event", *(f"ready\n{size}" for size in BATCHES),
        *(f"made\n{size}" for size in OBJECT_BATCHES),
    )  # fmt: skip
    for figures in sizes:
        ours = figures.nearcast
        table.add_row(
            f"{figures.subscriptions:,}",
            f"{ours.matches_per_event:.2f}",
            *(_rate(ours.events_per_s[str(size)]) for size in BATCHES),
            *(_rate(ours.from_objects_per_s[str(size)]) for size in OBJECT_BATCHES),
        )
    return Group(title, table)


def _peers(figures: SizeFigures) -> RenderableType:
    title = (
        f"{figures.subscriptions:,} subscriptions: events per CPU-second of others, in batches"
        f" of 1, {BATCHES[1]}\nand their best, and how many times as many Nearcast matches"
    )
    table = _table(
        "", *(f"batch\n{size}" for size in BATCHES[:-1]), "batch\nbest",
        *(f"×\n{size}" for size in BATCHES), "load\nCPU-s",
    )  # fmt: skip
    table.columns[0].justify = "left"
    for name, peer in figures.peers.items():
        if peer.load_s is not None:
            table.add_row(name, *_peer_cells(peer), f"{peer.load_s:.2f}")
    skipped = {n: p.skipped for n, p in figures.peers.items() if p.skipped is not None}
    if skipped:
        return Group(title, table, *(f"  {name}: {why}" for name, why in skipped.items()), "")
    return Group(title, table)


def _peer_cells(peer: PeerFigures) -> Iterable[str]:
    yield from (_rate(peer.events_per_s[str(size)]) for size in BATCHES)
    yield from (_ratio(peer.ratios[str(size)]) for size in BATCHES)


def _growth(sizes: Sequence[SizeFigures]) -> RenderableType:
    title = f"Growth, batch {BATCHES[-1]}: what an event costs, and what it yields"
    table = _table(
        "subscriptions", "CPU-µs\n/event", "matches\n/event", "CPU-µs\n/match", "cost\ngrew",
        "matches\ngrew",
    )  # fmt: skip
    before: SizeFigures | None = None
    for figures in sizes:
        ours = figures.nearcast
        grew = ("", "")
        if before is not None:
            grew = (
                _ratio(ours.us_per_event / before.nearcast.us_per_event) + " ×",
                _growth_of(ours.matches_per_event, before.nearcast.matches_per_event),
            )
        table.add_row(
            f"{figures.subscriptions:,}",
            f"{ours.us_per_event:.2f}",
            f"{ours.matches_per_event:.2f}",
            "" if ours.us_per_match is None else f"{ours.us_per_match:.2f}",
            *grew,
        )
        before = figures
    return Group(title, table)


def _costs(sizes: Sequence[SizeFigures]) -> RenderableType:
    title = "Nearcast: what it costs, for each number of subscriptions"
    table = _table("", *(f"{size.subscriptions:,}" for size in sizes))
    table.columns[0].justify = "left"
    every = [size.nearcast for size in sizes]
    rows: dict[str, list[str]] = {
        "bytes a subscription, index": [f"{n.bytes_per_subscription:.0f}" for n in every],
        "bytes a subscription, process": [
            "psutil not installed"
            if n.rss_bytes_per_subscription is None
            else f"{n.rss_bytes_per_subscription:.0f}"
            for n in every
        ],
        "move, everyone at once, CPU-µs": [f"{n.move_us:.2f}" for n in every],
        "move, one call each, CPU-µs": [f"{n.move_single_us:.1f}" for n in every],
        "add, in bulk, CPU-µs": [f"{n.add_us:.1f}" for n in every],
        "add, one call each, CPU-µs": [f"{n.add_single_us:.1f}" for n in every],
        "remove, in bulk, CPU-µs": [f"{n.remove_us:.2f}" for n in every],
        "remove, one call each, CPU-µs": [f"{n.remove_single_us:.1f}" for n in every],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return Group(title, table)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _rate(value: float) -> str:
    return f"{value:,.0f}"


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.1f}"


def _growth_of(now: float, before: float) -> str:
    return _ratio(now / before) + " ×" if before else ""
