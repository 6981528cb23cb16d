"""The benchmark of gathering measures arrivals and releases, and prints what it measured."""

import msgspec
from typer.testing import CliRunner

from nearcast.cli.bench import app


def test_it_prints_the_cost_of_an_event() -> None:
    ran = CliRunner().invoke(app, ["gathering", "--quick", "--json"])
    assert ran.exit_code == 0, ran.output
    result = msgspec.json.decode(ran.stdout)
    assert result["benchmark"] == "gathering"
    assert [each["subscribers"] for each in result["costs"]] == [6, 600]
    assert all(each["arrive_us"] > 0 for each in result["costs"])
    shown = CliRunner().invoke(app, ["gathering", "--quick"])
    assert "with a filter" in shown.output
