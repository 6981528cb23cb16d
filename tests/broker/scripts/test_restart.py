"""Scripts, their states and what waits for them outlive the broker; forgetting ends them."""

import json
from pathlib import Path

from nearcast.wire.mqtt import ReasonCode
from tests.support.clients.script_author import COUNTER, Author
from tests.support.running_broker import RunningBroker

OK = ReasonCode.SUCCESS


def test_scripts_and_their_states_survive_a_restart(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    author = Author(broker, "car")
    author.subscribes("counted", "ran", "$me/scripts")
    author.adds(COUNTER, "a", run_on_load=True)
    assert author.hears("ran") == {"args": None, "n": None}
    author.says("a")
    assert author.hears("counted") == {"n": 1, "of": "a"}
    broker.validate()
    broker.stop()

    broker = RunningBroker(data=tmp_path)
    author = Author(broker, "car")
    author.subscribes("counted", "ran", "$me/scripts")
    (listed,) = json.loads(author.message("$me/scripts").payload)
    assert listed["state"] == "runs"
    author.says("a")
    assert author.hears("counted") == {"n": 2, "of": "a"}
    author.executes()
    assert author.hears("ran") == {"args": None, "n": 2}, "it does not run on load again"
    assert author.client.payloads() == []
    author.edits()
    author.says("a")
    assert author.hears("counted") == {"n": 3, "of": "a"}
    broker.validate()
    broker.stop()


def test_what_waits_for_a_script_is_read_after_a_restart(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    author = Author(broker, "car")
    author.adds(COUNTER, "a")

    async def take_executor() -> None:
        broker.server.hub.scripts.runner.executor = None

    broker.run(take_executor())
    for _ in range(3):
        author.says("a")
    author.executes()
    broker.stop()

    broker = RunningBroker(data=tmp_path)
    author = Author(broker, "car")
    author.subscribes("done")
    author.edits(source=COUNTER + '\ndef run(args, state):\n    publish("done", state)')
    author.executes()
    while author.hears("done") != {"n": 3}:
        pass
    broker.validate()
    broker.stop()


def test_forgetting_a_node_ends_its_scripts_and_those_it_sent(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    author = Author(broker, "car")
    author.adds(COUNTER, "a")
    found = broker.run(broker.server.forget("car"))
    assert found["sessions"] == 2
    assert len(broker.server.hub.scripts.book) == 0
    broker.validate()
    broker.stop()

    broker = RunningBroker(data=tmp_path)
    assert len(broker.server.hub.scripts.book) == 0
    assert Author(broker, "car").adds(COUNTER, "a") is OK
    broker.stop()
