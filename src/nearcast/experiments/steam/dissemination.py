"""Figures 7, 14 and 15: what an event costs, whom it does not reach, and what gossip saves."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from statistics import fmean

from nearcast.core.proximity.settings import ProximitySettings
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow
from nearcast.experiments.steam.crowds import MPH, RANGE_M, SCENARIOS, Place, Scenario, places
from nearcast.experiments.steam.flood import Spread, spread

FAILED = 0.2
GOSSIP = ProximitySettings(gossip_m=200.0, gossip_share=0.8)
ALL = ProximitySettings()
SPARSE = 60
"""At this saturation the text tries no gossip."""
SPEEDS_MPH = (0.0, 25.0, 50.0, 75.0)
GEOMETRY = "The text gives no geometry for C, D and E; ours is on the page of this experiment."
SINGLE = "One hop covers the proximity: formula (1)."
MULTI = "Formula (2): 1 + connected members; the text gives no numbers."


def cost_rows(
    proximities_m: Sequence[float], saturations: Sequence[int], seeds: Sequence[int]
) -> tuple[list[ExperimentRow], list[ExperimentFigure]]:
    """Figure 7 (AA, AB): by range and saturation; the car stands, the ambulance drives."""
    rows, figures, off, beacons_off = [], [], 0, 0
    for scenario in SCENARIOS[:2]:
        curves = []
        for saturation in saturations:
            costs = []
            for reach_m in proximities_m:
                found = [
                    spread(
                        places(scenario, saturation, seed), reach_m, ALL,
                        moves=scenario.letter == "B",
                    )
                    for seed in seeds
                ]  # fmt: skip
                off += sum(each.cost != formula(each, reach_m) for each in found)
                beacons_off += sum(each.beacon_cost != formula(each, reach_m) for each in found)
                costs.append(fmean(each.cost for each in found))
                single = reach_m <= RANGE_M
                rows.append(
                    ExperimentRow(
                        f"Figure 7, A{scenario.letter}",
                        f"{scenario.name}, {reach_m:.0f} m, saturation {saturation}",
                        1.0 if single else None, costs[-1], "messages",
                        note=SINGLE if single else MULTI,
                    )
                )  # fmt: skip
            curves.append(Curve(f"saturation {saturation}", proximities_m, costs))
        figures.append(
            ExperimentFigure(
                f"figure-7-a{scenario.letter.lower()}", f"Cost of an event: {scenario.name}",
                "proximity range, m", "messages", tuple(curves),
            )
        )  # fmt: skip
    for what, count in (("events", off), ("beacons", beacons_off)):
        case = f"{what} whose cost is neither 1 nor 1 + connected members"
        rows.append(ExperimentRow("Formulas (1), (2)", case, 0.0, count))
    return rows, figures


def formula(found: Spread, reach_m: float) -> int:
    """Return the cost by the text's formulas."""
    return 1 if reach_m <= RANGE_M else 1 + found.connected


def speed_rows(
    proximities_m: Sequence[float], saturation: int, seeds: Sequence[int]
) -> tuple[list[ExperimentRow], list[ExperimentFigure]]:
    """Figure 7 (BA, BB): by migration speed; the road is as it is after 10 s of driving."""
    rows, figures = [], []
    for scenario in SCENARIOS[:2]:
        curves = []
        for reach_m in proximities_m:
            costs = []
            for mph in SPEEDS_MPH:
                found = [
                    spread(_driven(scenario, saturation, seed, mph), reach_m, ALL) for seed in seeds
                ]
                costs.append(fmean(each.cost - formula(each, reach_m) for each in found))
            curves.append(Curve(f"{reach_m:.0f} m", SPEEDS_MPH, costs))
        most = max(abs(cost) for curve in curves for cost in curve.y)
        rows.append(
            ExperimentRow(
                f"Figure 7, B{scenario.letter}",
                f"{scenario.name}: largest change of the cost with speed, beside the formula",
                0.0, most, "messages",
            )
        )  # fmt: skip
        figures.append(
            ExperimentFigure(
                f"figure-7-b{scenario.letter.lower()}",
                f"Cost beside the formula, by speed: {scenario.name}", "miles an hour", "messages",
                tuple(curves),
            )
        )  # fmt: skip
    return rows, figures


