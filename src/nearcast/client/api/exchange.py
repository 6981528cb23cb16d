"""Requests to a server and their answers, over a link that reconnects.

Unacknowledged messages are sent again after a loss. Received messages are passed to `incoming`;
when that is full the socket is not read, so nothing is dropped. While a caller awaits an answer
reading continues up to a higher limit, since a reader that publishes would otherwise wait for
itself.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol, Self

from msgspec.structs import replace

from nearcast.client.api.options import ClientOptions
from nearcast.client.api.statistics import Statistics
from nearcast.client.errors import BacklogError, ConnectionLostError, RejectedError
from nearcast.client.link.address import parse_address
from nearcast.client.link.connection_options import ConnectionOptions
from nearcast.client.link.reconnecting_link import ReconnectingLink
from nearcast.client.protocol import protocol_events as happened
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import Happened
from nearcast.logs import log_event
from nearcast.wire.mqtt import NO_PROPERTIES, Properties, Publish, ReasonCode, TopicFilter
from nearcast.wire.peer_frames import CHAIN_TOPIC, PEER_TOPIC

log = logging.getLogger("nearcast.client")
_OF_PEERS = (PEER_TOPIC, CHAIN_TOPIC)

Answer = happened.Acknowledged | happened.SubscribeAcknowledged | happened.UnsubscribeAcknowledged


class Incoming(Protocol):
    """The receiver of messages, with its limits."""

    def __len__(self) -> int: ...

    @property
    def full(self) -> bool:
        """Whether reading should stop."""

    @property
    def overfull(self) -> bool:
        """Whether reading must stop, even if a caller awaits an answer."""

    def begin(self, session_present: bool) -> None:
        """Called when the server accepted the client."""

    def put(self, message: Publish) -> None:
        """Add a message."""

    def end(self, why: Exception | None) -> None:
        """Called when no more messages will come."""


class Relay(Protocol):
    """A client's part in passing messages on."""

    def from_broker(self, message: Publish) -> None:
        """Take a message to a peer."""

    def lost(self) -> None:
        """Be no peer until the broker says so."""


