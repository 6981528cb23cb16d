"""A connection to a server that lasts: asyncio round `ClientProtocol`.

It connects again by itself, and what was not acknowledged goes out again. Messages wait in a
bounded buffer for the one who reads them; when that is full the socket is not read, so nothing is
dropped. While somebody awaits an answer it is read on for a while, since a reader that publishes
would otherwise wait for itself.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterable
from random import Random
from types import TracebackType

from msgspec import Struct
from msgspec.structs import replace

from nearcast.client import happenings as happened
from nearcast.client.address import parse_address
from nearcast.client.arrivals import Arrivals
from nearcast.client.backoff import Backoff
from nearcast.client.errors import BacklogError, ConnectionLostError, RejectedError
from nearcast.client.happenings import Happened
from nearcast.client.link import Link
from nearcast.client.options import ClientOptions
from nearcast.client.protocol import ClientProtocol, Statistics
from nearcast.client.transports import open_transport
from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    Properties,
    Publish,
    ReasonCode,
    TopicFilter,
)

CLOSE_WITHIN_S = 2.0

log = logging.getLogger("nearcast.client")

# Nothing gets better by asking again.
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

Answer = happened.Acknowledged | happened.Subscribed | happened.Unsubscribed


class ConnectionOptions(Struct, frozen=True, kw_only=True):
    """How a connection behaves, beside what the server is told."""

    backoff: Backoff = Backoff()
    seed: int | None = None
    """Makes the delays between attempts the same every time."""
    buffered_messages: int = 1_000
    """Messages that nobody has read; then the socket is not read."""
    buffered_bytes: int = 16 << 20
    tls: ssl.SSLContext | None = None
    """What to trust; the system's authorities if there is none."""


class ConnectionStatistics(Struct, frozen=True):
    """How much waits, on the way out and for a reader."""

    sending: Statistics
    unread: int
    unread_bytes: int
    connections: int
    """How often the server let the client in."""


