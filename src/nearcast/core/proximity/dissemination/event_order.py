"""Order: the events of a producer and subject, one after the other, or not at all.

An event that comes before an earlier one waits for it, but no longer than a bound; what comes after
a later one was delivered is late, and discarded.
"""

import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from msgspec import Struct

from nearcast.core.proximity.messages import EventMessage

MOST_WAITING = 64
"""Of one stream; beyond it the gap is given up."""
MOST_STREAMS = 10_000


T = TypeVar("T")


class _Stream(Struct, Generic[T]):
    expected: int
    waiting: dict[int, T] = {}
    gives_up_at: float = math.inf


class EventOrder(Generic[T]):
    """The streams of all producers that promise an order."""

    def __init__(
        self, wait_s: float, first_waits: bool, message_of: Callable[[T], EventMessage]
    ) -> None:
        self._wait_s = wait_s
        self._first_waits = first_waits
        """True if the first event of a stream waits for earlier ones, which may be recovered."""
        self._message_of = message_of
        self._streams: dict[Hashable, _Stream[T]] = {}
        self._wake_at = math.inf
        """No stream gives up earlier."""
        self.late = 0

    def offer(self, item: T, now: float) -> list[T]:
        """Take an event; return those that can be delivered now, in order."""
        message = self._message_of(item)
        key = message.producer, message.incarnation, message.subject
        stream = self._streams.get(key)
        if stream is None:
            expected = 1 if self._first_waits else message.sequence
            stream = self._streams[key] = _Stream(expected)
            self._forget_oldest()
        if message.sequence < stream.expected:
            self.late += 1
            return []
        stream.waiting[message.sequence] = item
        found = _in_sequence(stream)
        if not stream.waiting:
            stream.gives_up_at = math.inf
        elif found or stream.gives_up_at == math.inf:
            stream.gives_up_at = now + self._wait_s
            self._wake_at = min(self._wake_at, stream.gives_up_at)
        if len(stream.waiting) > MOST_WAITING:
            found += _skip_gap(stream)
        return found

    def elapse(self, now: float) -> list[T]:
        """Return the events whose wait is over, in order."""
        if now < self._wake_at:
            return []
        found: list[T] = []
        for stream in self._streams.values():
            while stream.gives_up_at <= now:
                found += _skip_gap(stream)
        self._wake_at = min((each.gives_up_at for each in self._streams.values()), default=math.inf)
        return found

    def _forget_oldest(self) -> None:
        """Forget the oldest stream in which nothing waits, if there are too many."""
        if len(self._streams) > MOST_STREAMS:
            idle = (key for key, each in self._streams.items() if not each.waiting)
            self._streams.pop(next(idle, next(iter(self._streams))))

    @property
    def wake_at(self) -> float:
        """When `elapse` is due."""
        return self._wake_at


def _in_sequence(stream: _Stream[T]) -> list[T]:
    found = []
    while stream.expected in stream.waiting:
        found.append(stream.waiting.pop(stream.expected))
        stream.expected += 1
    return found


def _skip_gap(stream: _Stream[T]) -> list[T]:
    """Give up the earliest gap: deliver what follows it, and wait no more unless another one is."""
    stream.expected = min(stream.waiting)
    found = _in_sequence(stream)
    if not stream.waiting:
        stream.gives_up_at = math.inf
    return found
