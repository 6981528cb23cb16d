"""The benchmark of relationships measures fixes, and prints what it measured."""

import msgspec
from typer.testing import CliRunner

from nearcast.cli.bench import app


def test_it_prints_the_cost_of_a_fix() -> None:
    ran = CliRunner().invoke(app, ["relationships", "--quick", "--json"])
    assert ran.exit_code == 0, ran.output
    result = msgspec.json.decode(ran.stdout)
    assert result["benchmark"] == "relationships"
    assert [each["relationships"] for each in result["spread"]] == [0, 100]
    assert [each["relationships"] for each in result["on_one_node"]] == [1, 100]
    assert all(each["fix_us"] > 0 for each in result["spread"] + result["on_one_node"])
    shown = CliRunner().invoke(app, ["relationships", "--quick"])
    assert "All relationships of one node" in shown.output
