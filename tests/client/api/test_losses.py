"""When the connection breaks, the broker forgets, or a program ends: what comes then, and once."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import nearcast as nc
from nearcast.broker.server import Server
from nearcast.client.receive.mailboxes import UNCLAIMED
from tests.client.api.nodes import DUBLIN, NORTH, ended, node, texts, versions
from tests.client.servers import SOON, CuttingProxy, again, nearcast, run


async def until_gone(server: Server, name: str) -> None:
    """Wait until the broker has noticed that a client is away."""
    while server.hub.state.sessions[name].connection is not None:
        await asyncio.sleep(0.01)


@versions
@pytest.mark.parametrize("seed", range(3))
def test_every_event_comes_once_over_connections_that_break(
    seed: int, version: int, tmp_path: Path
) -> None:
    count = 200

    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            CuttingProxy(server.port, seed, 2_000) as proxy,
        ):
            url = f"mqtt://127.0.0.1:{proxy.port}"
            ways = {"version": version, "backoff": SOON, "seed": seed, "resume": True}
            async with (
                nc.connect(url, "a", **ways) as a,  # type: ignore[arg-type]
                nc.connect(url, "b", **ways) as b,  # type: ignore[arg-type]
                b.subscribe("x/#", name="all") as events,
            ):
                for number in range(count):
                    # MQTT 3 sends again without an id unless it is given one.
                    await a.publish(f"x/{number % 3}", str(number), id=f"{seed}-{number}")
                proxy.cutting = False
                found = [each.text for each in await ended(events, "x/0", a)]
                assert sorted(found, key=int) == [str(number) for number in range(count)]
                assert proxy.cuts

    # A first connection that is cut is an error and not an attempt to repeat.
    for _ in range(10):
        try:
            run(work())
        except nc.ConnectionLostError:
            continue
        break


@versions
def test_a_broker_that_forgot_the_session_is_told_again(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            async with nearcast(tmp_path / "1") as first:
                listen = again(first)
                a, b = node(first, "a", version), node(first, "b", version)
                await stack.enter_async_context(a)
                await stack.enter_async_context(b)
                await a.announce("x", to=nc.circle(a, 100))
                named = await stack.enter_async_context(b.subscribe("x", name="named"))
                plain = await stack.enter_async_context(b.subscribe("x"))
            # Another broker in its place, which knows nobody.
            async with nearcast(tmp_path / "2", listen) as second:
                # Both may still be waiting to connect again; who publishes waits too.
                await a.move(*DUBLIN)
                await b.move(*NORTH)
                await a.publish("x", "far from b")
                await b.move(*DUBLIN)
                await a.publish("x", "near b")
                assert await texts(named, 1) == ["near b"]
                assert await texts(plain, 1) == ["near b"]
                assert len(second.hub.state.sessions["b"].granted) >= 2
                await stack.aclose()

    run(work())


@versions
def test_a_session_that_is_resumed_brings_what_came_meanwhile(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as a:
            async with (
                node(server, "b", version, resume=True) as b,
                b.subscribe("jobs/#", name="jobs", keep=True),
            ):
                pass
            await until_gone(server, "b")
            for number in range(10):
                await a.publish(f"jobs/{number}", str(number))
            async with node(server, "b", version, resume=True) as b:
                # Events come before anybody asks for them, and wait.
                await b.move(*DUBLIN)
                async with b.subscribe("jobs/#", name="jobs", keep=True) as events:
                    assert await texts(events, 10) == [str(number) for number in range(10)]
            async with node(server, "b", version) as b, b.subscribe("jobs/#") as events:
                assert await ended(events, "jobs/x", a) == []

    run(work())


@versions
def test_what_comes_to_a_subscription_that_is_kept_waits_for_the_next_stream(
    version: int, tmp_path: Path
) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "a") as a,
            node(server, "b", version) as b,
        ):
            async with b.subscribe("jobs", name="jobs", keep=True) as events:
                for number in range(3):
                    await a.publish("jobs", str(number))
                assert await texts(events, 1) == ["0"]
            await a.publish("jobs", "3")
            await b.read("a")
            async with b.subscribe("jobs", name="jobs") as events:
                await a.publish("jobs", "4")
                assert await texts(events, 4) == ["1", "2", "3", "4"]
            with pytest.raises(StopAsyncIteration):
                await anext(events)

    run(work())


def test_more_than_fits_waits_for_the_one_who_subscribes_again(tmp_path: Path) -> None:
    count = 40 * UNCLAIMED // 10

    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as a:
            async with node(server, "b", resume=True) as b, b.subscribe("jobs", keep=True):
                pass
            await until_gone(server, "b")
            await asyncio.gather(*(a.publish("jobs", str(number)) for number in range(count)))
            async with (
                node(server, "b", resume=True) as b,
                b.subscribe("jobs", buffer=10) as events,
            ):
                found = await texts(events, count)
                assert sorted(found, key=int) == [str(number) for number in range(count)]

    run(work())


def test_events_for_a_subscription_that_nobody_reads_are_told_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as a:
            async with node(server, "b", resume=True) as b, b.subscribe("old/#", keep=True):
                pass
            await until_gone(server, "b")
            await asyncio.gather(*(a.publish("old/x", "x") for _ in range(UNCLAIMED)))
            with caplog.at_level(logging.ERROR):
                async with node(server, "b", resume=True) as b:
                    while b.statistics().received < UNCLAIMED:
                        await asyncio.sleep(0.01)
                    assert "old/#" in caplog.text
                    async with b.subscribe("old/#") as events:
                        assert len(await texts(events, UNCLAIMED)) == UNCLAIMED

    run(work())


def test_a_goodbye_ends_the_session_and_its_announcements(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server:
            async with node(server, "a") as a:
                await a.announce("x", to=nc.circle(a, 100))
                assert server.hub.engine.announcements
            while "a" in server.hub.state.sessions:
                await asyncio.sleep(0.01)
            assert not server.hub.engine.announcements

    run(work())


def test_leaving_does_not_wait_for_a_broker_that_is_gone(tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            async with nearcast(tmp_path) as server:
                me = await stack.enter_async_context(node(server, "a"))
                await stack.enter_async_context(me.subscribe("x"))
            while me.online:
                await asyncio.sleep(0.01)

    run(work())
