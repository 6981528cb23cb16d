"""Thousands of SDK clients over real sockets: what the server pushes, and who gets what.

A broker here, clients in a few processes. Some offer an address, the others get everything
directly. Each message must reach everybody exactly once, and be pushed once to each who has no
address and once per chain.
"""

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from multiprocessing.connection import Connection

from msgspec import Struct

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.this_machine import machine
from nearcast.broker.config.settings import (
    ListenSection,
    NodeSection,
    PropagationSection,
    Settings,
)
from nearcast.broker.peers.peer_chains import PeerChains
from nearcast.broker.server import Server, open_server
from nearcast.client.api.node import connect
from nearcast.client.receive.received import Received
from nearcast.client.receive.streams import Stream
from nearcast.core.propagation.chains.chain_plan import server_pushes

SUBJECT = "news"
FIRST_PORT = 11_000
"""Below those that systems give to connections."""
WITHIN_S = 240.0


class PeerBenchSettings(Struct, frozen=True):
    """What is measured."""

    peers: int = 2_000
    direct: int = 100
    processes: int = 4
    messages: int = 3
    percent: float = 1.0
    degree: int = 2


class PeerBenchResult(Struct, frozen=True):
    """All figures."""

    settings: PeerBenchSettings
    machine: dict[str, str]
    chains: int
    """Chains of a message, by the formula."""
    pushes: list[int]
    """What the server pushed to peers, for each message."""
    sent_again: int
    """Messages that were not confirmed in time, and sent directly."""
    whole: int
    """Clients that got every message exactly once."""
    seconds: list[float]
    """From publishing until all peers had confirmed."""
    benchmark: str = "peers"


def run(settings: PeerBenchSettings, step: Callable[[str], None]) -> PeerBenchResult:
    """Measure; `step` is told what is measured."""
    return asyncio.run(_run(settings, step))


async def _run(settings: PeerBenchSettings, step: Callable[[str], None]) -> PeerBenchResult:
    with tempfile.TemporaryDirectory() as data:
        server = open_server(
            Settings(
                node=NodeSection(data=data),
                listen=ListenSection(mqtt_port=0, ws_port=-1),
                propagation=PropagationSection(
                    percent=settings.percent, degree=settings.degree, confirm_within_s=60.0
                ),
            )
        )
        await server.start()
        crowd = _Crowd(settings, server.port)
        try:
            step(f"{settings.peers + settings.direct} clients connect")
            await crowd.ready()
            await _until(lambda: server.hub.state.peers.peers == settings.peers)
            return await _measure(settings, server, crowd, step)
        finally:
            await crowd.stop()
            await server.stop()


async def _measure(
    settings: PeerBenchSettings, server: Server, crowd: "_Crowd", step: Callable[[str], None]
) -> PeerBenchResult:
    chains, pushes, seconds = server.hub.state.peers, list[int](), list[float]()
    async with connect(f"mqtt://127.0.0.1:{server.port}", "writer") as writer:
        for number in range(settings.messages):
            step(f"message {number + 1}")
            before, start = chains.pushes, time.monotonic()
            await writer.publish(SUBJECT, _text(number), qos=0)
            await _until(partial(_are_confirmed, chains, before))
            pushes.append(chains.pushes - before)
            seconds.append(time.monotonic() - start)
    whole = await crowd.whole()
    return PeerBenchResult(
        settings, machine(), server_pushes(0, settings.peers, settings.percent), pushes,
        chains.sent_again, whole, seconds,
    )  # fmt: skip


def _are_confirmed(chains: PeerChains, before: int) -> bool:
    return chains.pushes > before and not chains.open_messages


def _text(number: int) -> str:
    return f"message {number}"


async def _until(holds: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise BenchmarkError(f"clients took longer than {WITHIN_S:g} s") from None


class _Crowd:
    """Clients in processes."""

    def __init__(self, settings: PeerBenchSettings, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        some = -(-settings.peers // settings.processes)
        shares = [
            (first, min(some, settings.peers - first), True)
            for first in range(0, settings.peers, some)
        ]
        for first, count, offers in [*shares, (settings.peers, settings.direct, False)]:
            own, other = context.Pipe()
            arguments = port, first, count, offers, settings.messages, other
            process = context.Process(target=_clients, args=arguments, daemon=True)
            process.start()
            other.close()
            self._pipes.append(own)
            self._processes.append(process)

    async def ready(self) -> None:
        """Wait until all are connected and subscribed."""
        for pipe in self._pipes:
            await self._next(pipe)

    async def whole(self) -> int:
        """Return how many got everything exactly once."""
        return sum([await self._next(pipe) for pipe in self._pipes])

    async def stop(self) -> None:
        """Let all clients leave."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            await asyncio.to_thread(process.join, 30.0)
            process.kill()

    async def _next(self, pipe: Connection) -> int:
        if not await asyncio.to_thread(pipe.poll, WITHIN_S):
            raise BenchmarkError(f"clients took longer than {WITHIN_S:g} s")
        try:
            found = pipe.recv()
        except EOFError:
            raise BenchmarkError("a process of clients ended early") from None
        assert isinstance(found, int)
        return found


def _clients(
    port: int, first: int, count: int, offers: bool, messages: int, pipe: Connection
) -> None:
    asyncio.run(_read(port, range(first, first + count), offers, messages, pipe))


async def _read(port: int, numbers: range, offers: bool, messages: int, pipe: Connection) -> None:
    expected = sorted(map(_text, range(messages)))
    async with AsyncExitStack() as stack:
        streams = []
        for number in numbers:
            address = f"127.0.0.1:{FIRST_PORT + number}" if offers else None
            client = connect(f"mqtt://127.0.0.1:{port}", f"client-{number}", p2p=address)
            node = await stack.enter_async_context(client)
            streams.append(await stack.enter_async_context(node.subscribe(SUBJECT)))
        pipe.send(len(streams))

        async def texts(stream: Stream[Received]) -> list[str]:
            return sorted([(await anext(stream)).text for _ in range(messages)])

        found = await asyncio.gather(*map(texts, streams))
        more = sum(stream.statistics().unread for stream in streams)
        pipe.send(sum(each == expected for each in found) - more)
        # Until the parent closes its end: whoever leaves earlier breaks chains.
        await asyncio.to_thread(pipe.poll, WITHIN_S)