def _driven(scenario: Scenario, saturation: int, seed: int, mph: float) -> list[Place]:
    """Return where they are after 10 s; lanes go opposite ways, and who leaves the road turns."""
    found = []
    for east, north in places(scenario, saturation, seed):
        moved = east + (1.0 if north > 0.0 else -1.0) * mph * MPH * 10.0
        found.append(((moved + 700.0) % 1_400.0 - 700.0, north))
    return found


def partition_rows(
    proximities_m: Sequence[float], saturations: Sequence[int], seeds: Sequence[int]
) -> tuple[list[ExperimentRow], list[ExperimentFigure]]:
    """Figure 14: who is inside and does not get the event, with every fifth passing nothing on."""
    rows, curves = [], []
    for scenario in SCENARIOS:
        for saturation in saturations:
            shares = []
            for reach_m in proximities_m:
                found = [_with_failures(scenario, saturation, reach_m, seed) for seed in seeds]
                shares.append(100.0 * _missed(found))
                quiet = saturation > SPARSE or reach_m <= 300.0 or scenario.letter in "AB"
                rows.append(
                    ExperimentRow(
                        "Figure 14",
                        f"{scenario.letter} {scenario.name}, {reach_m:.0f} m, saturation "
                        f"{saturation}: partitioned",
                        0.0 if quiet else None, shares[-1], "%", note=GEOMETRY,
                    )
                )  # fmt: skip
            if saturation == min(saturations):
                curves.append(Curve(f"{scenario.letter} {scenario.name}", proximities_m, shares))
    figure = ExperimentFigure(
        "figure-14", f"Not reached, 20 % passing nothing on, saturation {min(saturations)}",
        "proximity range, m", "%", tuple(curves),
    )  # fmt: skip
    return rows, [figure]


def _with_failures(scenario: Scenario, saturation: int, reach_m: float, seed: int) -> Spread:
    random = Random(f"{seed}/failed/{saturation}")
    silent = set(random.sample(range(saturation), round(FAILED * saturation)))
    return spread(places(scenario, saturation, seed), reach_m, ALL, silent)


def gossip_rows(
    proximities_m: Sequence[float], saturations: Sequence[int], seeds: Sequence[int]
) -> tuple[list[ExperimentRow], list[ExperimentFigure]]:
    """Figure 15: what G(200, 0.8) saves, and whether everybody still gets the event.

    As in the text, what is saved is the average of saturations above 60.
    """
    rows, curves, delivered = [], [], defaultdict(list)
    for scenario in SCENARIOS:
        saved = []
        for reach_m in proximities_m:
            usual_cost = gossip_cost = 0
            for saturation in saturations:
                for seed in seeds:
                    at = places(scenario, saturation, seed)
                    usual, gossip = spread(at, reach_m, ALL), spread(at, reach_m, GOSSIP)
                    share = gossip.delivered / usual.delivered if usual.delivered else 1.0
                    delivered[scenario.letter, saturation].append(share)
                    if saturation > SPARSE:
                        usual_cost += usual.cost
                        gossip_cost += gossip.cost
            saved.append(100.0 * (1.0 - gossip_cost / usual_cost))
            rows.append(
                ExperimentRow(
                    "Figure 15", f"{scenario.letter} {scenario.name}, {reach_m:.0f} m: saved",
                    0.0 if reach_m <= RANGE_M else None, saved[-1], "%",
                )
            )  # fmt: skip
        curves.append(Curve(f"{scenario.letter} {scenario.name}", proximities_m, saved))
        rows += [
            ExperimentRow(
                "Figure 15",
                f"{scenario.letter} {scenario.name}, saturation {saturation}: delivered",
                100.0 if saturation > SPARSE else None,
                100.0 * fmean(delivered[scenario.letter, saturation]), "%",
                note="With gossip, of those who get it without.",
            )
            for saturation in saturations
        ]  # fmt: skip
    figure = ExperimentFigure(
        "figure-15", "Messages saved by G(200 m, 0.8), saturations above 60", "proximity range, m",
        "%", tuple(curves),
    )  # fmt: skip
    return rows, [figure]


def _missed(found: Sequence[Spread]) -> float:
    inside = sum(each.inside for each in found)
    return 1.0 - sum(each.delivered for each in found) / inside if inside else 0.0
