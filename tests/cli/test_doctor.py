"""The doctor: what is required and missing fails, what is optional is advice."""

import json
import socket
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nearcast.cli import doctor, extras

app = typer.Typer()
app.command()(doctor.doctor)


def test_a_development_environment_is_healthy() -> None:
    ran = CliRunner().invoke(app, ["--json"])
    assert ran.exit_code == 0
    states = {check["what"]: check["state"] for check in json.loads(ran.stdout)}
    assert states["Python"] == states["numba"] == "ok"
    assert {"kernels", "pytest", "duckdb", "redis-server", "postgres"} <= states.keys()
    assert {"pyspark", "pandas", "Java"} <= states.keys()


def test_the_table_says_the_same_to_people() -> None:
    ran = CliRunner().invoke(app, [])
    assert ran.exit_code == 0
    assert "numba" in ran.stdout
    assert "what to do" in ran.stdout


def test_something_required_that_is_missing_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (99, 0))
    assert CliRunner().invoke(app, []).exit_code == 1


def test_a_package_is_missing_optional_or_not_as_tested() -> None:
    assert doctor.check_package("no-such-thing", {}).state == "missing"
    assert doctor.check_package("no-such-thing", {}, "broker").state == "optional"
    other = doctor.check_package("numba", {"numba": "0.0.1"})
    assert (other.state, other.advice) == ("optional", "tested with 0.0.1: make setup")


def test_without_java_the_pipeline_is_said_not_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = doctor.check_java()
    assert found.state == "optional"
    assert "the pipeline does not run" in found.advice
    assert "install Java 17" in found.advice


def test_tested_versions_are_found_whatever_the_spelling(tmp_path: Path) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("# pins\nTyping_Extensions==4.16.0\n\n")
    assert doctor.tested_versions(constraints) == {"typing-extensions": "4.16.0"}
    assert doctor.tested_versions(tmp_path / "none.txt") == {}


def test_every_requirement_is_pinned() -> None:
    pins = doctor.tested_versions(doctor.CONSTRAINTS)
    assert set().union(*extras.packages().values()) <= pins.keys()


def states(*arguments: str) -> dict[str, dict[str, str]]:
    ran = CliRunner().invoke(app, ["--json", *arguments])
    return {check["what"]: check for check in json.loads(ran.stdout)}


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[limits]\nqueud = 5\n")
    found = states("--config", str(broken))
    assert found["configuration"]["state"] == "missing"
    assert "queued" in found["configuration"]["advice"]


def test_a_place_for_the_broker_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert states("--data", str(tmp_path / "data"))["data directory"]["state"] == "ok"
    assert states("--data", str(tmp_path / "file" / "x"))["data directory"]["state"] == "missing"


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = tmp_path / "nearcast.toml"
        config.write_text(f"[listen]\nmqtt_port = {taken.getsockname()[1]}\n")
        assert states("--config", str(config))["MQTT port"]["state"] == "optional"
