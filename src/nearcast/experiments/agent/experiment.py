"""`nearcast experiment agent`: seed C's tables and figures by the real engine, beside the text's.

Figure 8-2 and the figures of servers wait for links between brokers.
"""

import random

from msgspec import Struct, to_builtins

from nearcast.experiments.agent import selection_cost
from nearcast.experiments.agent.flatscape import listings_7_4_and_7_5, table_6_1
from nearcast.experiments.agent.grouping import grouping
from nearcast.experiments.agent.priority_levels import class_change, priority_levels
from nearcast.experiments.agent.selection_cost import figure_8_1, figure_8_3, selection_costs
from nearcast.experiments.agent.worked_example import figure_4_6, table_4_6, table_4_7
from nearcast.experiments.experiment_result import (
    ExperimentFigure,
    ExperimentResult,
    ExperimentRow,
    Progress,
)

NAME = "agent"
PARTS = (
    "Tables 4-6, 4-7 and 6-1, Listings 7-4 and 7-5",
    "Cost of selection",
    "Figures 8-1 and 8-3",
    "Figures 8-4 and 8-5",
    "Number of levels",
)


class AgentSettings(Struct, frozen=True):
    """What is measured, and how often."""

    seed: int = 1
    clients: tuple[int, ...] = (10, 100, 1_000, 10_000)
    """Of the cost of selection."""
    events: tuple[int, ...] = (64, 128, 256, 512, 1_024)
    """Of Figure 8-1."""
    users: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    """Of Figures 8-4 and 8-5."""
    users_apart: tuple[int, ...] = (10, 100, 1_000, 10_000)
    """Of Figure 8-5, where each has a filter of its own."""
    levels: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8)
    runs: int = 7
    batches: int = 20
    """Of a run of the cost of selection, at most."""


QUICK = AgentSettings(
    clients=(10, 100),
    events=(64, 128),
    users=(10, 100),
    users_apart=(10, 100),
    levels=(2, 3, 8),
    runs=2,
    batches=2,
)


def run(
    settings: AgentSettings, progress: Progress = lambda part: None
) -> tuple[ExperimentResult, list[ExperimentFigure]]:
    """Return all rows, and the figures to draw."""
    parts = iter(PARTS)

    def begin() -> random.Random:
        """Begin a part, which draws by itself: it is the same whatever others draw."""
        part = next(parts)
        progress(part)
        return random.Random(f"{settings.seed} {part}")

    begin()
    in_order, order_figure = figure_4_6()
    rows: list[ExperimentRow] = [
        *table_4_6(), *table_4_7(), *in_order, *table_6_1(), *listings_7_4_and_7_5(),
    ]  # fmt: skip
    draw = begin()
    costs, cost_figure, us = selection_costs(
        draw, settings.clients, settings.runs, settings.batches
    )
    rows += [*costs, class_change(8 * settings.runs)]
    draw = begin()
    overhead, overhead_figure = figure_8_1(draw, settings.events, settings.runs)
    gain, gain_figure = figure_8_3(draw, us)
    rows += [*overhead, *gain]
    groups, group_figures = grouping(begin(), settings.users, settings.users_apart, settings.runs)
    rows += groups
    of_levels, level_figure = priority_levels(begin(), settings.levels, settings.runs)
    rows += of_levels
    described: dict[str, object] = {
        **to_builtins(settings),
        "batch": selection_cost.BATCH,
        "link_bits_per_s": selection_cost.LINK_BITS_PER_S,
        "payload_bytes": selection_cost.PAYLOAD_BYTES,
    }
    figures = [order_figure, cost_figure, overhead_figure, gain_figure, *group_figures]
    return ExperimentResult(NAME, settings.seed, rows, described), [*figures, level_figure]
