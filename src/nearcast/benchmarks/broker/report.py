"""Prints the figures of a broker run as tables."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nearcast.benchmarks.broker.benchmark import (
    BrokerResult,
    FlowRow,
    LatencyFigures,
    LatencyRow,
    MemoryFigures,
)
from nearcast.benchmarks.broker.peers import FLOOR, MOSQUITTO, OURS, RECORDED
from nearcast.benchmarks.load.mqtt_frames import FRAME_BYTES
from nearcast.benchmarks.load.orders import Flowed

SHORT = {OURS: "nearcast", RECORDED: "+ log", MOSQUITTO: "mosquitto"}
"""Column headings."""


def show(result: BrokerResult, console: Console) -> None:
    """Print all tables."""
    names = list(result.promises)
    parts: list[RenderableType] = [Text(_heading(result)), ""]
    if result.rows:
        parts += [_rates(result.rows, names), _load(result.rows, names)]
    growing = [row for row in result.rows if row.receivers]
    if len(growing) > 1:
        parts.append(_growth(growing, names))
    if result.latency:
        parts.append(_latency(result.latency, names))
    if result.memory:
        parts.append(_memory(result.memory, result.wanted_bytes_each))
    parts.append("Where a message is when its QoS 1 acknowledgement leaves")
    parts += [Text(f"  {SHORT[name]}: {said}") for name, said in result.promises.items()]
    parts += [Text(f"Not run: {name}: {why}") for name, why in result.skipped.items()]
    parts += [Text(f"Failed: {what}") for what in result.failures]
    console.print(Group(*parts))


def _heading(result: BrokerResult) -> str:
    machine, settings, versions = result.machine, result.settings, result.versions
    brokers = "\n".join(
        f"  {SHORT[name]}: {name.partition('-')[0]} {versions[name]}, {describe}"
        for name, describe in result.describe.items()
    )
    return (
        f"Brokers: MQTT 5, messages of {FRAME_BYTES} bytes; best of {settings.runs}, in turn.\n"
        f"{machine['processor']}, {machine['cores']} cores, Python {versions['python']}.\n{brokers}"
    )


def _rates(rows: Sequence[FlowRow], names: Sequence[str]) -> RenderableType:
    title = (
        "Thousands of messages per CPU-second of the broker, delivered (ingest: taken),\n"
        "and how many times mosquitto's rate that is"
    )
    ours = [name for name in names if name != MOSQUITTO]
    table = _table("", *(SHORT[name] for name in names), *(f"×\n{SHORT[n]}" for n in ours), "aim")
    for row in rows:
        table.add_row(
            row.describe,
            *(_thousands(row.brokers[name].messages_per_cpu_s) for name in names),
            *(_ratio(row.ratios.get(name)) for name in ours),
            "" if row.wanted is None else f"{row.wanted:g}",
        )
    return Group(title, table)


def _load(rows: Sequence[FlowRow], names: Sequence[str]) -> RenderableType:
    title = (
        "Busy while messages flowed, in % of one core: the broker / the load generator,\n"
        "which has a core of its own; and CPU-µs of the load generator for a message"
    )
    table = _table("", *(SHORT[name] for name in names), *(f"µs\n{SHORT[n]}" for n in names))
    for row in rows:
        best = [row.brokers[name].best for name in names]
        table.add_row(row.describe, *map(_busy, best), *map(_load_us, best))
    return Group(title, table)


def _busy(best: Flowed | None) -> str:
    if best is None:
        return "failed"
    shares = (best.broker_cpu_s / best.wall_s, best.load_cpu_s / best.wall_s)
    return "/".join(f"{100.0 * share:.0f}" for share in shares)


def _load_us(best: Flowed | None) -> str:
    return "" if best is None else f"{1e6 * best.load_cpu_s / best.expected:.1f}"


def _growth(rows: Sequence[FlowRow], names: Sequence[str]) -> RenderableType:
    title = "Growth, pipelined: CPU-µs of the broker for a message in, and for a message out"
    table = _table(
        "receivers",
        *(f"in\n{SHORT[name]}" for name in names),
        *(f"out\n{SHORT[name]}" for name in names),
    )
    for row in rows:
        best = [row.brokers[name].best for name in names]
        table.add_row(
            f"{row.receivers:,}",
            *("" if b is None else f"{1e6 * b.broker_cpu_s / b.sent:,.1f}" for b in best),
            *("" if b is None else f"{1e6 * b.broker_cpu_s / b.expected:.2f}" for b in best),
        )
    return Group(title, table)


def _latency(rows: Sequence[LatencyRow], names: Sequence[str]) -> RenderableType:
    table = _table("", *(f"{SHORT[name]}\np50 / p99" for name in names))
    for row in rows:
        table.add_row(row.describe, *(_percentiles(row.brokers[name]) for name in names))
    parts: list[RenderableType] = ["Latency in µs, with the load generator's own part", table]
    floors = [row for row in rows if FLOOR in row.brokers]
    if floors:
        parts.append("The floor: read, one synced commit of SQLite, write, and nothing else")
        parts += [f"  {row.describe}: {_percentiles(row.brokers[FLOOR])}" for row in floors]
        parts.append("")
    return Group(*parts)


def _percentiles(figures: LatencyFigures) -> str:
    return f"{_number(figures.p50_us)} / {_number(figures.p99_us)}"


def _memory(memory: dict[str, MemoryFigures], wanted: int) -> RenderableType:
    connections = max(figures.connections for figures in memory.values())
    title = f"Bytes of memory for each of {connections:,} idle connections (aim: {wanted:,})"
    table = _table("", "plain", "least to most", "with a subscription")
    for name, figures in memory.items():
        runs = figures.runs
        table.add_row(
            SHORT[name],
            _number(figures.bytes_each),
            f"{_number(min(runs))} to {_number(max(runs))}" if runs else "",
            _number(figures.bytes_each_subscribed),
        )
    return Group(title, table)


def _table(first: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(first, justify="left", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _thousands(value: float | None) -> str:
    return "failed" if value is None else f"{value / 1e3:,.1f}"


def _number(value: float | None) -> str:
    return "failed" if value is None else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