class Connection:
    """A client on a server; `async with` connects it and closes it."""

    def __init__(
        self,
        url: str,
        options: ClientOptions | None = None,
        behaviour: ConnectionOptions | None = None,
    ) -> None:
        options = options or ClientOptions()
        self.address = parse_address(url)
        if self.address.username is not None and options.username is None:
            password = self.address.password
            options = replace(
                options,
                username=self.address.username,
                password=None if password is None else password.encode(),
            )
        self._behaviour = behaviour or ConnectionOptions()
        self._chance = Random(self._behaviour.seed)
        self._protocol = ClientProtocol(options)
        self._arrivals = Arrivals(self._behaviour.buffered_messages, self._behaviour.buffered_bytes)
        self._waiters: dict[int, asyncio.Future[Answer]] = {}
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._settled = asyncio.Event()
        self._connections = 0
        self._failure: Exception | None = None
        self._closing = False

    @property
    def client_id(self) -> str:
        """The client's identifier: its own, or the one that the server chose."""
        return self._protocol.client_id

    @property
    def online(self) -> bool:
        """Whether there is a server at the other end now."""
        return self._protocol.online

    def statistics(self) -> ConnectionStatistics:
        """Return how much waits, and where."""
        return ConnectionStatistics(
            self._protocol.statistics(),
            len(self._arrivals),
            self._arrivals.bytes,
            self._connections,
        )

    async def __aenter__(self) -> "Connection":
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, or raise why not: `ConnectionLostError`, or `RejectedError` by the server.

        Only later losses are followed by new attempts.
        """
        assert self._task is None, "it is open already"
        self._first = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._stay_connected())
        try:
            await self._first
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Say goodbye and stop; what waits to be sent is given up, what has come can be read."""
        self._closing = True
        if self._link is not None:
            await self._link.end(CLOSE_WITHIN_S)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(None)

    async def publish(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> ReasonCode:
        """Publish, and return what the server said once it has the message.

        With QoS 0 nobody answers, and it returns once the message is queued. Raises
        `RejectedError` if the server does not take it, and `QueueFullError` if too much waits.
        A call that is cancelled does not take the message back.
        """
        await self._ready()
        token = self._protocol.publish(topic, payload, qos, retain, properties, self._now())
        self._flush_soon()
        if not qos:
            return ReasonCode.SUCCESS
        answer = await self._answer(token)
        assert isinstance(answer, happened.Acknowledged)
        if answer.reason_code.failed:
            raise RejectedError(answer.reason_code, answer.text)
        return answer.reason_code

    async def subscribe(
        self,
        *filters: TopicFilter | str,
        qos: int = 0,
        properties: Properties = NO_PROPERTIES,
    ) -> tuple[ReasonCode, ...]:
        """Subscribe, and return what was granted; a filter that is only text gets `qos`.

        Raises `RejectedError` if the server refused one of them; the others are subscribed.
        """
        await self._ready()
        wanted = [TopicFilter(f, qos) if isinstance(f, str) else f for f in filters]
        token = self._protocol.subscribe(wanted, properties, self._now())
        return await self._granted(token, [each.filter for each in wanted])

    async def unsubscribe(
        self, *filters: str, properties: Properties = NO_PROPERTIES
    ) -> tuple[ReasonCode, ...]:
        """End subscriptions, and return what the server said; MQTT 3 says nothing."""
        await self._ready()
        token = self._protocol.unsubscribe(filters, properties, self._now())
        return await self._granted(token, filters)

    async def messages(self) -> AsyncIterator[Publish]:
        """Yield messages as they come, until the connection is closed.

        Raises why if the connection cannot be had back.
        """
        while (message := await self._arrivals.get()) is not None:
            self._read_or_not()
            yield message

    async def settled(self) -> None:
        """Wait until everything is sent and all that can be is acknowledged."""
        while self._failure is None and not self._closing:
            statistics = self._protocol.statistics()
            if not (statistics.waiting or statistics.in_flight):
                return
            self._settled.clear()
            await self._settled.wait()
        await self._ready()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _ready(self) -> None:
        """Wait while too much is unsent; raise if nothing will be sent any more."""
        if self._closing or self._task is None:
            raise ConnectionLostError("the connection is not open")
        await self._writable.wait()
        if self._failure is not None:
            raise self._failure

    async def _answer(self, token: int) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiters[token] = future
        self._read_or_not()
        try:
            return await future
        finally:
            del self._waiters[token]

    async def _granted(self, token: int, filters: Iterable[str]) -> tuple[ReasonCode, ...]:
        self._flush_soon()
        answer = await self._answer(token)
        assert not isinstance(answer, happened.Acknowledged)
        refused = [
            (name, code)
            for name, code in zip(filters, answer.reason_codes, strict=False)
            if code.failed
        ]
        if refused:
            names = ", ".join(name for name, _ in refused)
            text = f"{names}: {answer.text}" if answer.text else names
            raise RejectedError(refused[0][1], text)
        return answer.reason_codes

    async def _stay_connected(self) -> None:
        """Connect, and connect again, until closed or told that it is no use."""
        attempt, delay_s = 0, 0.0
        assert self._first is not None
        while True:
            try:
                why, lasted_s = await self._connect_once()
            except Exception as error:
                self._fail(error)
                why, lasted_s = str(error), 0.0
            if not self._first.done():
                self._first.set_exception(self._failure or ConnectionLostError(why))
            if self._failure is not None or self._closing or self._first.exception() is not None:
                return
            attempt = 0 if lasted_s > delay_s else attempt + 1
            delay_s = self._behaviour.backoff.delay_s(attempt, self._chance)
            log.warning("%s: %s; trying again in %.1f s", self.address, why, delay_s)
            await asyncio.sleep(delay_s)

    async def _connect_once(self) -> tuple[str, float]:
        """Use one transport as long as it lasts; return why it ended and how long it lasted."""
        link = Link(self._protocol, self._happened, self._writable)
        within_s = self._protocol.options.answer_within_s
        began = self._now()
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
            self._protocol.disconnected_transport(self._now())
            self._writable.set()
        return why, self._now() - began

    def _flush_soon(self) -> None:
        if self._link is not None:
            self._link.flush_soon()

    def _happened(self, found: list[Happened]) -> None:
        """Hand on what happened."""
        for event in found:
            match event:
                case happened.Message():
                    self._arrivals.put(event.publish)
                case happened.Acknowledged() | happened.Subscribed() | happened.Unsubscribed():
                    future = self._waiters.get(event.token)
                    if future is not None and not future.done():
                        future.set_result(event)
                case happened.Connected():
                    self._connections += 1
                    assert self._first is not None
                    if not self._first.done():
                        self._first.set_result(None)
                case happened.Resubscribed():
                    for name, code in zip(event.filters, event.reason_codes, strict=True):
                        if code.failed:
                            log.error("%s is no longer subscribed: %s", name, code.text)
                case happened.Refused() | happened.Disconnected():
                    self._turned_away(event)
                case happened.ProtocolBroken():
                    log.error("%s: %s", self.address, event.text)
        self._settled.set()
        self._read_or_not()

    def _turned_away(self, event: happened.Refused | happened.Disconnected) -> None:
        assert self._first is not None
        text = event.text
        if event.server_reference:
            text = f"{text}; it says to use {event.server_reference}".lstrip("; ")
        if event.reason_code in _FINAL or not self._first.done():
            self._fail(RejectedError(event.reason_code, text))
        else:
            log.warning("%s: %s", self.address, RejectedError(event.reason_code, text))

    def _fail(self, failure: Exception | None) -> None:
        """It is over, for a reason or because it was closed: tell everyone who waits."""
        self._failure = self._failure or failure
        self._arrivals.end(self._failure)
        for future in self._waiters.values():
            if not future.done():
                reason = self._failure or ConnectionLostError("the connection was closed")
                future.set_exception(reason)
        self._settled.set()

    def _read_or_not(self) -> None:
        """Read on if there is room for what comes, or if somebody awaits an answer."""
        if self._link is None:
            return
        arrivals = self._arrivals
        if arrivals.overfull:
            for future in self._waiters.values():
                if not future.done():
                    future.set_exception(BacklogError(_BACKLOG.format(len(arrivals))))
        waiting = bool(self._waiters) and not arrivals.overfull
        self._link.listen(not arrivals.full or waiting or not self._protocol.online)


_BACKLOG = (
    "{} messages wait to be read, and the answer comes after them: "
    "read messages in one task and publish in another"
)
