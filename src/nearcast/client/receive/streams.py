"""A subscription in a program: an async context manager, and an async iterator inside it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from msgspec import Struct

from nearcast.client.api.commands import Commands
from nearcast.client.api.exchange import Exchange
from nearcast.client.api.subscription_request import SubscriptionRequest
from nearcast.client.errors import BacklogError, ClientError, RejectedError
from nearcast.client.receive.mailboxes import Mailbox, Mailboxes
from nearcast.client.receive.received import Received

T = TypeVar("T")
BUFFER = 1_000
CLOSE_WITHIN_S = 2.0


class StreamStatistics(Struct, frozen=True):
    """The unread part of a stream."""

    unread: int
    unread_bytes: int


class StreamContext(Struct, frozen=True):
    """Objects shared by the streams of one node."""

    exchange: Exchange
    mailboxes: Mailboxes
    commands: Commands
    ending: set[asyncio.Task[None]]
    """Subscriptions that are being ended."""


class Stream(Generic[T]):
    """The events of one subscription, in order.

    `async with` subscribes, and raises `RejectedError` with the broker's reason if it refuses.
    Inside, `async for` yields events as they come. It ends when the connection is closed, and
    raises the reason if the connection cannot be restored. While `buffer` events are unread nothing
    more is read from the network: the broker waits, and so do the other streams of the node.
    Leaving unsubscribes, and drops unread events; a subscription that is kept continues, and its
    events wait for the next stream with the same subscription.
    """

    def __init__(
        self,
        context: StreamContext,
        request: SubscriptionRequest,
        read: Callable[[Received], T | None],
        *,
        buffer: int = BUFFER,
        keep: bool = False,
        begin: Callable[[], Awaitable[None]] | None = None,
        end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._context = context
        self._request = request
        self._read = read
        self._keep = keep
        self._begin = begin
        self._end = end
        self._box = Mailbox(request.label, request.pattern, buffer)
        self._open = False

    @property
    def pattern(self) -> str:
        """The pattern subscribed to."""
        return self._request.pattern

    @property
    def name(self) -> str | None:
        """The subscription's name at the broker; None if the pattern identifies it."""
        return self._request.name

    def statistics(self) -> StreamStatistics:
        """Return how much is unread."""
        return StreamStatistics(len(self._box.arrivals), self._box.arrivals.bytes)

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

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next value; raises `StopAsyncIteration` at the end."""
        while True:
            event = await self._box.arrivals.get()
            if event is None:
                raise StopAsyncIteration
            self._context.exchange.read_or_not()
            found = self._read(event)
            if found is not None:
                return found

    def take_all(self) -> list[T]:
        """Return all unread values, without waiting."""
        events = self._box.arrivals.take_all()
        self._context.exchange.read_or_not()
        return [found for event in events if (found := self._read(event)) is not None]

    async def open(self) -> None:
        """Subscribe; raises `RejectedError` if the broker refuses."""
        context = self._context
        assert not self._open, "it is open already"
        # Before the request: a resumed session may bring events ahead of the answer.
        context.mailboxes.open(self._box)
        self._open = True
        try:
            await self._request.begin(context.exchange, context.commands)
        except BacklogError:
            # The answer is behind many events: the session already had this subscription.
            if not self._box.arrivals.full:
                self._end_soon()
                raise
        except RejectedError:
            self._forget()
            raise
        except BaseException:
            self._end_soon()
            raise
        if self._begin is not None:
            try:
                await self._begin()
            except BaseException:
                self._end_soon()
                raise

    async def close(self) -> None:
        """Unsubscribe, unless it is kept.

        It waits for the broker's answer for 2 s at most, and not at all while disconnected: the
        request is then sent after the reconnection. A second call does nothing.
        """
        if not self._open:
            return
        if self._keep:
            self._forget(keep=True)
        else:
            ending = self._end_soon()
            if self._context.exchange.online:
                await asyncio.wait([ending], timeout=CLOSE_WITHIN_S)

    def _forget(self, *, keep: bool = False) -> None:
        self._open = False
        self._context.mailboxes.close(self._box, keep=keep)
        self._context.exchange.read_or_not()

    def _end_soon(self) -> asyncio.Task[None]:
        """Remove the mailbox at once, and end the subscription in a task."""
        self._forget()
        task = asyncio.create_task(self._finish())
        # An event loop has only weak references to its tasks.
        self._context.ending.add(task)
        task.add_done_callback(self._context.ending.discard)
        return task

    async def _finish(self) -> None:
        context = self._context
        with contextlib.suppress(ClientError):
            if self._end is not None:
                await self._end()
            # Another stream may read the same topics of the broker.
            if not context.mailboxes.holds(self._request.label):
                await self._request.end(context.exchange, context.commands)
