"""A quick run of the whole experiment: its rows, its JSON and its pictures."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearcast.cli.experiment import app
from nearcast.experiments.agent import experiment
from nearcast.experiments.agent.experiment import QUICK
from nearcast.experiments.experiment_result import ExperimentResult, ExperimentRow
from nearcast.experiments.report import draw, missed_aims, number_text

SOURCES = {
    "Table 4-6", "Table 4-7", "Figure 4-6", "Table 6-1", "Listing 7-4", "Listing 7-5",
    "Cost of selection", "Figure 8-1", "Figure 8-3", "Figure 8-4", "Figure 8-5",
    "Appendix A, Figure 6", "Appendix A, Figure 7", "Appendix A, Figure 10", "6.2.1",
}  # fmt: skip


def test_json_has_the_form_of_all_experiments() -> None:
    done = CliRunner().invoke(app, ["agent", "--quick", "--json", "--seed", "7"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert list(found) == ["experiment", "seed", "rows", "settings"]
    assert (found["experiment"], found["seed"]) == ("agent", 7)
    assert found["settings"]["batch"] == 64
    assert {row["source"] for row in found["rows"]} == SOURCES
    for row in found["rows"]:
        assert row["paper"] is None or isinstance(row["paper"], int | float)
        assert isinstance(row["ours"], int | float)


def test_decisions_and_counts_do_not_depend_on_the_machine() -> None:
    parts: list[str] = []
    first, figures = experiment.run(QUICK, parts.append)
    second, _ = experiment.run(QUICK)
    assert tuple(parts) == experiment.PARTS
    assert len({figure.name for figure in figures}) == len(figures)
    measured = ("µs", "ms", "%")

    def decided(rows: list[ExperimentRow]) -> list[tuple[str, str, float]]:
        return [
            (row.source, row.case, row.ours)
            for row in rows
            if not row.unit.startswith(measured) and "CPU" not in row.case
        ]

    assert decided(first.rows) == decided(second.rows)
    # Figures 8-4 and 8-5: as many rules as there are, each evaluated once for an event.
    by_case = {row.case: row for row in first.rows}
    rules = by_case["distinct rules of 100 users"].ours
    assert rules - 1 <= by_case["evaluations, 100 users, grouped"].ours <= rules
    assert abs(rules - (by_case["distinct rules of 100 users"].model or 0.0)) < 12
    assert [row.at_most for row in first.rows if row.at_most is not None] == [12.0, 2.0, 5.0]
    # The text prints none of these numbers.
    assert {row.paper for row in first.rows if row.source in ("Figure 8-4", "Figure 8-5")} == {None}
    apart = by_case["evaluations, 100 users, not grouped"]
    assert by_case["evaluations, 100 users, grouped"].ours < apart.ours <= (apart.model or 0.0)


def test_a_table_is_printed_and_every_figure_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = CliRunner().invoke(app, ["agent", "--quick", "--out", str(tmp_path / "figures")])
    assert done.exit_code == 0, done.output
    assert "Table 4-7" in done.stdout
    assert "Misprint" in done.stdout
    drawn = sorted(path.stem for path in (tmp_path / "figures").iterdir())
    assert {"figure-4-6", "figure-8-1", "figure-8-3", "figure-8-4", "levels"} <= set(drawn)
    for path in (tmp_path / "figures").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
    assert draw([], tmp_path / "none") == []


def test_figures_beyond_their_aims_are_named() -> None:
    slow = ExperimentRow("Cost of selection", "a change of class", None, 9.5, "µs", at_most=5.0)
    fast = ExperimentRow("Cost of selection", "a filter", None, 12.0, "µs", at_most=12.0)
    plain = ExperimentRow("Cost of selection", "plain forwarding", None, 99.0, "µs")
    assert missed_aims(ExperimentResult("agent", 1, [slow, fast, plain], {})) == [
        "Cost of selection: a change of class: 9.5 µs, aim: at most 5"
    ]


def test_numbers_have_about_three_digits() -> None:
    assert [number_text(each) for each in (10_000, 1234.56, 0.01234, 2.0)] == [
        "10,000",
        "1,234.6",
        "0.0123",
        "2",
    ]
