"""Seed D's experiments: small ones, and what the text says of them."""

from random import Random

import pytest

from nearcast.core.model import circle
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.experiments.steam import experiment
from nearcast.experiments.steam.collisions import forced
from nearcast.experiments.steam.crowds import RANGE_M, SCENARIOS, Scenario, places
from nearcast.experiments.steam.dissemination import formula
from nearcast.experiments.steam.flood import WARNING, spread
from nearcast.experiments.steam.intersection import Intersection, summary_rows
from nearcast.experiments.steam.recovery import account
from nearcast.simulation.network.radio import RadioSettings
from tests.support.radio_field import RadioField


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
@pytest.mark.parametrize("reach_m", [200.0, 300.0, 700.0])
def test_cost_is_as_the_formulas_say_for_events_and_beacons(
    scenario: Scenario, reach_m: float
) -> None:
    for seed in range(3):
        found = spread(places(scenario, 60, seed), reach_m, ProximitySettings())
        assert found.cost == found.beacon_cost == formula(found, reach_m)
        if reach_m > RANGE_M:
            assert found.delivered == found.connected


def test_the_flood_costs_what_whole_nodes_on_a_radio_channel_cost() -> None:
    random = Random(5)
    where = [(random.uniform(-500, 500), random.choice((-2.0, 2.0))) for _ in range(20)]
    found = spread(where, 400.0, ProximitySettings())
    field = RadioField(radio=RadioSettings(contention=False))
    source = field.add("source", 0)
    for number, (east, north) in enumerate(where):
        field.add(f"n{number}", east, north).subscribe("warning")
    source.announce(WARNING, circle("me", 400))
    field.clock.run(0.1)
    before = sum(node.statistics().sent for node in field.nodes.values())
    source.raise_event("warning", {"lane": 1})
    field.clock.run(0.1)
    assert sum(node.statistics().sent for node in field.nodes.values()) - before == found.cost
    assert sum(len(field.got(name)) for name in field.nodes) == found.delivered


def test_failed_forwarders_can_only_take_away() -> None:
    where = places(SCENARIOS[3], 60, 1)
    usual = spread(where, 500.0, ProximitySettings())
    failed = spread(where, 500.0, ProximitySettings(), silent=range(0, 60, 5))
    assert failed.delivered <= usual.delivered
    assert failed.cost < usual.cost


def test_filters_at_the_intersection_cut_deliveries_as_geometry_says() -> None:
    plain = Intersection(2, 1, 0.1, filtered=False).run()
    filtered = Intersection(2, 1, 0.1, filtered=True).run()
    cut, counted = summary_rows(plain, filtered, 0.1)
    assert cut.ours == pytest.approx(95.0, abs=1.0)
    assert counted.ours == pytest.approx(93.6, abs=1.0)


def test_a_forced_collision_passes_nothing_and_counts_everything() -> None:
    assert forced(20) == (0, 20)


def test_with_recovery_all_who_are_owed_an_event_get_it_within_two_periods() -> None:
    found = [account(seed, recovers=True) for seed in range(1, 4)]
    assert sum(each.owed for each in found) > 6
    assert all(each.owed == each.owed_and_got for each in found)
    assert max(each.longest_periods for each in found) <= 2.0
    without = [account(seed, recovers=False) for seed in range(1, 4)]
    assert sum(each.owed_and_got for each in without) < sum(each.owed for each in without)


def test_the_whole_experiment_runs() -> None:
    parts: list[str] = []
    result, figures = experiment.run(experiment.QUICK, parts.append)
    assert tuple(parts) == experiment.PARTS
    sources = {row.source.split(",")[0] for row in result.rows}
    assert {"Figure 7", "Figure 11", "Figure 12", "Figure 14", "Figure 15", "Table 1"} <= sources
    assert {"Apart", "Collisions", "Recovery", "Missed proximities"} <= sources
    assert {figure.name for figure in figures} == {
        "figure-7-aa", "figure-7-ab", "figure-7-ba", "figure-7-bb", "figure-11", "figure-12",
        "figure-14", "figure-15",
    }  # fmt: skip
