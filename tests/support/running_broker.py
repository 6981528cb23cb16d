"""A real server in a thread, with a clock that a test can put forward."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from nearcast.broker.auth import Authenticator
from nearcast.broker.auth.admission import Admission
from nearcast.broker.broker_clock import HostClocks
from nearcast.broker.config.settings import ListenSection, NodeSection, Settings
from nearcast.broker.server import Server
from nearcast.store import Store
from nearcast.wire.mqtt import MQTT_5, NO_PROPERTIES, Connect, Properties, Will
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.waiting import WAIT_S

T = TypeVar("T")
ON_FREE_PORTS = ListenSection(mqtt_port=0, ws_port=0)


class ClockedServer(Server):
    """A server whose time is as far ahead as a test says."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


class RunningBroker:
    """A server and the clients that a test has."""

    def __init__(
        self,
        settings: Settings | None = None,
        data: Path | None = None,
        clocks: HostClocks | None = None,
        *,
        listen: ListenSection = ON_FREE_PORTS,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        chosen = replace(settings or Settings(), listen=listen)
        store: Store | None = None
        admission: Admission | None = None
        if data is not None:
            chosen = replace(chosen, node=NodeSection(data=str(data)))
            store = Store(data, chosen.node.name)
            admission = Authenticator(chosen, data)
        self.server = ClockedServer(chosen, store, admission, clocks=clocks)
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self.server.start())
        self.port, self.ws_port = self.server.port, self.server.ports["ws"]
        self._clients: list[RawClient] = []

    def open(self, version: int = MQTT_5) -> RawClient:
        """A connection on which nothing was said yet."""
        client = RawClient(self.port, version)
        self._clients.append(client)
        return client

    def client(
        self,
        client_id: str | None = None,
        *,
        version: int = MQTT_5,
        clean: bool = True,
        expiry: int | None = None,
        keep_alive: int = 0,
        will: Will | None = None,
        properties: Properties = NO_PROPERTIES,
    ) -> RawClient:
        """A client that has been let in; `expiry` is its session expiry interval."""
        client = self.open(version)
        if expiry is not None:
            properties = replace(properties, session_expiry_interval=expiry)
        name = fresh("client") if client_id is None else client_id
        packet = Connect(name, version, clean, keep_alive, will, properties=properties)
        assert not client.connect(packet).reason_code.failed
        return client

    def later(self, seconds: float) -> None:
        """Put the clock forward, and let the server act on it."""

        async def forward() -> None:
            self.server.ahead_s += seconds
            self.server.soon()

        self.run(forward())

    def lose(self, client: RawClient) -> None:
        """Let a client go without a word, and the server notice."""

        async def noticed() -> None:
            while (
                session := self.server.hub.sessions.get(client.client_id)
            ) is not None and session.connection is not None:
                await asyncio.sleep(0.001)

        client.close()
        self.run(noticed())

    def reload(self) -> None:
        """Let the server read users and rules again."""

        async def read() -> None:
            self.server.reload_admission()

        self.run(read())

    def hang_up(self) -> None:
        """Close all clients of a test."""
        for client in self._clients:
            client.close()
        self._clients.clear()

    def stop(self) -> None:
        self.shut_down()
        self.hang_up()

    def shut_down(self) -> None:
        """Stop the server; clients can still read what it said last."""
        self.run(self.server.stop())
        self.end_loop()

    def end_loop(self) -> None:
        """End the thread of a server that was stopped."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def validate(self) -> None:
        """Assert that the server's state is sound, once it has done what it was asked."""

        async def check() -> None:
            while self.server.hub.state.pending:
                await asyncio.sleep(0)
            self.server.hub.validate_state()

        self.run(check())

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Do something in the thread of the server."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)
