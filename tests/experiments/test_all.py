"""All experiments by one command."""

import json

import pytest
from typer.testing import CliRunner

from nearcast.cli.experiment import app


@pytest.mark.slow
def test_all_experiments_are_one_array() -> None:
    done = CliRunner().invoke(app, ["all", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    names = [each["experiment"] for each in json.loads(done.stdout)]
    assert names == ["agent", "fulcrum", "radiator", "steam"]


def test_each_experiment_has_a_command_of_its_own_and_all_together() -> None:
    done = CliRunner().invoke(app, ["--help"])
    for name in ("agent", "fulcrum", "radiator", "steam", "all"):
        assert f" {name} " in done.stdout
