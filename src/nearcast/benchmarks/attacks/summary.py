"""The figures of an attack run in Markdown: ours and mosquitto's in one row, for documents."""

from collections.abc import Iterator

from nearcast.benchmarks.attacks.attacked_broker import STOP_WITHIN_S
from nearcast.benchmarks.attacks.benchmark import AttackFigures, AttackResult
from nearcast.benchmarks.attacks.report import MEGABYTE, trip
from nearcast.benchmarks.broker.peers import MOSQUITTO, OURS
from nearcast.benchmarks.markdown import markdown_table


def markdown(result: AttackResult) -> str:
    """All tables."""
    parts: list[str] = []
    heading: tuple[str, ...]
    if result.rows:
        heading = ("attack", "quiet", "attacked", "with filter and area", "mosquitto attacked")
        parts.append("Round trips of the honest client in ms, p50 / p99 / max:")
        parts.append(markdown_table(heading, _waits(result)))
        memory = f"MB before → after 1 → after {result.settings.repeats}"
        heading = ("attack", "done", "mosquitto", "refused", "CPU s", memory, "dropped", "stop s")
        parts.append("What the attacker got done, and what it cost the broker:")
        parts.append(markdown_table(heading, _costs(result)))
    if result.fairness:
        heading = ("broker", "alone, a second", "index", "attacked", "index", "attacker")
        parts.append(f"{result.settings.publishers} honest publishers beside a flood:")
        parts.append(markdown_table(heading, _fairness(result)))
    parts += [f"Failed: {what}" for what in result.failures]
    return "\n\n".join(parts) + "\n"


def _waits(result: AttackResult) -> Iterator[tuple[str, ...]]:
    for row in result.rows:
        ours, theirs = row.brokers[OURS], row.brokers.get(MOSQUITTO, AttackFigures())
        quiet, attacked = ours.quiet, ours.attacked
        yield (
            row.describe,
            trip(quiet.plain if quiet else None),
            trip(attacked.plain if attacked else None),
            trip(attacked.situated if attacked else None),
            trip(theirs.attacked.plain if theirs.attacked else None),
        )


def _costs(result: AttackResult) -> Iterator[tuple[str, ...]]:
    for row in result.rows:
        ours, theirs = row.brokers[OURS], row.brokers.get(MOSQUITTO, AttackFigures())
        sizes = [ours.memory_before, ours.memory_after]
        if result.settings.repeats > 1:
            sizes.append(ours.memory_repeated)
        yield (
            row.name,
            _done(ours, row.unit),
            _done(theirs, ""),
            f"{ours.work.refused:,}" if ours.work else "",
            f"{ours.cpu_s:.1f}",
            " → ".join(f"{size / MEGABYTE:,.0f}" for size in sizes),
            f"{ours.dropped:,}",
            f"> {STOP_WITHIN_S:.0f}" if ours.stopped_s is None else f"{ours.stopped_s:.1f}",
        )


def _done(figures: AttackFigures, unit: str) -> str:
    work = figures.work
    if work is None:
        return ""
    note = f" ({work.note})" if work.note else ""
    return f"{work.done:,} of {work.wanted:,} {unit} in {work.wall_s:.1f} s{note}"


def _fairness(result: AttackResult) -> Iterator[tuple[str, ...]]:
    for name, figures in result.fairness.items():
        if figures.failed is None:
            yield (
                name,
                f"{sum(figures.alone) / figures.seconds:,.0f}",
                f"{figures.index_alone:.4f}",
                f"{sum(figures.attacked) / figures.seconds:,.0f}",
                f"{figures.index_attacked:.4f}",
                f"{figures.attacker_messages_per_s:,.0f}",
            )
