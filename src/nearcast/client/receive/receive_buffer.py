"""What has come and nobody has read yet: bounded, and never dropped.

When it is full the socket is no longer read, so that the server waits; beyond `overfull` it is
not read even for an answer that somebody awaits.
"""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

OVERFULL = 16
"""How many times its bound may come in while an answer is awaited."""


class ReceiveBuffer(Generic[T]):
    """A queue with one end that waits."""

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
        """Whether no more should be read."""
        return len(self._items) >= self._most or self.bytes >= self._most_bytes

    @property
    def overfull(self) -> bool:
        """Whether no more may be read, whoever waits for it."""
        return len(self._items) >= self._most * OVERFULL or (
            self.bytes >= self._most_bytes * OVERFULL
        )

    def put(self, item: T, size: int) -> None:
        """Add what came; the one who calls stops reading when it is full."""
        self._items.append((item, size))
        self.bytes += size
        self._changed.set()

    async def get(self) -> T | None:
        """Return the next one; None once there will be none, or raise why there is none."""
        while not self._items:
            if not self._open:
                if self._ended is not None:
                    raise self._ended
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._take()

    def take_all(self) -> list[T]:
        """Return all that is here, without waiting."""
        return [self._take() for _ in range(len(self._items))]

    def end(self, why: Exception | None) -> None:
        """No more will come; what is here can still be read."""
        if self._open:
            self._open = False
            self._ended = why
            self._changed.set()

    def _take(self) -> T:
        item, size = self._items.popleft()
        self.bytes -= size
        return item
