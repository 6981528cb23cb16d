"""`nearcast nodes` against a real broker."""

import json

from typer.testing import CliRunner

from nearcast.cli import app
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker


def nodes(broker: RunningBroker, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["nodes", "--port", str(broker.port), *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_who_is_there_in_lines_and_in_json(broker: RunningBroker) -> None:
    assert nodes(broker) == ""
    assert nodes(broker, "--json") == "[]\n"
    ann, ben = Talker(broker, "ann"), Talker(broker, "ben")
    ann.moves(53.35, -6.26)
    ann.is_now(role="medic")
    ben.moves(53.36, -6.26)
    assert nodes(broker) == ('ann online 53.35,-6.26 {"role":"medic"}\nben online 53.36,-6.26 {}\n')
    assert nodes(broker, "--in", "circle:53.35,-6.26,100", "--where", "role = 'medic'") == (
        'ann online 53.35,-6.26 {"role":"medic"}\n'
    )
    assert nodes(broker, "--near", "ann") == "ben online 53.36,-6.26 1,113 m {}\n"
    (told,) = json.loads(nodes(broker, "--near", "ann", "--most", "1", "--json"))
    assert told["position"] == [-6.26, 53.36]
    assert 1_112 < told["distance"] < 1_114
    assert told["time"].endswith("Z")


def test_what_cannot_be_meant_is_told(broker: RunningBroker) -> None:
    done = CliRunner().invoke(app, ["nodes", "--port", str(broker.port), "--where", "a ="])
    assert done.exit_code != 0
