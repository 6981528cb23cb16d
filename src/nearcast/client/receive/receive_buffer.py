"""A buffer of unread messages: bounded, and nothing is dropped.

When it is full the socket is no longer read, so that the server waits; beyond `overfull` it is not
read even for an awaited answer.
"""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

OVERFULL = 16
"""The multiple of its limits that may be received while an answer is awaited."""


class ReceiveBuffer(Generic[T]):
    """A queue with a waiting reader."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._changed = asyncio.Event()
        self._ended: Exception | None = None
        self._open = True
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether reading should stop."""
        return len(self._items) >= self._most or self.bytes >= self._most_bytes

    @property
    def overfull(self) -> bool:
        """Whether reading must stop, even if a caller awaits an answer."""
        return len(self._items) >= self._most * OVERFULL or (
            self.bytes >= self._most_bytes * OVERFULL
        )

    def put(self, item: T, size: int) -> None:
        """Add an item; the caller stops reading when the buffer is full."""
        self._items.append((item, size))
        self.bytes += size
        self._changed.set()

    async def get(self) -> T | None:
        """Return the next item; at the end None, or raise the reason of the end."""
        while not self._items:
            if not self._open:
                if self._ended is not None:
                    raise self._ended
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._take()

    def take_all(self) -> list[T]:
        """Return all items, without waiting."""
        return [self._take() for _ in range(len(self._items))]

    def drop_oldest(self) -> None:
        """Drop the oldest item, for those who cannot let a sender wait."""
        if self._items:
            self._take()

    def end(self, why: Exception | None) -> None:
        """Close the buffer; its items can still be read."""
        if self._open:
            self._open = False
            self._ended = why
            self._changed.set()

    def _take(self) -> T:
        item, size = self._items.popleft()
        self.bytes -= size
        return item
