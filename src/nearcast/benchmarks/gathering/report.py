"""Prints what events cost that wait."""

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from nearcast.benchmarks.gathering.benchmark import GatheringBenchResult


def show(result: GatheringBenchResult, console: Console) -> None:
    """Print all of it."""
    heading = (
        f"CPU time of events that wait until there are {result.settings.volume}, for subscribers "
        f"of one rule.\n{result.machine['processor']}, {result.machine['cores']} cores.\n"
    )
    table = Table(box=box.SIMPLE)
    for name in (
        "subscribers", "µs until release", "with a filter", "release, µs each", "bytes each",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for each in result.costs:
        table.add_row(
            f"{each.subscribers:,}",
            f"{each.arrive_us:,.1f}",
            f"{each.filtered_us:,.1f}",
            f"{each.release_us:,.3f}",
            "" if each.subscriber_bytes is None else f"{each.subscriber_bytes:,.0f}",
        )
    console.print(Group(Text(heading), table))
