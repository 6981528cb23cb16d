"""An HTTP server inside the broker's event loop, with start and stop.

Uvicorn does the work, without its signal handlers and its own logging: signals and log lines belong
to the program that runs the broker.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from nearcast.console.http_connections import BoundedConnection, HttpConnections
from nearcast.logs import log_event

SWEEP_S = 1.0
KEEP_ALIVE_S = 5
"""How long a connection is kept after an answer."""
BACKLOG = 1_024
STOP_WITHIN_S = 2.0

log = logging.getLogger("nearcast.console")


class HttpServer:
    """Serves an application on one address."""

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", port: int = 8080) -> None:
        self.host = host
        self.port = port
        """The port to listen on; once started, the actual one."""
        self._app = app
        self._server: _Uvicorn | None = None
        self._task: asyncio.Task[None] | None = None
        self._connections = HttpConnections()
        self._sweeper: asyncio.TimerHandle | None = None
        self.statistics = self._connections.statistics

    async def start(self) -> None:
        """Listen, or raise `OSError`; requests are answered when this returns."""
        assert self._task is None, "it has been started"
        listener = await _listener(self.host, self.port)
        self.port = listener.getsockname()[1]
        detailed = log.isEnabledFor(logging.DEBUG)
        config = uvicorn.Config(
            self._app,
            loop="none",
            http=partial(BoundedConnection, self._connections),  # type: ignore[arg-type]
            ws="none",
            lifespan="on",
            interface="asgi3",
            log_config=None,
            log_level="debug" if detailed else "warning",
            access_log=detailed,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            backlog=BACKLOG,
        )
        self._server = _Uvicorn(config)
        self._task = asyncio.create_task(self._server.serve([listener]), name="http server")
        ready = asyncio.create_task(self._server.ready.wait())
        try:
            await asyncio.wait((self._task, ready), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._task.done():
            listener.close()
            self._task.result()
        self._sweep()
        log_event(log, logging.INFO, "listening for HTTP", host=self.host, port=self.port)

    def _sweep(self) -> None:
        """Close late connections, once a second."""
        loop = asyncio.get_running_loop()
        self._connections.sweep(loop.time())
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)

    async def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """Stop listening, let requests end, and close; harmless if it was not started.

        Requests that have not ended `within_s` are cancelled.
        """
        if self._task is None or self._server is None:
            return
        self._server.config.timeout_graceful_shutdown = within_s  # type: ignore[assignment]
        self._server.should_exit = True
        task, self._task = self._task, None
        await task
        if self._sweeper is not None:
            self._sweeper.cancel()
        log_event(log, logging.INFO, "stopped HTTP", host=self.host, port=self.port)

    async def __aenter__(self) -> "HttpServer":
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _listener(host: str, port: int) -> socket.socket:
    """Bind a socket here rather than in uvicorn, which exits the program on failure."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, address = found[0]
    listener = socket.create_server((address[0], address[1]), family=family, backlog=BACKLOG)
    listener.setblocking(False)
    return listener
