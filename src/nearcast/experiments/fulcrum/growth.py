"""How messages grow: with the distance, and with the number of members."""

import math
from collections.abc import Sequence

import numpy as np

from nearcast.core.relationships.silence.pair_member import PairSettings
from nearcast.core.relationships.silence.regions.region import Point, position_limit, position_point
from nearcast.core.relationships.silence.regions.shared_rings import SharedRings, near_pairs
from nearcast.core.relationships.silence.regions.strategy import SilenceStrategy
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow
from nearcast.experiments.fulcrum.pair_count import count_pair
from nearcast.experiments.fulcrum.scenarios import SLOW, UP_M, WITHIN_M, YARD_M
from nearcast.experiments.fulcrum.tracks import PairTrack
from nearcast.simulation.movement.population import MovementKind, population

GROUP_WITHIN_M = 5.0
GROUP_SECONDS = 300


def over_distance(
    strategies: Sequence[SilenceStrategy], distances_m: Sequence[float]
) -> tuple[list[ExperimentRow], ExperimentFigure]:
    """One stands still, the other walks to it: the text expects lg2(distance) messages."""
    rows, curves = [], []
    for strategy in strategies:
        found = []
        for distance_m in distances_m:
            settings = PairSettings(WITHIN_M, strategy)
            count = count_pair(_approach(distance_m), settings)
            found.append(float(count.messages))
            rows.append(
                ExperimentRow(
                    "lg2(distance)", f"{strategy.name} from {distance_m:.0f} m",
                    math.log2((distance_m - WITHIN_M) / YARD_M), count.messages, "messages",
                    note=LG2_NOTE,
                )
            )  # fmt: skip
        logs = np.log2(np.array(distances_m))
        slope = float(np.polyfit(logs, np.array(found), 1)[0]) if len(found) > 1 else 0.0
        case = f"{strategy.name}: messages per doubling"
        rows.append(ExperimentRow("lg2(distance)", case, 1.0, slope, "messages"))
        curves.append(Curve(strategy.name, list(distances_m), found))
    title = "Messages until near, one standing still"
    figure = ExperimentFigure(
        "lg2-distance", title, "metres at first", "messages", tuple(curves), x_log=True
    )
    return rows, figure


LG2_NOTE = "lg2 of what lies between in yards, as the text expects; it measured no more than 20."


def _approach(distance_m: float) -> PairTrack:
    seconds = math.ceil((distance_m - WITHIN_M) / SLOW) + 2
    times = np.arange(float(seconds))
    walker = np.stack([SLOW * times, np.zeros(seconds), np.full(seconds, UP_M)], axis=1)
    still = np.broadcast_to(np.array([distance_m, 0.0, UP_M]), (seconds, 3)).copy()
    return PairTrack(("walker", "other"), times, walker, still)


def over_members(
    sizes: Sequence[int], seconds: int, seed: int
) -> tuple[list[ExperimentRow], ExperimentFigure]:
    """Groups of walkers at a constant density: reports by the number of members."""
    rows: list[ExperimentRow] = []
    reports, raws = [], []
    within = position_limit(GROUP_WITHIN_M)
    for size in sizes:
        sent, wrong = _group_reports(size, seconds, within, seed)
        reports.append(float(max(sent, 1)))
        raws.append(float(size * (size - 1) * seconds))
        rows += [
            ExperimentRow("groups", f"{size} members: reports", None, sent, "messages"),
            ExperimentRow(
                "groups", f"{size} members: every fix to every other", None, raws[-1], "messages"
            ),
            ExperimentRow("groups", f"{size} members: pairs in a wrong state", None, wrong),
        ]  # fmt: skip
    exponent = float(np.polyfit(np.log(np.array(sizes)), np.log(np.array(reports)), 1)[0])
    rows.append(ExperimentRow("groups", "fitted exponent", None, exponent, note=GROUP_NOTE))
    x = [float(size) for size in sizes]
    curves = (Curve("shared rings", x, reports), Curve("every fix to every other", x, raws))
    title = f"Reports of groups in {seconds} s"
    figure = ExperimentFigure(
        "groups", title, "members", "messages", curves, x_log=True, y_log=True
    )
    return rows, figure


GROUP_NOTE = (
    "Walkers, one for each 400 m², 5 m, a fix a second. A report is one message, published once to "
    "the members."
)


def _group_reports(size: int, seconds: int, within: float, seed: int) -> tuple[int, int]:
    nodes = population(MovementKind.WALKERS, size, seed)
    points: list[Point] = [position_point(node.course.at(0.0)) for node in nodes]
    rings = SharedRings(points, within)
    sent = wrong = 0
    for second in range(1, seconds + 1):
        for member, node in enumerate(nodes):
            points[member] = position_point(node.course.at(float(second)))
            sent += len(rings.fix(member, points[member]))
        wrong += int((rings.near() != near_pairs(np.array(points), within)).sum()) // 2
    return sent, wrong
