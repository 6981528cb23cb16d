"""Seed C's tables and listings: what the engine decides, and where the text contradicts itself."""

from pathlib import Path

from nearcast.core.engine.engine import Engine
from nearcast.core.model.inputs import PolicySet
from nearcast.experiments.agent import flatscape, worked_example
from nearcast.experiments.agent.grouping import expected_rules
from nearcast.experiments.agent.priority_levels import accuracy
from nearcast.experiments.agent.selection_cost import elapsed_s, pays_below
from nearcast.experiments.experiment_result import ExperimentRow

POLICIES = Path(__file__).parents[3] / "examples" / "policies"


def differing(rows: list[ExperimentRow]) -> list[tuple[str, float | None, float]]:
    return [
        (row.case, row.paper, row.ours)
        for row in rows
        if row.paper is not None and (row.paper, row.paper_atoms) != (row.ours, row.our_atoms)
    ]


def test_prioritised_subscriptions_are_those_of_table_4_6() -> None:
    rows = worked_example.table_4_6()
    assert [row.our_atoms for row in rows[:3]] == ["{φ0, φ3}", "{φ0, φ1, φ3}", "{φ0, φ1, φ2, φ3}"]
    assert len([row for row in rows if row.unit == "atoms"]) == 9
    assert [row.ours for row in rows if row.unit == "events"] == [12, 12, 12]
    assert differing(rows) == []


def test_priorities_are_those_of_table_4_7_but_for_its_misprint() -> None:
    rows = worked_example.table_4_7()
    assert [row.ours for row in rows] == [2, 1, 2, 3, 3, 1, 1, 2]
    assert differing(rows) == [("e7: armor, 16 at c = 2", 2, 1)]
    assert "Misprint" in rows[6].note


def test_events_leave_as_in_figure_4_6() -> None:
    decided = worked_example.decided_priorities()
    assert worked_example.departures(decided) == ["e2", "e1", "e6", "e7", "e3", "e4", "e5"]
    printed = {name: priority for name, *_, priority in worked_example.PRINTED_EVENTS}
    assert worked_example.departures(printed) == ["e2", "e1", "e6", "e3", "e7", "e4", "e5"]
    rows, _ = worked_example.figure_4_6()
    assert differing(rows) == []


def test_subscriptions_of_flatscape_are_those_of_table_6_1() -> None:
    rows = flatscape.table_6_1()
    assert differing(rows) == []
    assert rows[-1].ours == len(flatscape.PROBES)


def test_a_platoon_leader_has_the_atoms_of_the_listings() -> None:
    rows = flatscape.listings_7_4_and_7_5()
    every = "{a0, a1, a2, a3, a4, a5, a6, a7}"
    assert [row.our_atoms for row in rows if row.unit == "atoms"] == [
        every,
        every,
        every,
        "{a0, a3, a4, a5, a6}",
        "{a0, a3, a4, a5, a6, a7}",
        every,
    ]
    assert differing(rows) == [("atoms of priority 1 at 3750 kb/s", 0, 8)]
    # Sets that are printed otherwise lead to the same decisions.
    assert [row.ours for row in rows if row.unit == "events"] == [9, 9]
    misprints = {row.case: row.note for row in rows if "Misprint" in row.note}
    assert set(misprints) == {
        "atoms of priority 1 at 3750 kb/s",
        "atoms of priority 2 at 195.6 kb/s",
    }
    assert "never filled" in misprints["atoms of priority 1 at 3750 kb/s"]
    assert "without a7" in misprints["atoms of priority 2 at 195.6 kb/s"]


def test_the_policies_are_those_that_ship() -> None:
    ours, shipped = Engine(), Engine()
    ours.step([PolicySet("template", "flatscape", flatscape.SUBSCRIPTION)], 0.0)
    ours.step([PolicySet("roles", "flatscape", flatscape.RELEVANCE)], 0.0)
    for kind, file in (("template", "flatscape.xml"), ("roles", "flatscape-roles.xml")):
        text = (POLICIES / file).read_text()
        assert shipped.step([PolicySet(kind, "flatscape", text)], 0.0).refusals == []
    assert ours.policies.template("flatscape") == shipped.policies.template("flatscape")
    assert ours.role_levels("ann", "flatscape") == shipped.role_levels("ann", "flatscape")


def test_more_levels_tell_more_events_apart() -> None:
    relevances = [0.1, 0.2, 0.4, 0.6, 0.9]
    found = [accuracy(levels, relevances) for levels in (2, 3, 8)]
    assert found == [0.6, 0.8, 1.0]


def test_a_selected_event_costs_the_link_and_another_only_its_decision() -> None:
    every, some = elapsed_s([True] * 60, 5.0), elapsed_s([True] * 30 + [False] * 30, 5.0)
    assert 0.4 < some / every < 0.6
    assert 98.0 < pays_below({"plain": 0.5, "three levels": 10.0}) < 100.0


def test_the_model_of_distinct_rules() -> None:
    assert round(expected_rules(1), 9) == 1.0
    assert round(expected_rules(1_000_000)) == 255
