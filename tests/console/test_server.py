"""The HTTP server inside a running loop: it starts, answers, stops, and leaves no trace."""

import asyncio
import io
import json
import logging
import signal
import socket

import pytest

from nearcast.broker.config.settings import LoggingSection, Settings
from nearcast.broker.operations.log_handler import set_up
from nearcast.broker.operations.metrics import Metrics
from nearcast.console.http import make_app
from nearcast.console.server import HttpServer
from tests.support.clients.http_requests import ask

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def server(host: str = "127.0.0.1", port: int = 0) -> HttpServer:
    return HttpServer(make_app(Metrics({}), {}, Settings()), host, port)


def test_a_free_port_is_taken_and_told() -> None:
    async def run() -> None:
        async with server() as one, server() as other:
            assert 0 < one.port != other.port > 0
            assert (await ask(one.port, "/healthz")).status == 200
            assert (await ask(other.port, "/healthz")).status == 200

    asyncio.run(run())


def test_after_stopping_the_port_is_free_and_no_task_is_left() -> None:
    async def run() -> int:
        one = server()
        await one.start()
        await ask(one.port, "/healthz")
        await one.stop()
        await one.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        async with server(port=one.port) as again:
            assert again.port == one.port
            assert (await ask(again.port, "/healthz")).status == 200
        return one.port

    port = asyncio.run(run())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_port_in_use_is_an_error_to_whoever_starts_it() -> None:
    async def run() -> None:
        async with server() as one:
            with pytest.raises(OSError, match="in use"):
                await server(port=one.port).start()
            assert (await ask(one.port, "/healthz")).status == 200

    asyncio.run(run())


def test_signals_are_left_to_the_program() -> None:
    async def run() -> None:
        before = [signal.getsignal(number) for number in SIGNALS]
        async with server() as one:
            await ask(one.port, "/healthz")
            assert [signal.getsignal(number) for number in SIGNALS] == before
        assert [signal.getsignal(number) for number in SIGNALS] == before

    asyncio.run(run())


def test_a_client_that_says_nothing_does_not_keep_it_from_stopping() -> None:
    async def run() -> None:
        one = server()
        await one.start()
        _, writer = await asyncio.open_connection("127.0.0.1", one.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost:")
        await writer.drain()
        async with asyncio.timeout(30):
            await one.stop()
        writer.close()

    asyncio.run(run())


def test_nonsense_is_refused_and_others_are_still_answered() -> None:
    async def run() -> None:
        async with server() as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
            writer.write(b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\r\n\r\n")
            async with asyncio.timeout(30):
                assert (await reader.read()).startswith(b"HTTP/1.1 400")
            writer.close()
            assert (await ask(one.port, "/healthz")).status == 200

    asyncio.run(run())


def test_it_logs_as_everything_else_does() -> None:
    root = logging.getLogger()
    level = root.level
    stream = io.StringIO()
    handler = set_up(LoggingSection(form="json"), stream)
    app = make_app(Metrics({}), {}, Settings())

    @app.get("/api/broken")
    async def broken() -> None:
        raise RuntimeError("it broke")

    async def run() -> int:
        async with HttpServer(app, port=0) as one:
            assert (await ask(one.port, "/api/broken")).status == 500
            return one.port

    try:
        port = asyncio.run(run())
    finally:
        root.removeHandler(handler)
        handler.close()
        root.setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines if line["logger"] == "nearcast.console"] == [
        "listening for HTTP",
        "stopped HTTP",
    ]
    assert lines[0]["port"] == port
    (error,) = [line for line in lines if line["level"] == "error"]
    assert "it broke" in error["traceback"]
