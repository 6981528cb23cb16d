"""Idle and slow HTTP connections: the oldest make room, and none stays for long."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from nearcast.broker.config.settings import Settings
from nearcast.broker.operations.metrics import Metrics
from nearcast.console.http import make_app
from nearcast.console.http_connections import (
    CONNECTIONS,
    PER_ADDRESS,
    READ_WITHIN_S,
    SPEAK_WITHIN_S,
    BoundedConnection,
    HttpConnections,
)
from nearcast.console.server import HttpServer
from tests.support.clients.http_requests import ask

IDLE = 2_000
HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def idle_sockets(port: int, count: int, said: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60.0))
            if said:
                opened.sendall(said)
            found.append(opened)
        yield found


@pytest.mark.parametrize("said", [b"", HALF])
def test_health_is_told_however_many_sockets_are_idle(said: bytes) -> None:
    async def run() -> None:
        app = make_app(Metrics({}), {}, Settings())
        async with HttpServer(app, port=0) as server:
            opened = idle_sockets(server.port, IDLE, said)
            await asyncio.to_thread(opened.__enter__)
            for _ in range(3):
                assert (await ask(server.port, "/healthz")).status == 200
            assert server.statistics().connections <= PER_ADDRESS
            assert server.statistics().evicted_total >= IDLE - PER_ADDRESS
            await asyncio.to_thread(opened.__exit__, None, None, None)

    asyncio.run(run())


class PlainTransport(asyncio.Transport):
    """A transport without a socket; what is unread is said by a test."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.is_aborted = False
        self.unread = 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": (self.address, 1_000)}.get(name, default)

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.abort()

    def write(self, data: object) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread


class Visitors:
    """Connections of a server with bounds, without sockets."""

    def __init__(self, most: int, most_of_address: int) -> None:
        async def answer(scope: object, receive: object, send: object) -> None:
            await asyncio.sleep(3_600)

        self.book = HttpConnections(most, most_of_address)
        config = uvicorn.Config(answer, log_config=None, interface="asgi3")
        self._make = partial(BoundedConnection, self.book, config, ServerState(), {})
        self.time = 0.0

    def comes(self, address: str) -> BoundedConnection:
        made = self._make()
        made.connection_made(PlainTransport(address))
        self.time += 1.0
        made.since = self.time
        return made


async def give_up_requests() -> None:
    """Let the requests under way begin, and cancel them."""
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def is_open(connection: BoundedConnection) -> bool:
    return not connection.transport.is_closing()


def test_the_longest_idle_of_the_same_address_makes_room() -> None:
    async def run() -> None:
        visitors = Visitors(10, 2)
        other = visitors.comes("192.0.2.9")
        first, second, third = (visitors.comes("192.0.2.1") for _ in range(3))
        assert [is_open(each) for each in (other, first, second, third)] == [
            True, False, True, True,
        ]  # fmt: skip
        assert len(visitors.book) == 3

    asyncio.run(run())


def test_the_address_with_the_most_makes_room_for_others() -> None:
    async def run() -> None:
        visitors = Visitors(4, 4)
        alone = visitors.comes("192.0.2.9")
        many = [visitors.comes("192.0.2.1") for _ in range(3)]
        late = visitors.comes("192.0.2.5")
        assert is_open(alone)
        assert is_open(late)
        assert [is_open(each) for each in many] == [False, True, True]

    asyncio.run(run())


def test_a_request_under_way_is_not_interrupted() -> None:
    async def run() -> None:
        visitors = Visitors(2, 2)
        busy = [visitors.comes("192.0.2.1") for _ in range(2)]
        for each in busy:
            each.data_received(WHOLE)
        newest = visitors.comes("192.0.2.1")
        assert all(map(is_open, busy))
        assert not is_open(newest)
        await give_up_requests()

    asyncio.run(run())


def test_a_byte_now_and_then_does_not_keep_a_connection() -> None:
    async def run() -> None:
        visitors = Visitors(2, 2)
        slow = visitors.comes("192.0.2.1")
        for byte in HALF:
            slow.data_received(bytes([byte]))
        visitors.book.sweep(slow.since + SPEAK_WITHIN_S)
        assert is_open(slow)
        visitors.book.sweep(slow.since + SPEAK_WITHIN_S + 1.0)
        assert not is_open(slow)
        assert visitors.book.statistics().timed_out_total == 1
        assert len(visitors.book) == 0

    asyncio.run(run())


def test_an_answer_that_nobody_reads_does_not_keep_a_connection() -> None:
    async def run() -> None:
        visitors = Visitors(2, 2)
        deaf = visitors.comes("192.0.2.1")
        deaf.data_received(WHOLE)
        visitors.book.sweep(deaf.since + 10 * READ_WITHIN_S)
        assert is_open(deaf)
        cast(PlainTransport, deaf.transport).unread = 100
        deaf.pause_writing()
        visitors.book.sweep(deaf.since + READ_WITHIN_S + 1.0)
        assert not is_open(deaf)
        await give_up_requests()

    asyncio.run(run())


def test_the_bounds_leave_room_for_other_addresses() -> None:
    assert PER_ADDRESS < CONNECTIONS
