"""Messages that have come and that nobody has read yet: bounded, and never dropped.

When it is full the socket is no longer read, so that the server waits; beyond `overfull` it is
not read even for an answer that somebody awaits.
"""

import asyncio
from collections import deque

from nearcast.wire.mqtt import Publish

OVERFULL = 16
"""How many times its bound may come in while an answer is awaited."""


class Arrivals:
    """A queue of messages with one end that waits."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._messages: deque[Publish] = deque()
        self._changed = asyncio.Event()
        self._ended: Exception | None = None
        self._open = True
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def full(self) -> bool:
        """Whether no more should be read."""
        return len(self._messages) >= self._most or self.bytes >= self._most_bytes

    @property
    def overfull(self) -> bool:
        """Whether no more may be read, whoever waits for it."""
        return (
            len(self._messages) >= self._most * OVERFULL
            or self.bytes >= self._most_bytes * OVERFULL
        )

    def put(self, message: Publish) -> None:
        """Add what came; the one who calls stops reading when it is full."""
        self._messages.append(message)
        self.bytes += _size(message)
        self._changed.set()

    async def get(self) -> Publish | None:
        """Return the next message; None once there will be none, or raise why there is none."""
        while not self._messages:
            if not self._open:
                if self._ended is not None:
                    raise self._ended
                return None
            self._changed.clear()
            await self._changed.wait()
        message = self._messages.popleft()
        self.bytes -= _size(message)
        return message

    def end(self, why: Exception | None) -> None:
        """No more will come; what is here can still be read."""
        if self._open:
            self._open = False
            self._ended = why
            self._changed.set()


def _size(message: Publish) -> int:
    return len(message.topic) + len(message.payload) + len(message.raw_properties)
