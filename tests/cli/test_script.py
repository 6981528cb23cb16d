"""`nearcast script` and the client's scripts against a real broker."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nearcast as nc
from nearcast.cli import app
from tests.support.clients.script_author import COUNTER
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker


def script(broker: RunningBroker, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["script", *arguments, "--port", str(broker.port)])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_script_is_placed_run_listed_and_removed(broker: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "count.star"
    file.write_text(COUNTER)
    watcher = Talker(broker)
    watcher.client.subscribe("counted", "ran")
    wanted = '{"subject": "b", "where": "speed > 5"}'
    script(broker, "add", "count", str(file), "--node", "car", "--events", "a", "--events", wanted)
    watcher.says("a", b"{}")
    watcher.says("b", b'{"speed": 6}')
    assert script(broker, "list", "--node", "car").startswith("count runs from car~script-")
    (listed,) = json.loads(script(broker, "list", "--node", "car", "--json"))
    assert (listed["id"], listed["events"]) == ("count", ["a", json.loads(wanted)])
    script(broker, "execute", "count", '{"n": 5}', "--node", "car")
    script(broker, "edit", "count", "--node", "car", "--run")
    script(broker, "remove", "count", "--node", "car")
    assert script(broker, "list", "--node", "car") == ""


def test_what_cannot_be_placed_is_told(broker: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "bad.star"
    file.write_text("x = ")
    arguments = ["add", "bad", str(file), "--node", "car", "--port", str(broker.port)]
    done = CliRunner().invoke(app, ["script", *arguments])
    assert done.exit_code != 0
    assert script(broker, "list", "--node", "car") == ""


def test_a_client_places_scripts(broker: RunningBroker) -> None:
    async def work() -> None:
        async with nc.connect(f"mqtt://localhost:{broker.port}", node="van") as me:
            async with me.subscribe("counted") as events:
                await me.add_script("count", COUNTER, events=["a"])
                await me.publish("a", {"speed": 5})
                event = await anext(events)
                assert event.attributes == {"n": 1, "of": "a"}
                assert event.publisher == "van~count"
            (listed,) = await me.scripts()
            assert (listed.id, listed.sender, listed.state) == ("count", "van", "runs")
            await me.execute_script("count", {"n": 7})
            await me.edit_script("count", run_on_load=True)
            with pytest.raises(nc.RejectedError, match="already"):
                await me.add_script("count", COUNTER)
            await me.evict_script("count")
            with pytest.raises(nc.RejectedError, match="no script"):
                await me.remove_script("count")
            assert await me.scripts() == []

    asyncio.run(work())
