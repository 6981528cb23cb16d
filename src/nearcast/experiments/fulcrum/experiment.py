"""`nearcast experiment fulcrum`: seed A's scenarios, and strategies of silence on real tracks."""

from pathlib import Path

from msgspec import Struct, to_builtins

from nearcast.core.relationships.silence.pair_member import PairSettings
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.experiments.experiment_result import (
    ExperimentFigure,
    ExperimentResult,
    ExperimentRow,
    Progress,
)
from nearcast.experiments.fulcrum.growth import over_distance, over_members
from nearcast.experiments.fulcrum.many_peers import over_relationships
from nearcast.experiments.fulcrum.real_tracks import pedestrian_rows, taxi_rows
from nearcast.experiments.fulcrum.scenarios import (
    SCENARIOS,
    WITHIN_M,
    count_scenario,
    scenario_rows,
    squared_ring_detects,
)

NAME = "fulcrum"
PARTS = (
    "Tables 6.2 to 6.6",
    "Messages by distance",
    "Groups",
    "Many relationships of one node",
    "Taxis",
    "Pedestrians",
)


class FulcrumSettings(Struct, frozen=True):
    """What is measured, and how much of it."""

    seed: int = 1
    data: str | None = None
    """The directory of real tracks; without, a city is invented."""
    distances_m: tuple[float, ...] = (20.0, 50.0, 200.0, 1_000.0, 5_000.0, 20_000.0)
    group_sizes: tuple[int, ...] = (2, 5, 10, 20, 50, 100)
    group_seconds: int = 300
    relationships: int = 10_000
    relationship_seconds: int = 300
    taxi_pairs: int = 2_000
    pedestrian_pairs: int | None = None
    """None: all who are there together."""


QUICK = FulcrumSettings(
    distances_m=(20.0, 200.0), group_sizes=(2, 5, 10), group_seconds=30, relationships=500,
    relationship_seconds=10, taxi_pairs=4, pedestrian_pairs=40,
)  # fmt: skip


def run(
    settings: FulcrumSettings, progress: Progress = lambda part: None
) -> tuple[ExperimentResult, list[ExperimentFigure]]:
    """Return all rows, and the figures to draw."""
    data = None if settings.data is None else Path(settings.data)
    parts = iter(PARTS)
    ring, walking = STRATEGIES["ring"], STRATEGIES["predictive-strip"]

    progress(next(parts))
    rows, figures = scenario_rows(ring, walking)
    rows += [*_squared_rows(), *_energy_rows()]
    progress(next(parts))
    lines = [ring, STRATEGIES["strip"], STRATEGIES["exit-hazard"]]
    by_distance, figure = over_distance(lines, settings.distances_m)
    rows += by_distance
    figures.append(figure)
    progress(next(parts))
    groups, figure = over_members(settings.group_sizes, settings.group_seconds, settings.seed)
    rows += groups
    figures.append(figure)
    progress(next(parts))
    rows += over_relationships(
        STRATEGIES["exit-hazard"], settings.relationships, settings.relationship_seconds,
        settings.seed,
    )  # fmt: skip
    progress(next(parts))
    rows += taxi_rows(data, settings.taxi_pairs, settings.seed)
    progress(next(parts))
    rows += pedestrian_rows(data, settings.pedestrian_pairs, settings.seed)
    described: dict[str, object] = to_builtins(settings)
    return ExperimentResult(NAME, settings.seed, rows, described), figures


def _squared_rows() -> list[ExperimentRow]:
    true_distance, as_printed = squared_ring_detects()
    note = "The text's listings subtract a distance from a squared one (5.2, 5.3)."
    case = "head-on walkers are detected"
    return [
        ExperimentRow("printed ring", f"{case} by true distances", None, float(true_distance)),
        ExperimentRow("printed ring", f"{case} as printed", None, float(as_printed), note=note),
    ]


def _energy_rows() -> list[ExperimentRow]:
    """Radio messages and bytes of the intermediate distance: each costs its sender and receiver."""
    scenario = SCENARIOS[-1]
    rows = []
    for name, strategy in STRATEGIES.items():
        count = count_scenario(scenario, PairSettings(WITHIN_M, strategy))
        sent = count.messages + count.notices + count.acks
        rows += [
            ExperimentRow("energy", f"{scenario.case}, {name}: radio messages", None, sent),
            ExperimentRow("energy", f"{scenario.case}, {name}: bytes", None, count.bytes, "bytes"),
        ]
    return rows
