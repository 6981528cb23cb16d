"""Prints what a fix costs."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from nearcast.benchmarks.relationships.benchmark import RelationshipBenchResult, RelationshipCost


def show(result: RelationshipBenchResult, console: Console) -> None:
    """Print all of it."""
    heading = (
        "Microseconds of CPU time for a fix of a member; pairs within 100 m.\n"
        f"{result.machine['processor']}, {result.machine['cores']} cores.\n"
    )
    console.print(
        Group(
            Text(heading),
            Text("Two relationships a node"),
            _table(result.spread),
            Text("All relationships of one node"),
            _table(result.on_one_node),
        )
    )


def _table(costs: Sequence[RelationshipCost]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("relationships", "nodes", "define µs", "fix µs", "changes"):
        table.add_column(column, justify="right")
    for each in costs:
        table.add_row(
            f"{each.relationships:,}", f"{each.nodes:,}", f"{each.define_us:,.1f}",
            f"{each.fix_us:,.2f}", f"{each.notices:,}",
        )  # fmt: skip
    return table
