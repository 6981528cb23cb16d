"""The demo: lines where nobody watches, a picture where somebody does, and a clean end."""

import json
import sys
from io import BytesIO, StringIO, TextIOWrapper

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from nearcast.cli.demo import demo
from nearcast.cli.demo.city_drawing import LEGEND, LOOKS
from nearcast.simulation.movement.city_life import CityLife
from nearcast.simulation.movement.city_run import CityRun
from tests.support.terminal import Terminal

app = typer.Typer()
app.command()(demo.demo)


def invoke(*arguments: str) -> str:
    ran = CliRunner().invoke(app, list(arguments))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def shown(width: int, height: int, seconds: int = 70) -> list[str]:
    show = demo.Show(CityRun(CityLife()))
    for _ in range(seconds):
        show.step()
    file = StringIO()
    console = Console(
        file=file,
        width=width,
        height=height,
        force_terminal=True,
        color_system=None,
        legacy_windows=False,
    )
    console.print(show.screen(width, height, seconds + 0.5))
    return file.getvalue().splitlines()


def test_without_a_terminal_every_event_that_reached_someone_is_a_line() -> None:
    *lines, last = invoke("--seconds", "30").splitlines()
    for subject in ("emergency/vehicle", "bus/position", "offer/coffee", "friend/near", "hazard/"):
        assert any(f" {subject}" in line for line in lines)
    assert last.startswith("00:30: ")
    assert "deliveries to 60 nodes" in last


def test_the_same_seed_prints_the_same_lines_and_another_does_not() -> None:
    assert invoke() == invoke("--seconds", "10", "--seed", "1")
    assert invoke() != invoke("--seed", "2")


def test_json_is_one_object_of_counts() -> None:
    counts = json.loads(invoke("--json", "--seconds", "20", "--nodes", "30", "--seed", "5"))
    assert (counts["seconds"], counts["nodes"], counts["seed"]) == (20, 30, 5)
    assert counts["events"] > 0
    assert counts["deliveries"] > 0


@pytest.mark.parametrize("arguments", [["--nodes", "3"], ["--speed", "0"], ["--seconds", "-1"]])
def test_what_cannot_be_shown_is_exit_code_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (160, 50)])
def test_the_picture_fills_the_terminal_and_no_more(width: int, height: int) -> None:
    lines = shown(width, height)
    assert len(lines) == height
    assert {len(line) for line in lines} == {width}
    text = "\n".join(lines)
    for part in ("a small city 01:10", "Harbour", "statistics", "who got what", "engine step"):
        assert part in text
    assert "why not " in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50)])
def test_the_legend_explains_every_sign(width: int, height: int) -> None:
    text = "\n".join(shown(width, height))
    for look, meaning in LEGEND.items():
        assert f"{LOOKS[look.partition('|')[0]][0]} {meaning}" in text
    # What is left is letters, or another state of what is there.
    unexplained = {"empty", "up", "crossing", "fading mark", "visitor", "absent visitor"}
    assert {look.partition("|")[0] for look in LEGEND} | unexplained == set(LOOKS)


@pytest.mark.parametrize(("width", "height"), [(30, 8), (1, 1), (40, 100), (300, 10)])
def test_a_terminal_of_an_odd_size_is_no_error(width: int, height: int) -> None:
    assert len(shown(width, height, seconds=10)) >= height


def test_where_there_are_only_ascii_characters_the_picture_has_only_those() -> None:
    show = demo.Show(CityRun(CityLife()), ascii_only=True)
    for _ in range(30):
        show.step()
    file = TextIOWrapper(BytesIO(), encoding="ascii")
    console = Console(file=file, width=80, height=24, force_terminal=True, color_system=None)
    assert console.options.ascii_only
    console.print(show.screen(80, 24, 30.0))
    file.flush()


@pytest.mark.parametrize("ending", ["--seconds", "Ctrl-C"])
def test_in_a_terminal_it_ends_cleanly(ending: str) -> None:
    command = [sys.executable, "-m", "nearcast", "demo", "--speed", "50"]
    if ending == "--seconds":
        command += ["--seconds", "0.5"]
    with Terminal(command) as running:
        running.wait_for("who got what")
        if ending == "Ctrl-C":
            running.press_ctrl_c()
        assert running.end() == 0
        written = running.written
    assert b"Traceback" not in written
    assert b"deliveries to 60 nodes" in written
    assert written.count(b"\x1b[?1049h") == written.count(b"\x1b[?1049l") == 1
