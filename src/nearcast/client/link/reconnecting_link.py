"""A link that connects, and reconnects, until it is closed or finally refused.

Only the first attempt must succeed. Later ones follow after increasing delays.
"""

import asyncio
import logging
from collections.abc import Callable
from random import Random

from nearcast.client.errors import ConnectionLostError, RejectedError
from nearcast.client.link.address import Address
from nearcast.client.link.connection_options import ConnectionOptions
from nearcast.client.link.link import TransportLink
from nearcast.client.link.transports import open_transport
from nearcast.client.protocol import protocol_events as happened
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import Happened
from nearcast.logs import log_event
from nearcast.wire.mqtt import ReasonCode

CLOSE_WITHIN_S = 2.0

log = logging.getLogger("nearcast.client")

# A retry would not help with these.
_FINAL = frozenset(
    (
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
        ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
        ReasonCode.BAD_USER_NAME_OR_PASSWORD,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.BANNED,
        ReasonCode.BAD_AUTHENTICATION_METHOD,
        ReasonCode.SESSION_TAKEN_OVER,
        ReasonCode.ADMINISTRATIVE_ACTION,
        ReasonCode.USE_ANOTHER_SERVER,
        ReasonCode.SERVER_MOVED,
    )
)


class ReconnectingLink:
    """The successive transports of one client to a server; `hand_on` gets the events."""

    def __init__(
        self,
        address: Address,
        protocol: ClientProtocol,
        behaviour: ConnectionOptions,
        hand_on: Callable[[list[Happened]], None],
        over: Callable[[Exception | None], None],
    ) -> None:
        self.address = address
        self._protocol = protocol
        self._behaviour = behaviour
        self._hand_on = hand_on
        self._over = over
        self._chance = Random(behaviour.seed)
        self._link: TransportLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closing = False
        self.failure: Exception | None = None
        """Why there will be no more transports."""
        self.connections = 0
        """How often the client was connected."""

    @property
    def closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing

    async def open(self) -> None:
        """Connect, or raise `ConnectionLostError`, or `RejectedError` if the server refuses."""
        assert self._task is None, "it is open already"
        self._first = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._stay_connected())
        try:
            await self._first
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect and stop."""
        self._closing = True
        if self._link is not None:
            await self._link.end(CLOSE_WITHIN_S)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(None)

    async def ready(self) -> None:
        """Wait while the write buffer is full; raise if the link has ended."""
        if self._closing or self._task is None:
            raise ConnectionLostError("the connection is not open")
        await self._writable.wait()
        if self.failure is not None:
            raise self.failure

    def flush_soon(self) -> None:
        """Write at the end of this iteration of the event loop, if there is a transport."""
        if self._link is not None:
            self._link.flush_soon()

    def listen(self, wanted: bool) -> None:
        """Pause or resume reading from the server."""
        if self._link is not None:
            self._link.listen(wanted or not self._protocol.online)

    async def _stay_connected(self) -> None:
        attempt, delay_s = 0, 0.0
        assert self._first is not None
        while True:
            try:
                why, lasted_s = await self._connect_once()
            except Exception as error:
                self._fail(error)
                why, lasted_s = str(error), 0.0
            if not self._first.done():
                self._first.set_exception(self.failure or ConnectionLostError(why))
            if self.failure is not None or self._closing or self._first.exception() is not None:
                return
            attempt = 0 if lasted_s > delay_s else attempt + 1
            delay_s = self._behaviour.backoff.delay_s(attempt, self._chance)
            log_event(
                log, logging.WARNING, "not connected; trying again",
                address=self.address, why=why, again_s=round(delay_s, 1),
            )  # fmt: skip
            await asyncio.sleep(delay_s)

    async def _connect_once(self) -> tuple[str, float]:
        """Use one transport until it ends; return the reason and its duration."""
        link = TransportLink(self._protocol, self._happened, self._writable)
        within_s = self._protocol.options.answer_within_s
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            transport = await open_transport(self.address, link, self._behaviour.tls, within_s)
        except ConnectionLostError as error:
            return str(error), 0.0
        self._link = link
        try:
            link.begin(transport)
            why = await link.gone
        finally:
            self._link = None
            link.stop()
            self._protocol.disconnected_transport(loop.time())
            self._writable.set()
        return why, loop.time() - began

    def _happened(self, found: list[Happened]) -> None:
        """Pass all events on, and process those about the link itself."""
        # Pass on first: an answer may come right before the server's DISCONNECT.
        self._hand_on(found)
        for event in found:
            match event:
                case happened.Connected():
                    self.connections += 1
                    assert self._first is not None
                    if not self._first.done():
                        self._first.set_result(None)
                case happened.ConnectRefused() | happened.Disconnected():
                    self._turned_away(event)
                case happened.ProtocolBroken():
                    why = f"{self.address}: {event.text}"
                    assert self._first is not None
                    if self._first.done():
                        log_event(log, logging.ERROR, "broken packet", why=why)
                    else:
                        self._fail(ConnectionLostError(why))

    def _turned_away(self, event: happened.ConnectRefused | happened.Disconnected) -> None:
        assert self._first is not None
        text = event.text
        if event.server_reference:
            text = f"{text}; it says to use {event.server_reference}".lstrip("; ")
        if event.reason_code in _FINAL or not self._first.done():
            self._fail(RejectedError(event.reason_code, text))
        else:
            why = str(RejectedError(event.reason_code, text))
            log_event(log, logging.WARNING, "refused", address=self.address, why=why)

    def _fail(self, failure: Exception | None) -> None:
        """End the link, with an error or because it was closed."""
        self.failure = self.failure or failure
        self._over(self.failure)