class Exchange:
    """A client on a server; `async with` connects it and closes it."""

    def __init__(
        self,
        url: str,
        incoming: Incoming,
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
        self.options = options
        self.behaviour = behaviour or ConnectionOptions()
        self._incoming = incoming
        self._protocol = ClientProtocol(options)
        self._link = ReconnectingLink(
            self.address,
            self._protocol,
            self.behaviour,
            self._happened,
            self._over,
        )
        self._waiters: dict[int, asyncio.Future[Answer]] = {}
        self._settled = asyncio.Event()
        self.warn: Callable[[str, str], None] = _log_warning
        """Called for a granted subscription that cannot match, with the reason."""
        self.relay: Relay | None = None
        """Takes what the broker sends to this client as a peer."""

    @property
    def client_id(self) -> str:
        """The client's identifier: its own, or the one that the server chose."""
        return self._protocol.client_id

    @property
    def version(self) -> int:
        """The version of MQTT."""
        return self.options.version

    @property
    def online(self) -> bool:
        """Whether the server is connected now."""
        return self._protocol.online

    @property
    def sending(self) -> Statistics:
        """How much waits to be sent and acknowledged."""
        return self._protocol.statistics()

    @property
    def connections(self) -> int:
        """How often the client was connected."""
        return self._link.connections

    async def __aenter__(self) -> Self:
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
        """Connect, or raise `ConnectionLostError`, or `RejectedError` if the server refuses.

        Only later losses are followed by new attempts.
        """
        await self._link.open()

    async def close(self) -> None:
        """Disconnect; unsent messages are dropped, received ones can still be read."""
        await self._link.close()

    async def publish(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> ReasonCode:
        """Publish, and return the server's reason code once it has the message.

        QoS 0 has no acknowledgement, and it returns once the message is queued. Raises
        `RejectedError` if the server refuses it, and `QueueFullError` if too much waits. A
        cancelled call does not withdraw the message.
        """
        await self._link.ready()
        token = self._protocol.publish(topic, payload, qos, retain, properties, _now())
        self._link.flush_soon()
        return await self._acknowledged(token) if qos else ReasonCode.SUCCESS

    async def state(self, topic: str, payload: bytes) -> None:
        """Publish a message that is in force as long as the session; it is renewed if that is lost.

        It is sent with QoS 1; an empty payload ends it. Raises as `publish` does.
        """
        await self._link.ready()
        token = self._protocol.state(topic, payload, _now())
        self._link.flush_soon()
        await self._acknowledged(token)

    async def subscribe(
        self,
        *filters: TopicFilter | str,
        qos: int = 0,
        properties: Properties = NO_PROPERTIES,
    ) -> tuple[ReasonCode, ...]:
        """Subscribe, and return the reason codes; a filter that is only text gets `qos`.

        Raises `RejectedError` if the server refused one of them; the others are subscribed.
        """
        await self._link.ready()
        wanted = [TopicFilter(f, qos) if isinstance(f, str) else f for f in filters]
        token = self._protocol.subscribe(wanted, properties, _now())
        return await self._granted(token, [each.filter for each in wanted])

    async def unsubscribe(
        self, *filters: str, properties: Properties = NO_PROPERTIES
    ) -> tuple[ReasonCode, ...]:
        """End subscriptions, and return the server's reason codes; MQTT 3 has none."""
        await self._link.ready()
        token = self._protocol.unsubscribe(filters, properties, _now())
        return await self._granted(token, filters)

    async def settled(self) -> None:
        """Wait until everything is sent and acknowledged, as far as its QoS requires."""
        while self._link.failure is None and not self._link.closing:
            statistics = self._protocol.statistics()
            if not (statistics.waiting or statistics.in_flight):
                return
            self._settled.clear()
            await self._settled.wait()
        await self._link.ready()

    def take_passed_on(self, message: Publish) -> None:
        """Take a message that came from another client."""
        opened = self._protocol.opened(message)
        if opened is not None:
            self._incoming.put(opened)
            self.read_or_not()

    def publish_if_online(self, topic: str, payload: bytes) -> None:
        """Publish what is of no use later."""
        if self.online:
            self._protocol.publish(topic, payload, 0, False, NO_PROPERTIES, _now())
            self._link.flush_soon()

    def read_or_not(self) -> None:
        """Pause or resume reading, depending on room for messages and awaited answers."""
        incoming = self._incoming
        if incoming.overfull:
            for future in self._waiters.values():
                if not future.done():
                    future.set_exception(BacklogError(_BACKLOG.format(len(incoming))))
        waiting = bool(self._waiters) and not incoming.overfull
        self._link.listen(not incoming.full or waiting)

    async def _answer(self, token: int) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiters[token] = future
        self.read_or_not()
        try:
            return await future
        finally:
            del self._waiters[token]
            self.read_or_not()

    async def _acknowledged(self, token: int) -> ReasonCode:
        answer = await self._answer(token)
        assert isinstance(answer, happened.Acknowledged)
        if answer.reason_code.failed:
            raise RejectedError(answer.reason_code, answer.text)
        return answer.reason_code

    async def _granted(self, token: int, filters: Iterable[str]) -> tuple[ReasonCode, ...]:
        self._link.flush_soon()
        answer = await self._answer(token)
        assert not isinstance(answer, happened.Acknowledged)
        refused = _refused(filters, answer.reason_codes)
        if refused:
            names = ", ".join(name for name, _ in refused)
            text = f"{names}: {answer.text}" if answer.text else names
            raise RejectedError(refused[0][1], text)
        if answer.text:
            self.warn(", ".join(filters), answer.text)
        return answer.reason_codes

    def _happened(self, found: list[Happened]) -> None:
        """Process events of the protocol."""
        for event in found:
            match event:
                case happened.MessageReceived(publish):
                    if self.relay is not None and publish.topic in _OF_PEERS:
                        self.relay.from_broker(publish)
                    else:
                        self._incoming.put(publish)
                case (
                    happened.Acknowledged()
                    | happened.SubscribeAcknowledged()
                    | happened.UnsubscribeAcknowledged()
                ):
                    self._answered(event)
                case happened.Connected():
                    if self.relay is not None:
                        self.relay.lost()
                    self._incoming.begin(event.session_present)
                case happened.Resubscribed():
                    refused = _refused(event.filters, event.reason_codes)
                    for name, code in refused:
                        log_event(
                            log, logging.ERROR, "no longer subscribed", topic=name, why=code.text
                        )
                    if event.text and not refused:
                        self.warn(", ".join(event.filters), event.text)
                case happened.Restated() if event.reason_code.failed:
                    why = str(RejectedError(event.reason_code, event.text))
                    log_event(log, logging.ERROR, "no longer in force", topic=event.topic, why=why)
        self._settled.set()
        self.read_or_not()

    def _answered(self, event: Answer) -> None:
        future = self._waiters.get(event.token)
        if future is not None and not future.done():
            future.set_result(event)
            return
        codes = (
            (event.reason_code,) if isinstance(event, happened.Acknowledged) else event.reason_codes
        )
        for code in codes:
            if code.failed:
                # The caller was cancelled.
                why = str(RejectedError(code, event.text))
                log_event(log, logging.WARNING, "refused", address=self.address, why=why)

    def _over(self, failure: Exception | None) -> None:
        """Wake all waiting callers: the link ended, with an error or by closing."""
        self._incoming.end(failure)
        for future in self._waiters.values():
            if not future.done():
                reason = failure or ConnectionLostError("the connection was closed")
                future.set_exception(reason)
        self._settled.set()


def _refused(filters: Iterable[str], codes: Iterable[ReasonCode]) -> list[tuple[str, ReasonCode]]:
    return [(name, code) for name, code in zip(filters, codes, strict=False) if code.failed]


def _now() -> float:
    return asyncio.get_running_loop().time()


_BACKLOG = (
    "{} messages wait to be read, and the answer comes after them: "
    "read messages in one task and publish in another"
)


def _log_warning(topic: str, why: str) -> None:
    log_event(log, logging.WARNING, "warning", topic=topic, why=why)
