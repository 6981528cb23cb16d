"""Servers that go and come back, and links that are cut: nothing acknowledged is lost."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from nearcast.client.api.options import ClientOptions
from nearcast.client.link.backoff import Backoff
from nearcast.client.link.connection import ClientConnection, ConnectionOptions
from tests.client.servers import SOON, CuttingProxy, again, nearcast, run, take
from tests.support.mosquitto import Mosquitto

PADDING = b" " * 100


def lasting(port: int, name: str, version: int = 5) -> ClientConnection:
    return ClientConnection(
        f"mqtt://127.0.0.1:{port}",
        ClientOptions(
            client_id=name,
            version=version,
            clean_start=version == 5,
            session_expiry_s=600 if version == 5 else 0,
        ),
        ConnectionOptions(backoff=SOON, seed=1),
    )


def test_a_broker_that_restarts_has_lost_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server:
            listen = again(server)
            reader, writer = lasting(server.port, "reader"), lasting(server.port, "writer")
            await reader.open()
            await writer.open()
            await reader.subscribe("a", qos=2)
            await writer.publish("a", b"0", qos=2)
        during = [
            asyncio.create_task(writer.publish("a", b"%d" % number, qos=2))
            for number in range(1, 50)
        ]
        await asyncio.sleep(0)
        async with nearcast(tmp_path, listen):
            await asyncio.gather(*during)
            messages = await take(reader, 50)
            assert [int(message.payload) for message in messages] == [*range(50)]
            assert reader.statistics().connections == 2
            await reader.close()
            await writer.close()

    run(work())


def test_a_killed_server_that_forgot_all_is_told_again(mosquitto: Mosquitto) -> None:
    async def work() -> None:
        async with (
            lasting(mosquitto.port, "reader") as reader,
            lasting(mosquitto.port, "writer") as writer,
        ):
            await reader.subscribe("a/#", qos=1)
            await writer.publish("a/0", b"0", qos=1)
            assert [message.payload for message in await take(reader, 1)] == [b"0"]
            mosquitto.kill()
            while reader.online or writer.online:
                await asyncio.sleep(0.01)
            during = [
                asyncio.create_task(writer.publish("a/1", b"%d" % number, qos=1, retain=True))
                for number in range(20)
            ]
            await asyncio.sleep(0)
            mosquitto.start()
            await asyncio.gather(*during)
            # The reader may be back later than the writer: the last one is retained for it.
            last = b""
            async for message in reader.messages():
                last = message.payload
                if last == b"19":
                    break
            await writer.publish("a/2", b"after", qos=1)
            assert (await take(reader, 1))[0].payload == b"after"

    run(work())


@pytest.mark.parametrize("version", [4, 5])
def test_with_mosquitto_a_link_that_is_cut_repeats_and_loses_nothing(
    version: int, mosquitto: Mosquitto
) -> None:
    run(exactly_once(mosquitto.port, version))


@pytest.mark.parametrize("version", [4, 5])
def test_with_our_broker_a_link_that_is_cut_repeats_and_loses_nothing(
    version: int, tmp_path: Path
) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server:
            await exactly_once(server.port, version)

    run(work())


async def exactly_once(port: int, version: int, seed: int = 0) -> None:
    """Send through a proxy that cuts, receive through another: QoS 2 once, QoS 1 at least once."""
    out, back = (CuttingProxy(port, seed + way, 4_000) for way in (0, 1))
    async with out, back:
        out.cutting = back.cutting = False
        writer, reader = lasting(out.port, "writer", version), lasting(back.port, "reader", version)
        async with writer, reader:
            await reader.subscribe("a/+", qos=2)
            out.cutting = back.cutting = True
            got: dict[int, list[int]] = {1: [], 2: []}
            reading = asyncio.create_task(read_into(got, reader))
            count = 0
            while out.cuts < 3 or back.cuts < 3:
                numbers = range(count, count + 100)
                await asyncio.gather(*[publish(writer, number) for number in numbers])
                count += 100
            out.cutting = back.cutting = False
            await writer.publish("a/end", qos=2)
            await reading
            assert list(dict.fromkeys(got[1])) == [*range(0, count, 2)]
            assert got[2] == [*range(1, count, 2)]


async def publish(writer: ClientConnection, number: int) -> None:
    qos = 1 + number % 2
    await writer.publish(f"a/{qos}", b"%d" % number + PADDING, qos=qos)


async def read_into(got: dict[int, list[int]], reader: ClientConnection) -> None:
    async for message in reader.messages():
        if message.topic == "a/end":
            return
        got[message.qos].append(int(message.payload))


def test_delays_grow_to_a_bound_and_are_the_same_for_a_seed() -> None:
    backoff = Backoff(first_s=1.0, most_s=8.0)
    delays = [backoff.delay_s(attempt, Random(attempt)) for attempt in range(10)]
    for attempt, delay in enumerate(delays):
        longest = min(8.0, 2.0**attempt)
        assert longest / 2 <= delay <= longest
    assert delays == [backoff.delay_s(attempt, Random(attempt)) for attempt in range(10)]
    assert backoff.delay_s(100_000, Random(0)) <= 8.0
