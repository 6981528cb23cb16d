"""A subscription of a node without a broker: an async context manager and iterator."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from nearcast.client.receive.receive_buffer import ReceiveBuffer
from nearcast.client.receive.received import Received
from nearcast.client.receive.streams import StreamStatistics
from nearcast.core.model.event import Delivery, Subscription
from nearcast.core.model.geometry.area import Area

if TYPE_CHECKING:
    from nearcast.adhoc.adhoc_node import AdhocNode

BUFFERED_BYTES = 16 << 20

Handler = Callable[[Received], object]


class EventStream:
    """The events of one subscription.

    `async with` subscribes, `async for` yields events as they come, until the node is closed. Or a
    handler is called with each. A radio does not wait for readers: of more than `buffer` unread
    events the oldest are dropped, and counted in `dropped`.
    """

    def __init__(
        self, node: "AdhocNode", subscription: Subscription, within: Area | None,
        handler: Handler | None, buffer: int,
    ) -> None:  # fmt: skip
        self.subscription = subscription
        self.within = within
        self.dropped = 0
        self.hear: Callable[[Delivery], object] | None = None
        """Called with whole deliveries, in place of all else; for gateways."""
        self._node = node
        self._handler = handler
        self._most = buffer
        self._arrivals = ReceiveBuffer[Received](buffer, BUFFERED_BYTES)
        self._is_open = False

    @property
    def pattern(self) -> str:
        """The pattern subscribed to."""
        return self.subscription.subject

    def statistics(self) -> StreamStatistics:
        """Return how much is unread."""
        return StreamStatistics(len(self._arrivals), self._arrivals.bytes)

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

    async def __anext__(self) -> Received:
        """Return the next event; raises `StopAsyncIteration` at the end."""
        found = await self._arrivals.get()
        if found is None:
            raise StopAsyncIteration
        return found

    def take_all(self) -> list[Received]:
        """Return all unread events, without waiting."""
        return self._arrivals.take_all()

    async def open(self) -> None:
        """Subscribe; raises `ModelError` if the filter or the area is not valid."""
        if not self._is_open:
            self._is_open = True
            self._node.begin(self)

    async def close(self) -> None:
        """Unsubscribe; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            self._node.end(self)
            self._arrivals.end(None)

    def put(self, delivery: Delivery) -> None:
        """Take an event."""
        if self.hear is not None:
            self.hear(delivery)
            return
        event = received(delivery)
        if self._handler is not None:
            # What it raises is the event loop's to report, and stops nothing here.
            asyncio.get_running_loop().call_soon(self._handler, event)
            return
        if len(self._arrivals) >= self._most or self._arrivals.full:
            self.dropped += 1
            self._arrivals.drop_oldest()
        self._arrivals.put(event, event.size)

    def finish(self) -> None:
        """End the stream: what is unread can still be read."""
        self._arrivals.end(None)


def received(delivery: Delivery) -> Received:
    """Return a delivery as programs see events."""
    event = delivery.event
    return Received(
        subject=event.subject,
        payload=event.payload,
        id=event.id,
        position=event.position,
        publisher=event.publisher,
        time=datetime.fromtimestamp(event.time, UTC),
        priority=event.priority,
        subscriptions=delivery.subscriptions,
        retain=delivery.replayed,
    )
