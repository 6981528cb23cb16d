"""`nearcast config`: what is printed can be read back, and mistakes are one message."""

import json
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from nearcast.broker.config.configuration import load
from nearcast.broker.config.setting_catalog import SECTIONS, SETTINGS
from nearcast.broker.config.settings import Settings
from nearcast.cli import app
from nearcast.cli.broker.config import default_toml, descriptions, toml_value

pytestmark = pytest.mark.usefixtures("empty_directory")

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def run(*arguments: str, **variables: str) -> str:
    result = CliRunner().invoke(app, ["config", *arguments], env=variables)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str, **variables: str) -> str:
    result = CliRunner().invoke(app, ["config", *arguments], env=variables)
    assert result.exit_code == 2
    assert result.stdout == ""
    return result.stderr


def test_the_default_file_gives_exactly_the_defaults() -> None:
    Path("nearcast.toml").write_text(run("default"), encoding="utf-8")
    assert load(None, {}, {}) == Settings()
    assert load(Path("nearcast.toml"), {}, {}) == Settings()


def test_the_default_file_has_every_setting_and_says_what_it_is() -> None:
    text = run("default")
    document = tomllib.loads(text)
    assert {f"{section}.{name}" for section, table in document.items() for name in table} == {
        key for key, setting in SETTINGS.items() if setting.name
    }
    assert set(document) == set(SECTIONS)
    lines = text.splitlines()
    for before, line in pairwise(lines):
        if not line.startswith("#") and line:
            assert before.startswith("# "), line


def test_every_setting_is_described() -> None:
    assert set(descriptions()) == {*SETTINGS, *SECTIONS}
    assert all(descriptions().values())


def test_the_reference_shows_the_default_file() -> None:
    shown = f"```toml\n{default_toml()}```\n" in REFERENCE.read_text(encoding="utf-8")
    assert shown, f"put what `nearcast config default` prints into {REFERENCE}"


def test_show_tells_what_each_value_came_from() -> None:
    Path("nearcast.toml").write_text('[broker]\nname = "dublin"\n')
    rows = {
        row["setting"]: row
        for row in json.loads(run("show", "--json", NEARCAST_RECORD_EXCLUDE="a/#,b"))
    }
    assert list(rows) == list(SETTINGS)
    assert rows["broker.name"] == {
        "setting": "broker.name",
        "value": "dublin",
        "from": "file",
        "where": "nearcast.toml, line 2",
    }
    assert rows["record.exclude"] == {
        "setting": "record.exclude",
        "value": ["a/#", "b"],
        "from": "variable",
        "where": "NEARCAST_RECORD_EXCLUDE",
    }
    assert rows["listen.mqtt_port"]["from"] == "default"


def test_show_is_a_table_for_people() -> None:
    Path("other.toml").write_text('[doors]\njwt_issuer = "[red]us[/red]"\n')
    lines = run("show", "--config", "other.toml").splitlines()
    (issuer,) = [line for line in lines if "doors.jwt_issuer" in line]
    assert issuer.split() == [
        "*", "doors.jwt_issuer", '"[red]us[/red]"', "other.toml,", "line", "2",
    ]  # fmt: skip
    assert lines[-1] == "Read with other.toml; * is not the default."


def test_mistakes_are_told_on_standard_error_with_exit_code_2() -> None:
    assert "NEARCAST_LISTEN_WS_PORT: listen.ws_port is 'x'" in refused(
        "show", NEARCAST_LISTEN_WS_PORT="x"
    )
    assert "none.toml cannot be read" in refused("show", "--config", "none.toml")
    Path("bad.toml").write_text("[listen]\nmqtt_prt = 1\n")
    assert refused("check", "bad.toml").startswith("bad.toml, line 2: there is no listen.mqtt_prt")


def test_check_looks_at_the_file_alone_and_at_the_files_it_names() -> None:
    Path("etc").mkdir()
    file = Path("etc/nearcast.toml")
    file.write_text('[broker]\ndata = "new"\n[doors]\nrules = "rules.toml"\n')
    assert refused("check", str(file)) == (
        "etc/nearcast.toml, line 4: doors.rules names etc/rules.toml, which is not there\n"
    )
    Path("etc/rules.toml").touch()
    told = run("check", str(file), NEARCAST_LISTEN_WS_PORT="x")
    assert told == f"etc/nearcast.toml is right: 2 of {len(SETTINGS)} settings are given.\n"


FILES = [key for key, each in SETTINGS.items() if each.marked("path") and key != "broker.data"]


@pytest.mark.parametrize("key", FILES)
def test_check_notices_every_file_that_is_not_there(key: str) -> None:
    Path("etc").mkdir()
    Path("etc/other").touch()
    section, name = key.split(".")
    together = {"certificate": "key = 'other'\n", "key": "certificate = 'other'\n"}
    file = Path("etc/nearcast.toml")
    file.write_text(f"[{section}]\n{name} = 'some'\n{together.get(name, '')}")
    # One of that name where the command runs is not meant.
    Path("some").touch()
    assert f"line 2: {key} names etc/some, which is not there" in refused("check", str(file))
    Path("etc/some").touch()
    run("check", str(file))


VALUES = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="ascii")), inner),
    max_leaves=8,
)


@given(value=VALUES)
def test_values_are_written_as_toml_reads_them(value: object) -> None:
    assert tomllib.loads(f"value = {toml_value(value)}\n") == {"value": value}
