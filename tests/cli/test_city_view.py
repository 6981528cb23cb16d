"""The view fills a terminal of any size, and says how far the pipeline is."""

import time
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from msgspec.structs import replace
from rich.console import Console

from nearcast.cli.demo.city_drawing import LOOKS
from nearcast.cli.demo.city_scene import CityScene
from nearcast.cli.demo.city_view import SIGNS, CityView, ViewCaptions
from nearcast.cli.demo.pipeline_steps import PipelineProgress, Step
from nearcast.client.receive.received import Received
from nearcast.pipeline.jobs.status import QueryStatus, Status
from nearcast.simulation.movement.city_life import CityLife

SETTING = ViewCaptions(
    ["MQTT 127.0.0.1:1883", "WebSocket 127.0.0.1:8083", "http://127.0.0.1:8080/api/docs"],
    ["nearcast context you", "nearcast sub '#'", "nearcast pub hazard/ice {}"],
    "/tmp/nearcast-demo/demo.log",
)
STARTING = PipelineProgress(
    [Step("process", "done"), Step("queries", "now", (1, 3)), Step("first results", "to do")],
    None,
    0,
)
RUNNING = PipelineProgress(
    [Step("process", "done")],
    Status(time.time(), 1, [QueryStatus("tables", "running", batch_s=0.44, lag={"local": 1234})]),
    0,
)


def scene() -> CityScene:
    seen = CityScene(CityLife(30))
    for node, position in seen.life.positions(30.0).items():
        payload = f"{position.lat},{position.lon}".encode()
        seen.note_known(Received(subject=f"$node/{node}/position", payload=payload))
    seen.note_known(Received(subject="$node/you/position", payload=b"53.35,-6.26"))
    seen.note_known(Received(subject="$node/you/online", payload=b"true"))
    for number in range(40):
        event = Received(subject="bus/position", publisher="bus-7a", id=str(number))
        seen.note_received("ann", event)
        found = Received(
            subject="encounters/ann/ben",
            publisher="$pipeline",
            id=str(number),
            payload=b'{"a": "ann", "b": "ben", "state": "near", "distance_m": 12}',
        )
        seen.note_overheard(found)
    return seen


def shown(
    width: int,
    height: int,
    progress: PipelineProgress | None = STARTING,
    setting: ViewCaptions = SETTING,
) -> list[str]:
    view = CityView(scene(), setting, lambda: {"connections": 31.0}, lambda: progress)
    file = StringIO()
    console = Console(file=file, width=width, height=height, color_system=None)
    console.print(view.screen(width, height))
    return file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40), (200, 60)])
def test_all_of_it_fits_the_terminal(width: int, height: int) -> None:
    lines = shown(width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for part in (
        "a small living city", "MQTT 127.0.0.1:1883", "http://127.0.0.1:8080/api/docs", "Harbour",
        "@you", "clients", "visitors", "queries 1 of 3", "first results", "demo.log",
        "in another terminal", *SETTING.commands, "Ctrl-C", "bus/position", "encounter: ann",
    ):  # fmt: skip
        assert part in text
    for look, meaning in SIGNS.items():
        assert f"{LOOKS[look.partition('|')[0]][0]} {meaning}" in text


@pytest.mark.parametrize("width", [80, 120])
def test_many_encounters_do_not_hide_an_aggregate(width: int) -> None:
    seen = scene()
    people = Received(subject="spots", publisher="$pipeline", id="s", payload=b'{"people": 3}')
    seen.found.clear()
    for number in range(30):
        payload = f'{{"a": "ann", "b": "bus-{number}", "state": "apart"}}'.encode()
        encounter = Received(subject="encounters/x", publisher="$pipeline", payload=payload)
        seen.note_overheard(people if number == 3 else encounter)
    view = CityView(seen, SETTING, dict, lambda: STARTING)
    console = Console(file=StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(view.screen(width, 40))
    text = captured.get()
    assert "aggregate: spots" in text
    assert "ann and bus-29 are apart again" in text


@pytest.mark.parametrize(("width", "height"), [(30, 8), (1, 1), (40, 100), (300, 10), (80, 15)])
def test_a_terminal_of_an_odd_size_is_no_error(width: int, height: int) -> None:
    assert len(shown(width, height)) <= height


def test_a_pipeline_that_runs_is_told_in_figures() -> None:
    text = "\n".join(shown(80, 24, RUNNING))
    for part in ("slowest batch", "0.4 s", "1,234", "found: encounters"):
        assert part in text
    failing = replace(RUNNING, restarts=2)
    assert "started again 2 times" in "\n".join(shown(80, 24, failing))


def test_without_a_pipeline_it_says_why() -> None:
    setting = replace(SETTING, without_pipeline="Spark needs Java: install Java 17")
    text = "\n".join(shown(80, 24, None, setting))
    assert "no pipeline on Spark" in text
    assert "install Java 17" in text


def test_what_visitors_call_themselves_and_say_cannot_draw_over_it() -> None:
    seen = scene()
    name = "\x1b[2Jx\u4e16"
    at = Received(subject="$node/%1B[2Jx%E4%B8%96/position", payload=b"53.352,-6.262")
    seen.note_known(at)
    said = Received(subject="a/\x9b", publisher=name, id="x", payload=b'{"\\u001b[H": "\\u0007"}')
    seen.note_overheard(said)
    view = CityView(seen, SETTING, dict, lambda: STARTING)
    console = Console(file=StringIO(), width=120, height=40, color_system=None)
    with console.capture() as captured:
        console.print(view.screen(120, 40))
    text = captured.get()
    assert "?[2Jx?" in text
    assert "?[2Jx? (?[H=?)" in text
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_where_there_are_only_ascii_characters_it_has_only_those() -> None:
    view = CityView(scene(), SETTING, dict, lambda: STARTING)
    file = TextIOWrapper(BytesIO(), encoding="ascii")
    console = Console(file=file, width=80, height=24, color_system=None)
    assert console.options.ascii_only
    for size in ((80, 24), (120, 40), (20, 10)):
        console.print(view.screen(*size, ascii_only=True))
    file.flush()
