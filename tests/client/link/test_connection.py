"""A connection to real servers: every way in, what is refused, and who waits for whom."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from nearcast.broker.config.settings import ListenSection
from nearcast.client.api.options import ClientOptions
from nearcast.client.errors import (
    AddressError,
    BacklogError,
    ConnectionLostError,
    RejectedError,
)
from nearcast.client.link.address import Address, parse_address
from nearcast.client.link.connection import ClientConnection, ConnectionOptions
from nearcast.wire.mqtt import Properties, ReasonCode, TopicFilter
from tests.client.servers import SOON, nearcast, run, take
from tests.support.certificates import make_certificate
from tests.support.mosquitto import free_port


def connection(port: int, name: str = "node", most: int = 1_000) -> ClientConnection:
    return ClientConnection(
        f"mqtt://127.0.0.1:{port}",
        ClientOptions(client_id=name),
        ConnectionOptions(backoff=SOON, seed=1, buffered_messages=most),
    )


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts", "ws", "wss"])
def test_messages_come_back_over_every_kind_of_address(scheme: str, tmp_path: Path) -> None:
    own = make_certificate(tmp_path)
    listen = ListenSection(
        mqtt_port=0,
        ws_port=0,
        mqtts_port=0,
        wss_port=0,
        certificate=str(own.file),
        key=str(own.key),
    )

    async def work() -> None:
        async with nearcast(tmp_path, listen) as server:
            url = f"{scheme}://127.0.0.1:{server.ports[scheme]}"
            options = ClientOptions(client_id="node")
            async with ClientConnection(url, options, ConnectionOptions(tls=own.trust())) as me:
                granted = await me.subscribe(TopicFilter("a/#", 2), "b")
                assert granted == (ReasonCode.GRANTED_QOS_2, ReasonCode.GRANTED_QOS_0)
                properties = Properties(user_properties=(("k", "1"), ("k", "2")))
                for qos in (0, 1, 2):
                    await me.publish(f"a/{qos}", b"x" * 70_000, qos=qos, properties=properties)
                for qos, message in enumerate(await take(me, 3)):
                    assert (message.topic, message.qos) == (f"a/{qos}", qos)
                    assert message.payload == b"x" * 70_000
                    assert message.properties.user_properties == (("k", "1"), ("k", "2"))
                await me.unsubscribe("a/#")

    run(work())


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    own = make_certificate(tmp_path)
    listen = ListenSection(
        mqtt_port=0, ws_port=-1, mqtts_port=0, certificate=str(own.file), key=str(own.key)
    )

    async def work() -> None:
        async with nearcast(tmp_path, listen) as server:
            url = f"mqtts://127.0.0.1:{server.ports['mqtts']}"
            trust = ConnectionOptions(tls=ssl.create_default_context())
            with pytest.raises(ConnectionLostError, match="not trusted"):
                await ClientConnection(url, ClientOptions(client_id="node"), trust).open()

    run(work())


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    async def work() -> None:
        with pytest.raises(ConnectionLostError, match="refused"):
            await connection(free_port()).open()

    run(work())


def test_a_server_that_never_answers_is_an_error_too() -> None:
    async def work() -> None:
        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()

        silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        options = ClientOptions(client_id="node", answer_within_s=0.1)
        with pytest.raises(ConnectionLostError):
            await ClientConnection(f"mqtt://127.0.0.1:{port}", options).open()
        silent.close()

    run(work())


def test_what_the_server_refuses_is_raised_with_its_reason(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, connection(server.port) as me:
            with pytest.raises(RejectedError) as raised:
                await me.publish("a", b"x" * (2 << 20))
            assert raised.value.reason_code is ReasonCode.PACKET_TOO_LARGE
            await me.publish("a", b"x", qos=1)

    run(work())


def test_a_client_that_was_replaced_does_not_come_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, connection(server.port) as first:
            reading = asyncio.create_task(take(first, 1))
            async with connection(server.port) as second:
                with pytest.raises(RejectedError) as raised:
                    await reading
                assert raised.value.reason_code is ReasonCode.SESSION_TAKEN_OVER
                with pytest.raises(RejectedError):
                    await first.publish("a")
                await second.publish("a", qos=1)

    run(work())


def test_a_reader_that_is_slow_makes_the_server_wait_and_loses_nothing(tmp_path: Path) -> None:
    count = 3_000

    async def work() -> None:
        async with nearcast(tmp_path) as server:
            slow, quick = connection(server.port, "slow", most=10), connection(server.port, "quick")
            async with slow, quick:
                await slow.subscribe("a")
                for number in range(count):
                    await quick.publish("a", b"%d" % number + b" " * 1_000)
                await quick.publish("b", qos=1)
                # What comes in one read may stand over the bound, but not what comes after.
                most = 0
                for number in range(count):
                    (message,) = await take(slow, 1)
                    assert int(message.payload) == number
                    most = max(most, slow.statistics().unread)
                assert 0 < most < count // 2
                assert slow.statistics().connections == 1

    run(work())


def test_a_reader_that_publishes_does_not_wait_for_itself(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server:
            echo, quick = connection(server.port, "echo", most=5), connection(server.port, "quick")
            async with echo, quick:
                await echo.subscribe("a")
                for number in range(50):
                    await quick.publish("a", b"%d" % number, qos=1)
                for number, message in enumerate(await take(echo, 50)):
                    await echo.publish("b", message.payload, qos=1)
                    assert message.payload == b"%d" % number

    run(work())


def test_an_answer_behind_too_many_messages_is_an_error_and_no_message_is_lost(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server:
            slow, quick = connection(server.port, "slow", most=1), connection(server.port, "quick")
            async with slow, quick:
                await slow.subscribe("a", "b")
                for number in range(100):
                    await quick.publish("a", b"%d" % number, qos=1)
                answers = await asyncio.gather(
                    *[slow.publish("c", qos=1) for _ in range(100)], return_exceptions=True
                )
                assert any(isinstance(answer, BacklogError) for answer in answers)
                assert [int(message.payload) for message in await take(slow, 100)] == [*range(100)]

    run(work())


def test_closing_ends_those_who_wait(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server:
            async with connection(server.port) as me:
                reading = asyncio.create_task(take(me, 1))
                await me.publish("a", qos=1)
            assert await reading == []
            with pytest.raises(ConnectionLostError, match="not open"):
                await me.publish("a")

    run(work())


def test_a_publish_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, connection(server.port) as me:
            asking = asyncio.create_task(me.publish("a", qos=2))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await me.settled()
            assert me.statistics().sending.in_flight == 0
            await me.publish("a", qos=1)

    run(work())


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("mqtt://h", Address("mqtt", "h", 1883)),
        ("mqtts://h", Address("mqtts", "h", 8883)),
        ("ws://h:1/x?y=z", Address("ws", "h", 1, "/x?y=z")),
        ("wss://[::1]", Address("wss", "::1", 8084)),
        ("mqtt://u%40x:p%3A@h/", Address("mqtt", "h", 1883, username="u@x", password="p:")),
    ],
)
def test_an_address_is_read(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize("url", ["h:1883", "http://h", "mqtt://", "mqtt://h:x", "mqtt://h/path"])
def test_an_address_that_is_none_says_what_is_wrong(url: str) -> None:
    with pytest.raises(AddressError, match=":"):
        parse_address(url)
