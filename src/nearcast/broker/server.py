"""The server: sockets round the hub.

Whatever is read in one turn of the loop is one tick; every connection gets at most one write a
tick. A client that does not read is bounded: beyond WRITE_LIMIT unsent bytes it is disconnected.
"""

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Callable

from nearcast.broker.hub import LARGEST_PACKET, Connection, Hub
from nearcast.wire.mqtt import Decoder, ProtocolError, ReasonCode

WRITE_LIMIT = 8 << 20
SWEEP_S = 1.0
CONNECT_WITHIN_S = 10.0
CLOSE_WITHIN_S = 2.0

log = logging.getLogger("nearcast.broker")


class Server:
    """An MQTT server on a TCP port."""

    def __init__(self, hub: Hub | None = None) -> None:
        self.hub = Hub() if hub is None else hub
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None
        self._due = False
        self._clients: dict[str, _Client] = {}
        self._count = 0
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self, host: str = "127.0.0.1", port: int = 1883) -> None:
        """Listen; everyone may connect, so only on the loopback interface."""
        if not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"{host} is not a loopback address; there are no passwords yet")
        self._loop = asyncio.get_running_loop()
        self._server = await self._loop.create_server(lambda: _Client(self), host, port)
        self._sweep()

    async def stop(self) -> None:
        """Say goodbye to everyone and close."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for client in list(self._clients.values()):
            self.hub.refuse(
                client.connection, ReasonCode.SERVER_SHUTTING_DOWN, "shutting down", self.now()
            )
            client.write()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        deadline = self.now() + CLOSE_WITHIN_S
        while self._clients:
            if self.now() > deadline:
                for client in list(self._clients.values()):
                    client.abort()
            await asyncio.sleep(0.01)

    def now(self) -> float:
        """The time, in seconds."""
        assert self._loop is not None
        return self._loop.time()

    def joined(self, client: "_Client") -> str:
        """A name for a new connection."""
        self._count += 1
        name = f"c{self._count}"
        self._clients[name] = client
        return name

    def left(self, client: "_Client") -> None:
        """A connection is gone."""
        self._clients.pop(client.connection.name, None)
        self.hub.lost(client.connection, self.now())
        self.soon()

    def soon(self) -> None:
        """Tick once everything that is there has been read."""
        if not self._due:
            assert self._loop is not None
            self._due = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._due = False
        for connection in self.hub.tick(self.now()):
            client = self._clients.get(connection.name)
            if client is not None:
                client.write()

    def _sweep(self) -> None:
        now = self.now()
        for connection in self.hub.silent(now):
            log.info("%s sent nothing for too long", connection.name)
            self.hub.refuse(connection, ReasonCode.KEEP_ALIVE_TIMEOUT, "keep-alive", now)
        for client in list(self._clients.values()):
            if client.connection.session is None and now - client.since > CONNECT_WITHIN_S:
                client.close()
        self._tick()
        assert self._loop is not None
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)


class _Client(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self._server = server
        self._decoder = Decoder(LARGEST_PACKET)
        self._transport: asyncio.Transport | None = None
        self.since = server.now()
        self.connection = Connection(server.joined(self))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        with contextlib.suppress(AttributeError):
            transport.set_write_buffer_limits(WRITE_LIMIT)

    def data_received(self, data: bytes) -> None:
        hub, now = self._server.hub, self._server.now()
        try:
            packets = self._decoder.feed(data)
            for packet in packets:
                validate: Callable[[], bool] | None = getattr(packet, "validate", None)
                if validate is not None and self._decoder.version == 5:
                    validate()
            hub.receive(self.connection, packets, now)
        except ProtocolError as error:
            log.info("%s: %s", self.connection.name, error)
            hub.receive(self.connection, error.packets, now)
            hub.refuse(self.connection, error.reason_code, str(error), now)
        self._server.soon()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.left(self)

    def write(self) -> None:
        """Write what the hub left, in one piece."""
        transport, connection = self._transport, self.connection
        if transport is None or transport.is_closing():
            return
        if connection.out:
            transport.write(b"".join(connection.out))
            connection.out.clear()
        if connection.closing:
            transport.close()
        elif transport.get_write_buffer_size() > WRITE_LIMIT:
            log.warning("%s does not read; disconnected", connection.name)
            transport.abort()

    def abort(self) -> None:
        """Close at once, whatever is still to be written."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close without a word."""
        if self._transport is not None:
            self._transport.close()
