"""Streams of events on a real broker: who gets what, who waits for whom, and what a loss costs."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import nearcast as nc
from tests.client.api.nodes import DUBLIN, ended, node, texts, versions
from tests.client.servers import nearcast, run
from tests.support.mosquitto import Mosquitto


@versions
def test_one_copy_goes_to_every_stream_that_it_fits(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            server = await enter(nearcast(tmp_path))
            me, other = await enter(node(server, "a", version)), await enter(node(server, "b"))
            every = await enter(me.subscribe("x/#"))
            slow = await enter(me.subscribe("x/+", where="speed < 20"))
            # The pattern of the first with another filter, and with a name of its own.
            quick = await enter(me.subscribe("x/#", where="speed > 100"))
            named = await enter(me.subscribe("x/1", name="one"))
            for topic, speed in (("x/1", 10), ("x/2", 110), ("x/3", 50)):
                await other.publish(topic, {"speed": speed})
            found = {
                name: [each.attributes["speed"] for each in await ended(stream, mark, other)]
                for name, stream, mark in (("every", every, "x/9"), ("named", named, "x/1"))
            }
            assert found == {"every": [10, 110, 50], "named": [10]}
            assert (await anext(slow)).attributes == {"speed": 10}
            assert (await anext(quick)).attributes == {"speed": 110}
            # Three, and the two marks, though four streams wanted some of them.
            assert me.statistics().received == 5

    run(work())


@versions
def test_a_node_does_not_hear_itself_unless_it_wants_to(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "a", version) as me,
            me.subscribe("x") as others,
            me.subscribe("x", no_local=False) as everyone,
        ):
            await me.publish("x", "mine")
            assert await texts(everyone, 1) == ["mine"]
            assert others.statistics().unread == 0

    run(work())


@versions
def test_closing_a_stream_unsubscribes_and_leaves_the_others(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a", version) as me:
            session = server.hub.state.sessions["a"]
            before = len(session.granted)
            async with me.subscribe("x", no_local=False) as stays:
                async with me.subscribe("x", where="1 = 1"), me.subscribe("y", name="n"):
                    assert len(session.granted) == before + 3
                assert len(session.granted) == before + 1
                await me.publish("x", "1")
                assert await texts(stays, 1) == ["1"]
            assert len(session.granted) == before
            with pytest.raises(StopAsyncIteration):
                await anext(stays)

    run(work())


def test_a_reader_that_is_slow_makes_the_broker_wait_and_loses_nothing(tmp_path: Path) -> None:
    count = 3_000

    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "quick") as quick,
            node(server, "slow") as slow,
            slow.subscribe("x", buffer=10) as events,
        ):
            for number in range(count):
                await quick.publish("x", b"%d" % number + b" " * 1_000, qos=0)
            await quick.publish("y")
            most = 0
            for number in range(count):
                assert int((await anext(events)).payload) == number
                most = max(most, events.statistics().unread)
            assert 0 < most < count // 2
            assert slow.statistics().connections == 1

    run(work())


def test_a_reader_may_ask_while_much_is_unread(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as a, node(server, "b") as b:
            await a.move(*DUBLIN)
            async with b.subscribe("x", buffer=5) as events:
                for number in range(50):
                    await a.publish("x", str(number))
                for number in range(50):
                    event = await anext(events)
                    assert event.text == str(number)
                    assert (await b.read("a")).position is not None
                    await b.publish("y", event.payload)

    run(work())


def test_a_stream_that_nobody_reads_is_told_to_those_who_await_an_answer(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "a") as a,
            node(server, "b") as b,
            b.subscribe("x", buffer=1) as events,
        ):
            for number in range(100):
                await a.publish("x", str(number))
            asking = asyncio.gather(*(b.publish("y") for _ in range(100)), return_exceptions=True)
            assert any(isinstance(each, nc.BacklogError) for each in await asking)
            assert await texts(events, 100) == [str(number) for number in range(100)]

    run(work())


def test_streams_end_when_the_node_is_closed(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server:
            async with node(server, "a") as me:
                events = me.subscribe("x", no_local=False)
                await events.open()
                await me.publish("x", "1")
                await me.read("a")
            assert [event.text async for event in events] == ["1"]
            await events.close()
            with pytest.raises(nc.ConnectionLostError):
                await me.publish("x")

    run(work())


def test_streams_raise_why_the_connection_cannot_be_had_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "a") as first,
            first.subscribe("x") as events,
        ):
            reading = asyncio.ensure_future(anext(events))
            async with node(server, "a"):
                with pytest.raises(nc.RejectedError, match="taken over"):
                    await reading

    run(work())


def test_another_broker_gets_plain_messages_and_gives_them(mosquitto: Mosquitto) -> None:
    async def work() -> None:
        url = f"mqtt://127.0.0.1:{mosquitto.port}"
        async with (
            nc.connect(url, "a") as a,
            nc.connect(url, "b") as b,
            b.subscribe("x/#") as events,
            b.subscribe("y") as others,
        ):
            for number in range(3):
                await a.publish(f"x/{number}", {"n": number}, retain=True)
            assert [(await anext(events)).attributes["n"] for _ in range(3)] == [0, 1, 2]
            await a.publish("y", "1", properties=[("k", "v")])
            event = await anext(others)
            assert (event.text, event.properties) == ("1", (("k", "v"),))

    run(work())
