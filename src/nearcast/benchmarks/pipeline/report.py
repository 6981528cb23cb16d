"""Prints the figures of a pipeline run as tables."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nearcast.benchmarks.pipeline.benchmark import (
    PipelineLatencyFigures,
    PipelineResult,
    PipelineSizeFigures,
    ShardsResult,
)
from nearcast.benchmarks.pipeline.skew import SkewFigures


def show(result: PipelineResult, console: Console) -> None:
    """Print all tables."""
    parts: list[RenderableType] = [Text(_heading(result))]
    if result.sizes:
        parts += [_rates(result.sizes), _costs(result)]
    if result.skew is not None:
        parts.append(_skew(result.skew))
    if result.shards is not None:
        parts.append(_shards(result.shards))
    clients = result.clients
    if clients is not None:
        parts.append(
            Text(
                f"To MQTT clients, decided in Spark: {clients.events:,} events, "
                f"{clients.deliveries:,} deliveries in {clients.seconds:.1f} s, "
                f"{clients.events_per_s:,.0f} events a second."
            )
        )
    if result.latency:
        parts.append(_latency(result.latency))
    console.print(Group(*parts))


def _latency(rows: Sequence[PipelineLatencyFigures]) -> Table:
    table = Table(
        "moving nodes", "events/s", "aggregates", "p50 s", "p95 s", "most s",
        title="From the event that completes a threshold to the aggregate at a client "
        "(aim: p50 at most 2 s, p95 at most 4 s)",
        title_justify="left", box=box.SIMPLE,
    )  # fmt: skip
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        table.add_row(
            str(row.movers), f"{row.events_per_s:,.0f}", f"{row.aggregates:,}",
            f"{row.p50_s:.2f}", f"{row.p95_s:.2f}", f"{row.most_s:.2f}",
        )  # fmt: skip
    return table


def _heading(result: PipelineResult) -> str:
    machine, settings = result.machine, result.settings
    return (
        f"Pipeline: {settings.events:,} events of a skewed city, seed {settings.seed}, best of "
        f"{settings.runs}; {machine['processor']}, {machine['cores']} cores, Spark "
        f"{result.versions['pyspark']}.\nRates are per CPU-second of all of Spark's processes."
    )


def _rates(sizes: Sequence[PipelineSizeFigures]) -> RenderableType:
    title = "Events per CPU-second: matched, matched to Parquet, and by a grid join in Spark SQL"
    table = _table(
        "subscriptions", "cores", "matches\n/event", "matched", "to\nParquet", "join", "× join",
        "events/s\nmatched", "events/s\njoin",
    )  # fmt: skip
    for each in sizes:
        table.add_row(
            f"{each.subscriptions:,}",
            str(each.cores),
            f"{each.matches_per_event:.2f}",
            f"{each.matching.events_per_cpu_s:,.0f}",
            f"{each.parquet.events_per_cpu_s:,.0f}",
            f"{each.join.events_per_cpu_s:,.0f}",
            f"{each.ratio:.2f}",
            f"{each.matching.events_per_s:,.0f}",
            f"{each.join.events_per_s:,.0f}",
        )
    return Group(title, table)


def _costs(result: PipelineResult) -> RenderableType:
    title = (
        "CPU-µs an event: in Spark, in the broker's matcher given ready batches, and in it with\n"
        f"batches made of Event values, as a broker must (aim: at most {result.wanted_cost} times)"
    )
    table = _table(
        "subscriptions", "cores", "in Spark", "ready", "times", "made", "times",
        "first load\nCPU-s", "memory\nGB",
    )  # fmt: skip
    for each in result.sizes:
        table.add_row(
            f"{each.subscriptions:,}",
            str(each.cores),
            f"{1e6 / each.matching.events_per_cpu_s:.1f}",
            f"{each.matcher_us:.1f}",
            f"{each.cost:.2f}",
            f"{each.made_us:.1f}",
            f"{each.made_cost:.2f}",
            f"{each.load_s:.1f}",
            f"{each.peak_bytes / 1e9:.1f}",
        )
    return Group(title, table)


def _skew(skew: SkewFigures) -> RenderableType:
    city = skew.settings
    title = (
        f"Hot cells: {city.nodes:,} nodes, {city.hot:.0%} of them in one square kilometre; the "
        f"batch in which tasks\ndiffered most (aim: the slowest takes at most {skew.wanted:g} "
        "times the median)"
    )
    table = _table(
        "stage", "tasks", "slowest\ns", "median\ns", "times", "most\nrecords", "median\nrecords"
    )
    for each in skew.stages:
        table.add_row(
            each.stage,
            str(each.tasks),
            f"{each.slowest_s:.2f}",
            f"{each.median_s:.2f}",
            f"{each.ratio:.2f}",
            f"{each.most_records:,}",
            f"{each.median_records:,.0f}",
        )
    return Group(title, table)


def _shards(result: ShardsResult) -> RenderableType:
    title = (
        f"Shards: {result.subscriptions:,} subscriptions; private memory of Python workers, and "
        "events per CPU-second\nfrom the log to merged decisions (aim: with two, a worker has at "
        f"most {result.wanted:g} of the memory)"
    )
    table = _table(
        "shards", "largest\nworker GB", "of one", "workers\nGB", "decided", "join", "× join",
        "events/s", "first load\nCPU-s",
    )  # fmt: skip
    join = result.join.events_per_cpu_s
    for each in result.figures:
        table.add_row(
            str(each.shards),
            f"{each.worker_bytes / 1e9:.2f}",
            f"{each.worker_bytes / result.figures[0].worker_bytes:.2f}",
            f"{each.workers_bytes / 1e9:.2f}",
            f"{each.matching.events_per_cpu_s:,.0f}",
            f"{join:,.0f}",
            f"{each.matching.events_per_cpu_s / join:.2f}",
            f"{each.matching.events_per_s:,.0f}",
            f"{each.load_s:.1f}",
        )
    return Group(title, table)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table
