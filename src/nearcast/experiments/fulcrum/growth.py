"""How messages grow: with the distance, with the number of members, and with relationships."""

import math
import random
import time
from collections.abc import Sequence

import numpy as np

from nearcast.core.relationships.silence.pair_member import PairSettings
from nearcast.core.relationships.silence.region import Point, Region, position_limit, position_point
from nearcast.core.relationships.silence.region_table import RegionTable
from nearcast.core.relationships.silence.report import Report
from nearcast.core.relationships.silence.shared_rings import SharedRings, near_pairs
from nearcast.core.relationships.silence.strategy import SilenceStrategy
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow
from nearcast.experiments.fulcrum.pair_count import count_pair
from nearcast.experiments.fulcrum.scenarios import SLOW, UP_M, WITHIN_M, YARD_M
from nearcast.experiments.fulcrum.tracks import PairTrack
from nearcast.simulation.population import MovementKind, population

GROUP_WITHIN_M = 5.0
GROUP_SECONDS = 300
RELATIONSHIP_WITHIN_M = 100.0


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


def over_relationships(
    strategy: SilenceStrategy, count: int, seconds: int, seed: int
) -> list[ExperimentRow]:
    """One node in many relationships: the time of a fix inside all regions, and of a crossing."""
    draw = random.Random(f"{seed}/relationships")
    within = position_limit(RELATIONSHIP_WITHIN_M)
    node, *peers = (Report(_spot(draw)) for _ in range(count + 1))
    regions: list[Region] = [strategy.propose(node, peer, within, 30.0).teller for peer in peers]
    table = RegionTable(regions)
    table.left_by(node.point)
    inside: list[int] = []
    crossing: list[float] = []
    (x, y, z), crossings = node.point, 0
    for second in range(seconds):
        for _ in range(10):
            x, y = x + 1.0, y + draw.gauss(0.0, 0.3)
            point = (x, y, z)
            began = time.perf_counter_ns()
            left = table.left_by(point)
            took = time.perf_counter_ns() - began
            if not left:
                inside.append(took)
                continue
            began = time.perf_counter_ns()
            mine = Report(point, (1.0, 0.0, 0.0), float(second))
            for number in left:
                table.replace(number, strategy.propose(mine, peers[number], within, 30.0).teller)
            table.left_by(point)
            crossing.append((time.perf_counter_ns() - began) / 1000.0 / len(left))
            crossings += len(left)
    inside.sort()
    name = f"{count} relationships of one node"
    return [
        ExperimentRow("cost", f"{name}: a fix inside all regions, median", None,
                      inside[len(inside) // 2] / 1000.0, "µs"),
        ExperimentRow("cost", f"{name}: 99th of 100", None,
                      inside[len(inside) * 99 // 100] / 1000.0, "µs"),
        ExperimentRow("cost", f"{name}: a crossing", None,
                      float(np.mean(crossing)) if crossing else 0.0, "µs"),
        ExperimentRow("cost", f"{name}: crossings", None, crossings),
    ]  # fmt: skip


def _spot(draw: random.Random) -> Point:
    return (draw.uniform(-2e4, 2e4), draw.uniform(-2e4, 2e4), UP_M)
