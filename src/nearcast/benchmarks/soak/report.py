"""The report of a soak as Markdown, which is readable as plain text, and as JSON."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from nearcast.benchmarks.attacks.round_trips import RoundTripFigures
from nearcast.benchmarks.markdown import markdown_table
from nearcast.benchmarks.soak.benchmark import SoakResult
from nearcast.benchmarks.soak.samples import Sample

MEGABYTE = 1 << 20
SHOWN_SAMPLES = 13


def write_report(result: SoakResult, directory: Path) -> list[Path]:
    """Write `soak.md` and `soak.json`, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    text, figures = directory / "soak.md", directory / "soak.json"
    text.write_text(markdown(result))
    figures.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    return [text, figures]


def markdown(result: SoakResult) -> str:
    """The report."""
    settings, machine = result.settings, result.machine
    made = [turn for turn in result.attacks if turn.failed is None]
    parts = [
        "# Soak",
        f"{settings.minutes:g} minutes from {result.started}, {machine['processor']}, "
        f"{machine['cores']} cores. {settings.churn_processes} × {settings.clients} clients that "
        f"come and go; {result.kills} processes of them were killed; {len(made)} attacks. "
        f"{result.ledger.acknowledged:,} messages acknowledged to a session that came back "
        f"{result.ledger.reconnections:,} times ({result.ledger.repeated:,} came twice; the broker "
        f"broke or refused {result.ledger.broken:,} connections of it).",
        markdown_table(("verdict", "rule", "found", "holds"), _verdicts(result)),
        "Round trips of the honest client in ms, plain and with a filter and an area:",
        markdown_table(
            ("minute", "plain p50 / p99 / max", "situated p50 / p99 / max"), _trips(result)
        ),
        "What the broker held:",
        markdown_table(
            ("minute", "memory MB", "descriptors", "threads", "files", "CPU s", "attack"),
            _samples(result),
        ),
        markdown_table(("attack", "times", "done", "of", "longest s"), _attacks(result)),
    ]
    parts += [f"Not done: {turn.name}: {turn.failed}" for turn in result.attacks if turn.failed]
    return "\n\n".join(parts) + "\n"


def _verdicts(result: SoakResult) -> Iterator[tuple[str, ...]]:
    for each in result.verdicts:
        yield each.name, each.rule, each.found, "yes" if each.holds else "**no**"


def _trips(result: SoakResult) -> Iterator[tuple[str, ...]]:
    for number, each in enumerate(result.minutes, 1):
        yield str(number), _trip(each.plain), _trip(each.situated)
    yield "all", _trip(result.overall.plain), _trip(result.overall.situated)


def _trip(figures: RoundTripFigures | None) -> str:
    if figures is None:
        return ""
    return f"{figures.p50_ms:,.1f} / {figures.p99_ms:,.1f} / {figures.max_ms:,.1f}"


def _samples(result: SoakResult) -> Iterator[tuple[str, ...]]:
    every = max(1, len(result.samples) // SHOWN_SAMPLES)
    for each in (result.base, *result.samples[every - 1 :: every], result.last):
        yield _sample(each)


def _sample(each: Sample) -> tuple[str, ...]:
    return (
        f"{each.at_s / 60.0:.1f}",
        f"{each.resident_bytes / MEGABYTE:,.0f}",
        f"{each.descriptors:,}",
        f"{each.threads:,}",
        f"{each.files:,}",
        f"{each.cpu_s:,.0f}",
        each.attack,
    )


def _attacks(result: SoakResult) -> Iterator[tuple[str, ...]]:
    for name in dict.fromkeys(turn.name for turn in result.attacks):
        turns = [turn for turn in result.attacks if turn.name == name]
        yield (
            name,
            f"{len(turns)}",
            f"{sum(turn.done for turn in turns):,}",
            f"{sum(turn.wanted for turn in turns):,}",
            f"{max(turn.wall_s for turn in turns):.1f}",
        )
