"""`nearcast context`, `place`, and what `pub` and `sub` say of the situation, on a real broker."""

import json
import queue
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nearcast.cli import app
from tests.cli.programs import Subscriber

DUBLIN = "53.3498,-6.2603"
SQUARE = [[[-7, 53], [-6, 53], [-6, 54], [-7, 54], [-7, 53]]]


def call(verb: str, port: int, *arguments: str) -> Result:
    done = CliRunner().invoke(app, [verb, *arguments, "--port", str(port)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.parametrize("mqtt", ["4", "5"])
def test_what_is_said_of_a_node_is_printed(port: int, mqtt: str) -> None:
    name = f"car {mqtt}"
    said = call("context", port, name, "--at", DUBLIN, "--set", "speed=30", "--set", "kind=big car",
                "--set", "tags=[1]", "--mqtt", mqtt, "--json")  # fmt: skip
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout) == {
        "node": name,
        "position": [-6.2603, 53.3498],
        "context": {"speed": 30, "kind": "big car", "tags": [1]},
        "online": True,
    }
    read = call("context", port, name, "--mqtt", mqtt)
    line = f'{name} offline 53.3498,-6.2603 {{"speed":30,"kind":"big car","tags":[1]}}\n'
    assert read.stdout == line
    removed = call("context", port, name, "--set", "kind=null", "--mqtt", mqtt, "--json")
    assert json.loads(removed.stdout)["context"] == {"speed": 30, "tags": [1]}


def test_a_part_has_the_context_of_its_node(port: int) -> None:
    said = call("context", port, "tram~horn", "--at", DUBLIN, "--json")
    assert json.loads(said.stdout)["node"] == "tram"
    assert json.loads(said.stdout)["position"] == [-6.2603, 53.3498]


def test_changes_of_a_node_are_followed(port: int) -> None:
    call("context", port, "tram", "--at", DUBLIN)
    shown = call("context", port, "tram", "--follow", "--count", "1", "--json")
    assert json.loads(shown.stdout)["node"] == "tram"


def test_what_cannot_be_meant_of_a_node_is_told(port: int) -> None:
    assert call("context", port, "x", "--set", "speed").exit_code == 2
    refused = call("context", port, "x", "--set", "rank=1")
    assert refused.exit_code == 1
    assert "rank" in refused.stderr


def test_places_are_loaded_listed_and_removed(port: int, tmp_path: Path) -> None:
    polygon = {"type": "Polygon", "coordinates": SQUARE}
    features: list[dict[str, object]] = [
        {"type": "Feature", "properties": {"name": "Dublin", "kind": "city"}, "geometry": polygon},
        {"type": "Feature", "properties": {"name": "Docks/North"}, "geometry": polygon},
        {"type": "Feature", "properties": {}, "geometry": polygon},
    ]
    file = tmp_path / "places.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    loaded = call("place", port, "load", str(file), "--kind", "district", "--json")
    assert loaded.exit_code == 1
    counts = json.loads(loaded.stdout)
    assert (counts["loaded"], len(counts["rejects"])) == (2, 1)
    listed = call("place", port, "list")
    assert sorted(listed.stdout.splitlines()) == ["city/Dublin", "district/Docks/North"]
    (shown,) = json.loads(call("place", port, "list", "city", "--json").stdout)
    assert shown["geometry"]["type"] == "Polygon"
    assert call("place", port, "remove", "district", "Docks/North").exit_code == 0
    assert call("place", port, "list").stdout == "city/Dublin\n"


def first_line(reader: Subscriber, publish: Callable[[], Result]) -> dict[str, object]:
    """Publish until the subscriber has subscribed and prints."""
    for number in range(100):
        done = publish()
        assert done.exit_code == 0, (number, done.output)
        try:
            found: dict[str, object] = json.loads(reader._lines.get(timeout=0.3))
        except queue.Empty:
            continue
        return found
    raise TimeoutError("nothing was printed")


def test_events_carry_where_and_when_and_subscriptions_say_which(port: int) -> None:
    reader = Subscriber(
        port, "traffic/#", "--where", "speed < 20", "--from", f"circle:{DUBLIN},500", "--json"
    )
    words = ("--qos", "1", "--time", "2026-11-15T12:00:00Z", "--event-id")

    numbers = iter(range(1000))

    def publish() -> Result:
        number = next(numbers)
        call("pub", port, "traffic/a", '{"speed": 80}', "--at", DUBLIN, *words, f"a{number}")
        call("pub", port, "traffic/a", '{"speed": 3}', "--at", "10,10", *words, f"b{number}")
        return call("pub", port, "traffic/a", '{"speed": 12}', "--at", DUBLIN, *words, f"c{number}")

    message = first_line(reader, publish)
    assert message["payload"] == '{"speed": 12}'
    properties = message["properties"]
    assert isinstance(properties, dict)
    told = dict(properties["user_properties"])
    assert told["nc-id"].startswith("c")
    assert told["nc-at"] == DUBLIN
    assert told["nc-time"].startswith("2026-11-15T12:00:00")
    assert told["nc-subscription"] == "traffic/#"
    assert reader.end(signal.SIGINT) == 0


@pytest.mark.parametrize("mqtt", ["4", "5"])
def test_a_named_subscription_can_put_what_is_known_round_the_message(port: int, mqtt: str) -> None:
    topic = f"named/{mqtt}"
    reader = Subscriber(
        port, topic, "--name", "n", "--envelope", "--where", "speed < 20", "--json", "--mqtt", mqtt
    )

    def publish() -> Result:
        return call(
            "pub", port, topic, '{"speed": 3}', "--at", DUBLIN, "--qos", "1", "--mqtt", mqtt
        )

    message = first_line(reader, publish)
    payload = message["payload"]
    assert isinstance(payload, str)
    envelope = json.loads(payload)
    assert envelope["payload"] == {"speed": 3}
    assert (envelope["at"], envelope["subscription"]) == (DUBLIN, ["n"])
    assert reader.end(signal.SIGINT) == 0


@pytest.mark.parametrize("mqtt", ["4", "5"])
def test_what_the_broker_refuses_is_told_with_its_reason(port: int, mqtt: str) -> None:
    deep = "/".join("x" * 200)
    refused = call("sub", port, deep, "--name", "n", "--where", "speed < 5", "--mqtt", mqtt)
    assert refused.exit_code == 1
    assert "128" in refused.stderr


@pytest.mark.parametrize("mqtt", ["4", "5"])
def test_a_filter_that_is_none_is_told_before_anything_is_asked(port: int, mqtt: str) -> None:
    refused = call("sub", port, "x", "--name", "n", "--where", "speed <", "--mqtt", mqtt)
    assert refused.exit_code == 2
    assert "speed <" in refused.stderr


MISTAKES = {
    "a filter in MQTT 3": ("x", "--where", "1 = 1", "--mqtt", "4"),
    "a name for two": ("x", "y", "--name", "n"),
    "an envelope without a name": ("x", "--envelope"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_asked_for_is_exit_code_2(mistake: str, port: int) -> None:
    assert call("sub", port, *MISTAKES[mistake]).exit_code == 2


def test_a_target_that_is_none_is_refused(port: int) -> None:
    refused = call("pub", port, "x", "y", "--to", "circle:nowhere")
    assert refused.exit_code == 2
    assert "circle:nowhere" in refused.stderr


@pytest.mark.parametrize("mqtt", ["4", "5"])
def test_who_can_match_nothing_is_told_on_stderr(port: int, mqtt: str) -> None:
    options = ("--from", "circle:me,500", "--mqtt", mqtt, *(("--name", "n") if mqtt == "4" else ()))
    nowhere = Subscriber(port, f"vain/{mqtt}", *options)
    assert nowhere.process.stderr is not None
    assert nowhere.process.stderr.readline().decode() == (
        "me has no position yet: nothing can match `from`; give --at or publish $me/position\n"
    )
    nowhere.end(signal.SIGINT)


def test_who_says_where_it_is_gets_what_happens_there(port: int) -> None:
    call("pub", port, "here", "far", "--at", "10,10", "--retain")
    there = ("--from", "circle:me,500", "--at", DUBLIN, "--count", "1")
    reader = Subscriber(port, "here", *there)
    call("pub", port, "here", "near", "--at", DUBLIN, "--retain")
    assert reader.line() == b"here near"
    assert reader.process.wait(60) == 0
    assert reader.process.stderr is not None
    assert reader.process.stderr.read() == b""
    reader.end(signal.SIGINT)


def test_values_in_double_quotes_are_named_on_stderr(port: int) -> None:
    call("pub", port, "quoted", '{"delay": 4}', "--retain")
    reader = Subscriber(port, "quoted", "--where", 'delay = "4"')
    assert reader.process.stderr is not None
    assert b"in double quotes is an attribute's name" in reader.process.stderr.readline()
    reader.end(signal.SIGINT)


def test_a_position_that_is_none_is_refused_before_anything_is_asked(port: int) -> None:
    done = call("sub", port, "a", "--at", "91,0")
    assert done.exit_code == 2
    assert "--at" in done.output


def test_a_number_of_seconds_is_finite(port: int) -> None:
    for text in ("inf", "1e999"):
        done = call("pub", port, "a", "x", "--valid", text)
        assert done.exit_code == 2
        assert "no number of seconds" in " ".join(done.output.split())


def test_to_remove_a_place_that_is_not_there_fails(port: int) -> None:
    done = call("place", port, "remove", "park", "nowhere")
    assert done.exit_code == 1
    assert done.output == "There is no place park/nowhere.\n"


def test_an_empty_list_is_json(port: int) -> None:
    assert json.loads(call("place", port, "list", "no-such-kind", "--json").stdout) == []


@pytest.mark.parametrize("mqtt", ["4", "5"])
def test_who_publishes_to_nobody_is_told_on_stderr(port: int, mqtt: str) -> None:
    done = call("pub", port, "alarm", "x", "--to", "circle:me,500", "--mqtt", mqtt)
    assert done.exit_code == 0
    assert done.stderr == "me has no position yet: `to` holds nobody\n"
    done = call("pub", port, "alarm", "x", "--to", "circle:1,2,500", "--mqtt", mqtt)
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_relationship_is_defined_watched_and_ended(port: int) -> None:
    for node, at in (("truck-1", "53.35,-6.26"), ("truck-2", "53.3501,-6.26")):
        call("context", port, node, "--at", at)
    convoy = ("convoy", "--members", "truck-1,truck-2")
    defined = call("relate", port, *convoy, "--within", "100")
    assert (defined.exit_code, defined.stdout) == (0, "")
    watched = call("relate", port, "convoy", "--watch", "--count", "1")
    assert watched.stdout == "near 11.1293 truck-1 truck-2\n"
    shown = call("relate", port, "convoy", "--watch", "--count", "1", "--json")
    state = json.loads(shown.stdout)
    assert (state["state"], state["members"]) == ("near", ["truck-1", "truck-2"])
    assert set(state) == {"state", "members", "distance", "time"}
    metres = ("own", "--members", "truck-1=5,truck-2=50", "--watch", "--count", "2")
    assert call("relate", port, *metres).stdout.splitlines() == [
        "apart 11.1293 by truck-1 truck-1 truck-2", "near 11.1293 by truck-2 truck-1 truck-2",
    ]  # fmt: skip
    for name in ("convoy", "own"):
        assert call("relate", port, name, "--end").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ((), 2, "--members"),
        (("--end", "--watch"), 2, "ended"),
        (("--members", "a=5,b"), 2, "NODE=METRES"),
        (("--members", "a,b", "--need", "most"), 2, "all, any or a number"),
        (("--members", "a,b"), 1, "within"),
        (("--members", "a", "--within", "5"), 1, "at least two members"),
        (("--members", "a,b", "--within", "5", "--where", "x >"), 1, "^"),
    ],
)
def test_what_is_no_relationship_is_told(
    port: int, arguments: tuple[str, ...], code: int, why: str
) -> None:
    done = call("relate", port, "wrong", *arguments)
    assert done.exit_code == code
    assert why in done.stderr
