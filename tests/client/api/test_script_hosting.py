"""Scripts at their node: what stays there, what comes of it, and who goes on without it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import nearcast as nc
from nearcast.broker.server import Server
from nearcast.client.api.script_hosting import ScriptHosting
from nearcast.client.errors import RejectedError
from nearcast.client.receive.received import Received
from nearcast.client.receive.streams import Stream
from nearcast.wire.mqtt import ReasonCode
from tests.client.api.nodes import node
from tests.client.servers import nearcast, run

SPEEDING = """
def on_event(event, state):
    fast = event["attributes"]["kmh"] > 50
    state["fast"] = state.get("fast", 0) + 1 if fast else 0
    state["heard"] = state.get("heard", 0) + 1
    if state["fast"] == 3:
        publish("speeding", {"kmh": event["attributes"]["kmh"], "heard": state["heard"]})

def run(args, state):
    publish("count", {"heard": state.get("heard", 0)})
"""
CONTEXT = """
def on_event(event, state):
    publish("battery", context("car"))
"""


def lose(server: Server, client_id: str) -> None:
    connection = server.hub.sessions[client_id].connection
    if connection is not None:
        server.hub.close(connection, ReasonCode.SERVER_BUSY, "the test wants it so")
        server.soon()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def heard(stream: Stream[Received]) -> tuple[str | None, object]:
    async with asyncio.timeout(20):
        event = await anext(stream)
    return event.publisher, event.attributes


def test_what_is_fed_stays_at_the_node_and_what_the_script_publishes_does_not(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "police") as police,
            node(server, "road") as road,
            node(server, "car") as car,
        ):
            await car.add_script("speeding", SPEEDING, events=["car/speed"])
            async with (
                police.subscribe("car/#") as raw,
                police.subscribe("speeding") as alarms,
                police.subscribe("count") as counts,
                car.host_scripts() as here,
            ):
                assert here.ids == ("speeding",)
                for kmh in (60, 40, 55, 58, 61, 62):
                    assert await here.feed("car/speed", {"kmh": kmh}) == 1
                assert await here.feed("car/fuel", {"litres": 3}) == 0
                assert await heard(alarms) == ("car~speeding", {"kmh": 61, "heard": 5})
                assert here.state("speeding") == {"fast": 4, "heard": 6}
                # Events from elsewhere come to it through the broker, in one order with these.
                await road.publish("car/speed", {"kmh": 10})
                assert (await heard(raw))[1] == {"kmh": 10}
                await car.execute_script("speeding")
                assert await heard(counts) == ("car~speeding", {"heard": 7})
                assert not raw.take_all()
            # The broker goes on with the state that the node left.
            async with police.subscribe("count") as counts:
                await car.execute_script("speeding")
                assert await heard(counts) == ("car~speeding", {"heard": 7})

    run(work())


def test_the_broker_runs_a_script_while_its_node_is_away(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "police") as police,
            police.subscribe("count") as counts,
        ):
            async with node(server, "car") as car:
                await car.add_script("speeding", SPEEDING, events=["car/speed"])
                async with car.host_scripts() as here:
                    await here.feed("car/speed", {"kmh": 1})
            await police.publish("car/speed", {"kmh": 2})
            async with node(server, "car") as car:
                await car.execute_script("speeding")
                assert await heard(counts) == ("car~speeding", {"heard": 2})
                async with car.host_scripts() as here:
                    await here.feed("car/speed", {"kmh": 3})
                    assert here.state("speeding") == {"fast": 0, "heard": 3}

    run(work())


def test_a_lost_connection_begins_anew_and_nothing_is_applied_twice(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "police") as police,
            node(server, "car") as car,
            police.subscribe("count") as counts,
        ):
            await car.add_script("speeding", SPEEDING, events=["car/speed"])
            async with car.host_scripts() as here:
                for kmh in range(5):
                    await police.publish("car/speed", {"kmh": kmh})
                lose(server, "car")
                await car.execute_script("speeding")
                assert await heard(counts) == ("car~speeding", {"heard": 5})
                assert here.ids == ("speeding",)

    run(work())


def test_what_fails_is_told_and_the_script_stops_in_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "car") as car,
            car.errors() as errors,
        ):
            source = "def on_event(event, state):\n    publish('x', event['attributes']['a'] + 1)"
            await car.add_script("sum", source, events=["in"])
            async with car.host_scripts() as here:
                for _ in range(3):
                    assert await here.feed("in", {"a": "text"}) == 1
                async with asyncio.timeout(20):
                    problems = [(await anext(errors)).error for _ in range(4)]
                assert all("on_event failed" in each for each in problems[:3])
                assert "stopped after 3 failures" in problems[3]
                while await here.feed("in", {"a": 1}):
                    await asyncio.sleep(0.01)
                (listed,) = await car.scripts()
                assert listed.state == "stopped"

    run(work())


def test_an_endless_script_is_stopped_at_the_node_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "car") as car,
            car.errors() as errors,
        ):
            source = "def on_event(event, state):\n    [x for x in range(10000000)]"
            await car.add_script("endless", source, events=["in"])
            async with car.host_scripts() as here, asyncio.timeout(30):
                await here.feed("in", {})
                assert "on_event failed" in (await anext(errors)).error

    run(work())


def test_scripts_of_others_and_scripts_about_contexts_stay_at_the_broker(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "car") as car,
            car.subscribe("battery") as levels,
        ):
            await car.context(battery=80)
            await car.add_script("battery", CONTEXT, events=["ask"])
            async with car.host_scripts() as here:
                assert here.ids == ()
                await car.publish("ask", {})
                assert await heard(levels) == ("car~battery", {"battery": 80})
                await car.add_script("speeding", SPEEDING, events=["car/speed"])
                await until(lambda: here.ids == ("speeding",))
                await car.evict_script("speeding")
                await until(lambda: here.ids == ())

    run(work())


def test_the_latest_part_hosts_and_the_other_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "car") as car,
            nc.connect(f"mqtt://127.0.0.1:{server.port}", node="car", part="spare") as spare,
        ):
            await car.add_script("speeding", SPEEDING, events=["car/speed"])
            async with car.host_scripts() as first, spare.host_scripts() as second:
                await second.feed("car/speed", {"kmh": 1})
                await until(lambda: first.ids == ())
                with pytest.raises(RejectedError, match="another part"):
                    await first.feed("car/speed", {"kmh": 1})

    run(work())


@pytest.mark.parametrize("seed", range(2))
def test_every_event_is_heard_once_whoever_runs_the_script(seed: int, tmp_path: Path) -> None:
    """The plain reference is a count of what was fed and published."""

    async def work() -> None:
        chance = Random(seed)
        async with (
            nearcast(tmp_path) as server,
            node(server, "road") as road,
            node(server, "car") as car,
            road.subscribe("count") as counts,
        ):
            source = "def on_event(event, state):\n    state['n'] = state.get('n', 0) + 1\n"
            source += "    publish('count', {'n': state['n']})"
            await car.add_script("count", source, events=["in"])
            certain, uncertain = 0, 0
            hosting = car.host_scripts()
            here: ScriptHosting | None = await hosting.__aenter__()
            for _ in range(60):
                what = chance.random()
                if what < 0.45:
                    await road.publish("in", {})
                    certain += 1
                elif what < 0.8 and here is not None:
                    try:
                        certain += await here.feed("in", {})
                    except RejectedError:
                        # It may have been applied, and the answer lost.
                        uncertain += 1
                elif what < 0.87:
                    lose(server, "car")
                elif what < 0.93:
                    await car.edit_script("count")
                elif here is not None:
                    await hosting.__aexit__(None, None, None)
                    here = None
                else:
                    hosting = car.host_scripts()
                    here = await hosting.__aenter__()
            if here is not None:
                await hosting.__aexit__(None, None, None)
            numbers: list[object] = []
            async with asyncio.timeout(30):
                while len(numbers) < certain:
                    numbers.append((await anext(counts)).attributes["n"])
            await asyncio.sleep(0.3)
            numbers += [each.attributes["n"] for each in counts.take_all()]
            assert numbers == list(range(1, len(numbers) + 1))
            assert certain <= len(numbers) <= certain + uncertain

    run(work())
