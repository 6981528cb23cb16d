"""`nearcast policy` on a real broker: all of a file or nothing, listed, shown and removed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nearcast.cli import app
from tests.support.paper_files import LISTING_6_1, LISTING_7_1, LISTING_7_6

EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"
MATRIX = {"rows": [[3, 2, 1], [2, 1, 1], [1, 1, 1]]}

MODULE = '[awareness.default.modules.battery]\nattribute = "battery"\n'


def call(port: int, *arguments: str) -> Result:
    done = CliRunner().invoke(app, ["policy", *arguments, "--port", str(port)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def listed(port: int) -> dict[tuple[str, str], object]:
    found = json.loads(call(port, "list", "--json").stdout)
    return {(each["kind"], each["name"]): each["document"] for each in found}


@pytest.fixture(autouse=True)
def _nothing_set(port: int) -> None:
    for kind, name in listed(port):
        assert call(port, "remove", kind, name).exit_code == 0


def written(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_the_papers_files_are_loaded_listed_shown_and_removed(port: int) -> None:
    for name in ("flatscape.xml", "nearby-units.xml", "thin-link.toml"):
        done = call(port, "load", str(EXAMPLES / name))
        assert done.exit_code == 0, done.output
    for name in ("flatscape-roles.xml", "flatscape-servers.xml"):
        done = call(port, "load", str(EXAMPLES / name), "--name", "flatscape", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["loaded"][0]["name"] == "flatscape"
    assert call(port, "list").stdout.splitlines() == [
        "awareness/default", "matrix/default", "matrix/team leader", "roles/flatscape",
        "servers/flatscape", "template/flatscape", "template/nearby-units",
    ]  # fmt: skip
    assert call(port, "list", "matrix").stdout.splitlines() == [
        "matrix/default", "matrix/team leader",
    ]  # fmt: skip
    shown = call(port, "show", "template", "flatscape").stdout
    assert shown.strip() == (EXAMPLES / "flatscape.xml").read_text().strip()
    assert json.loads(call(port, "show", "matrix", "default", "--json").stdout) == {
        "kind": "matrix", "name": "default", "document": MATRIX,
    }  # fmt: skip
    modules = json.loads(call(port, "show", "awareness", "default").stdout)["modules"]
    assert modules["battery"]["intervals"] == [[None, 20], [20, 50], [50, None]]
    assert call(port, "remove", "matrix", "team leader").exit_code == 0
    for verb in ("show", "remove"):
        gone = call(port, verb, "matrix", "team leader")
        assert gone.exit_code == 1
        assert "no policy matrix/team leader" in gone.stderr


def test_a_file_may_have_roles_before_their_template(port: int, tmp_path: Path) -> None:
    first = {
        "roles": {"t": {"roles": {"medic": {"rest": [1, 0.5]}}}},
        "template": {"t": {"where": "a = 1 OR b = 2"}},
    }
    assert call(port, "load", written(tmp_path / "p.json", first)).exit_code == 0
    # Neither fits the other one's old version.
    second: dict[str, dict[str, object]] = {
        "roles": {"t": {"roles": {"medic": {"rest": [1, 0.5, 0]}}}},
        "template": {"t": {"where": "a = 1 OR b = 2 OR c = 3"}},
    }
    assert call(port, "load", written(tmp_path / "p.json", second)).exit_code == 0
    expected = {(kind, name): each for kind in second for name, each in second[kind].items()}
    assert listed(port) == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.json", {"matrix": {"default": MATRIX, "x": {"rows": [[1, 2]] * 2, "y": 1}}}, "'y'"),
        ("p.json", {"matrix": {"default": MATRIX, "x": {"rows": [[1, 9], [1, 1]]}}}, "matrix/x"),
        ("p.json", {"matrix": {"default": MATRIX}, "detail": {"x": {}}}, "the kinds are template"),
        ("p.json", {"matrix": MATRIX}, "matrix/rows: a document is an object"),
        ("p.json", {"matrix": []}, "KIND -> NAME -> document"),
        ("p.json", {}, "there is no policy"),
        ("p.json", '{"matrix":\n {"default" 3}}', "Line 2"),
        ("p.toml", "[matrix.default]\nrows = ]", "line 2"),
        ("p.toml", "[matrix.default]\nrows = [[inf]]", "a priority is"),
        (
            "p.toml",
            "[matrix.default]\nrows = [[3, 2, 1], [2, 1], [1, 1, 1]]",
            "Row 2 of the matrix",
        ),
        ("p.toml", f"{MODULE}intervals = [[-inf, 20], [10, 50], [50, inf]]", "overlap"),
        ("p.toml", f"{MODULE}intervals = [[-inf, 20], [30, 50], [50, inf]]", "gap"),
        ("p.toml", '[roles.t.roles.a]\nb = [nan]\n[template.t]\nwhere = "a = 1"', "roles/t"),
        ("p.toml", '[roles.t.roles.a]\nb = [1, 1]\n[template.t]\nwhere = "a = 1"', "2 values"),
        ("p.xml", LISTING_6_1, "Line 17: The LOGICAL_OPERATOR opened on line 2 is still open"),
        ("p.xml", LISTING_7_6, "Line 22: No element of this name is open"),
        ("p.xml", LISTING_7_1, "needs --name NAME"),
        ("p.xml", "<MATRIX/>", "Line 1: The root of a policy is SUBSCRIPTION, RELEVANCE"),
        ("p.xml", '<SUBSCRIPTION>\n<ATOM name="a" operator="~" value="1"/></SUBSCRIPTION>', "ne 2"),
    ],
)
def test_a_wrong_file_changes_nothing(
    port: int, tmp_path: Path, name: str, content: object, said: str
) -> None:
    done = call(port, "load", written(tmp_path / name, content))
    assert done.exit_code == 1
    assert said in done.stderr
    assert listed(port) == {}


def test_what_the_broker_refuses_is_taken_back_whole(port: int, tmp_path: Path) -> None:
    before = {
        "matrix": {"default": MATRIX},
        "template": {"t": {"where": "a = 1 OR b = 2"}},
        "roles": {"t": {"roles": {"medic": {"rest": [1, 0.5]}}}},
    }
    assert call(port, "load", written(tmp_path / "p.json", before)).exit_code == 0
    in_force = listed(port)
    refused = {
        "matrix": {"default": {"rows": [[1, 1, 1]] * 3}, "new": MATRIX},
        "template": {"t": {"where": "c = 3"}, "u": {"where": "c = 3"}},
        "roles": {
            "t": {"roles": {"medic": {"rest": [1]}}},
            "u": {"roles": {"medic": {"rest": "levels:9"}}},
        },
    }
    done = call(port, "load", written(tmp_path / "q.json", refused))
    assert done.exit_code == 1
    assert "nothing was loaded; the broker refused roles/u" in done.stderr
    assert "whole number from 0 to 3" in done.stderr
    assert listed(port) == in_force


def test_the_papers_servers_do_not_fit_its_template(port: int, tmp_path: Path) -> None:
    assert call(port, "load", str(EXAMPLES / "flatscape.xml")).exit_code == 0
    servers = written(tmp_path / "servers.xml", LISTING_7_1)
    done = call(port, "load", servers, "--name", "flatscape")
    assert done.exit_code == 1
    assert "server '1' (line 2)" in done.stderr
    assert "9 values, and the filter has 8 atoms" in done.stderr


def test_a_name_is_for_xml_alone(port: int, tmp_path: Path) -> None:
    file = written(tmp_path / "p.json", {"matrix": {"default": MATRIX}})
    done = call(port, "load", file, "--name", "x")
    assert done.exit_code == 1
    assert "says the names itself" in done.stderr
    atom = '<SUBSCRIPTION><ATOM name="a" operator="=" value="1"/></SUBSCRIPTION>'
    done = call(port, "load", written(tmp_path / "p.xml", atom))
    assert "--name NAME or a filename" in done.stderr
