"""The scenarios of seed A, and the whole experiment on an invented city."""

import pytest

from nearcast.core.relationships.silence.pair_member import PairSettings
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.experiments.fulcrum import experiment
from nearcast.experiments.fulcrum.scenarios import (
    SCENARIOS,
    WITHIN_M,
    Scenario,
    count_scenario,
    squared_ring_detects,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.case for each in SCENARIOS])
def test_no_scenario_needs_more_messages_than_the_rings_of_the_text(scenario: Scenario) -> None:
    settings = PairSettings(WITHIN_M, STRATEGIES["predictive-strip"])
    count = count_scenario(scenario, settings)
    assert count.messages <= scenario.paper_rings
    assert count.near is ("closer" in scenario.case or "close" in scenario.case)


def test_rings_head_on_need_the_set_up_one_crossing_and_the_notice() -> None:
    count = count_scenario(SCENARIOS[0], PairSettings(WITHIN_M, STRATEGIES["ring"]))
    assert (count.messages, count.notices) == (2, 1)


def test_the_ring_as_printed_misses_the_meeting() -> None:
    assert squared_ring_detects() == (True, False)


def test_the_whole_experiment_runs_without_real_tracks() -> None:
    parts: list[str] = []
    result, figures = experiment.run(experiment.QUICK, parts.append)
    assert tuple(parts) == experiment.PARTS
    wrong = [row for row in result.rows if "wrong state" in row.case]
    assert wrong
    assert all(row.ours == 0.0 for row in wrong)
    assert {"figure-6-1", "figure-6-2", "figure-6-4", "lg2-distance", "groups"} == {
        figure.name for figure in figures
    }
