"""Real servers for a client: ours, and a proxy that cuts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from random import Random

from msgspec.structs import replace

from nearcast.broker.config.settings import ListenSection, NodeSection, Settings
from nearcast.broker.server import Server, open_server
from nearcast.client.link.backoff import Backoff
from nearcast.client.link.connection import ClientConnection
from nearcast.wire.mqtt import Publish
from tests.support.waiting import WAIT_S

SOON = Backoff(first_s=0.02, most_s=0.2)


def run(work: Coroutine[object, object, None]) -> None:
    """Run a test's coroutine, for as long as it may take at most."""

    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await work

    asyncio.run(bounded())


async def take(reader: ClientConnection, count: int) -> list[Publish]:
    """Read so many messages, or fewer if the connection is closed."""
    found: list[Publish] = []
    async for message in reader.messages():
        found.append(message)
        if len(found) == count:
            break
    return found


@contextlib.asynccontextmanager
async def nearcast(directory: Path, listen: ListenSection | None = None) -> AsyncIterator[Server]:
    """Run our broker with its state in a directory."""
    settings = Settings(
        node=NodeSection(data=str(directory / "data")),
        listen=listen or ListenSection(mqtt_port=0, ws_port=-1),
    )
    server = open_server(settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def again(server: Server) -> ListenSection:
    """Where a server listened, so that the next one listens there too."""
    return replace(server.settings.listen, mqtt_port=server.port)


class CuttingProxy:
    """Carries connections to a server; cuts each after some bytes one way, while it is to."""

    def __init__(self, port: int, seed: int, most_bytes: int) -> None:
        self._to = port
        self._chance = Random(seed)
        self._most = most_bytes
        self._ends: set[asyncio.StreamWriter] = set()
        self._served: set[asyncio.Task[None] | None] = set()
        self.cutting = True
        self.cuts = 0

    async def __aenter__(self) -> "CuttingProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for end in self._ends:
            end.transport.abort()
        while self._served:
            await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._served.add(task)
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
        ends = {writer, to_writer}
        self._ends |= ends
        limits = [self._chance.randrange(100, self._most), 1 << 40]
        self._chance.shuffle(limits)
        ways = [
            asyncio.create_task(self._carry(reader, to_writer, limits[0])),
            asyncio.create_task(self._carry(to_reader, writer, limits[1])),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.transport.abort()
        await asyncio.wait(ways)
        self._ends -= ends
        self._served.discard(task)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(4096):
                cut = self.cutting and len(data) >= left
                writer.write(data[:left] if cut else data)
                await writer.drain()
                left -= len(data)
                if cut:
                    self.cuts += 1
                    return
