"""`nearcast experiment steam`: seed D's figures and Table 1, ours beside them."""

from msgspec import Struct, to_builtins

from nearcast.experiments.experiment_result import (
    ExperimentFigure,
    ExperimentResult,
    ExperimentRow,
    Progress,
)
from nearcast.experiments.steam.collisions import collision_rows
from nearcast.experiments.steam.crowds import PROXIMITIES_M, SATURATIONS
from nearcast.experiments.steam.dissemination import (
    cost_rows,
    gossip_rows,
    partition_rows,
    speed_rows,
)
from nearcast.experiments.steam.fast_movers import miss_rows
from nearcast.experiments.steam.intersection import intersection_rows
from nearcast.experiments.steam.latency import latency_rows
from nearcast.experiments.steam.recovery import recovery_rows

NAME = "steam"
PARTS = (
    "Figure 7: cost by range",
    "Figure 7: cost by speed",
    "Table 1: the intersection",
    "Figures 11 and 12: latency",
    "Figure 14: partitions",
    "Figure 15: gossip",
    "Fast movers",
    "Collisions",
    "Recovery",
)


class SteamSettings(Struct, frozen=True):
    """What is measured, and how much of it."""

    seed: int = 1
    runs: int = 20
    """Placements of each scenario, over which is averaged."""
    proximities_m: tuple[float, ...] = PROXIMITIES_M
    saturations: tuple[int, ...] = SATURATIONS
    vehicles_per_lane: int = 40
    types: tuple[int, ...] = (1, 10, 20, 40)
    subscriptions: tuple[int, ...] = (1, 10, 100, 1_000)
    events: int = 2_000
    """Raised and delivered in each timed run."""
    timed_runs: int = 7
    radii_m: tuple[float, ...] = (20.0, 40.0, 100.0)
    speeds_mps: tuple[float, ...] = (10.0, 30.0, 60.0)
    beacon_periods_s: tuple[float, ...] = (1.0, 2.0, 5.0)
    passes: int = 200
    type_sets: int = 2_000
    """So often 40 types are announced in one place."""
    recovery_runs: int = 40


QUICK = SteamSettings(
    runs=1, proximities_m=(200.0, 400.0), saturations=(60, 120), vehicles_per_lane=1,
    types=(1, 4), subscriptions=(1, 10), events=50, timed_runs=1, radii_m=(40.0,),
    speeds_mps=(30.0,), beacon_periods_s=(2.0,), passes=5, type_sets=20,
    recovery_runs=1,
)  # fmt: skip


def run(
    settings: SteamSettings, progress: Progress = lambda part: None
) -> tuple[ExperimentResult, list[ExperimentFigure]]:
    """Return all rows, and the figures to draw."""
    seeds = range(settings.seed, settings.seed + settings.runs)
    ranges, saturations = settings.proximities_m, settings.saturations
    parts = iter(PARTS)
    rows: list[ExperimentRow] = []
    figures: list[ExperimentFigure] = []

    def add(found: tuple[list[ExperimentRow], list[ExperimentFigure]]) -> None:
        rows.extend(found[0])
        figures.extend(found[1])

    progress(next(parts))
    add(cost_rows(ranges, saturations, seeds))
    progress(next(parts))
    add(speed_rows(ranges, 120, seeds[: max(1, settings.runs // 4)]))
    progress(next(parts))
    rows += intersection_rows(settings.vehicles_per_lane, settings.seed)
    progress(next(parts))
    add(latency_rows(settings.types, settings.subscriptions, settings.events, settings.timed_runs))
    progress(next(parts))
    add(partition_rows(ranges, saturations, seeds))
    progress(next(parts))
    add(gossip_rows(ranges, saturations, seeds))
    progress(next(parts))
    rows += miss_rows(
        settings.radii_m, settings.speeds_mps, settings.beacon_periods_s, settings.passes,
        settings.seed,
    )  # fmt: skip
    progress(next(parts))
    rows += collision_rows(settings.type_sets, settings.seed)
    progress(next(parts))
    rows += recovery_rows(settings.recovery_runs, settings.seed)
    described: dict[str, object] = to_builtins(settings)
    return ExperimentResult(NAME, settings.seed, rows, described), figures
