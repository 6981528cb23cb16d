"""The queue of messages for one recipient: ordered, bounded, and released as its link allows.

The host passes how many acknowledged messages its link takes and, if the recipient is paced, how
many bytes; `take` returns the messages to send. A host whose outbox is full asks it which messages
to drop: the oldest. Expired messages are removed when they reach the front.

All messages of this outbox have the best priority and no deadline; `PriorityOutbox` has the same
methods for others.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

WITHHELD = -1
"""The priority of a message that stays queued unsent."""


class Message(Protocol):
    """What an outbox needs to know about a message."""

    @property
    def size(self) -> int:
        """Its approximate memory, in bytes."""

    @property
    def qos(self) -> int:
        """0: sent without acknowledgement; else it is in flight until acknowledged."""

    @property
    def expires_at(self) -> float | None:
        """The time after which it need not be sent."""

    @property
    def live_key(self) -> str | None:
        """The key of the live event it is a copy of, if a withdrawal removes the copy."""

    @property
    def was_sent(self) -> bool:
        """The recipient may have it already: it must be sent again, before all new messages."""

    @property
    def priority(self) -> int:
        """1 is the best; `WITHHELD` is not sent."""

    def reprioritise(self, priority: int) -> None:
        """Set another priority."""

    @property
    def deadline(self) -> float | None:
        """The time by which it should be sent; after it, one of QoS 0 is dropped."""

    @property
    def flow(self) -> Hashable:
        """Messages of one flow and priority stay in order."""

    @property
    def queued_at(self) -> float:
        """The time when it was queued."""


class Bounds(Protocol):
    """Limits of a recipient's queue."""

    @property
    def queued(self) -> int:
        """The maximum number of messages."""

    @property
    def queued_bytes(self) -> int:
        """The maximum total size of messages."""


M = TypeVar("M", bound=Message)


Taken = tuple[list[M], Sequence[M], Sequence[M]]
"""Messages to send, in this order; expired ones; late ones (QoS 0, past their deadline)."""


class Outbox(Generic[M]):
    """The queue of one recipient."""

    __slots__ = ("_waiting", "unconfirmed", "waiting_bytes")

    has_levels: ClassVar[bool] = False
    """Whether it ever had a message of another priority than the best."""

    def __init__(self) -> None:
        self._waiting: list[M] = []
        self.waiting_bytes = 0
        self.unconfirmed = 0
        """The number of queued messages of QoS 0."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: M, bounds: Bounds) -> bool:
        """Append a message; False if there is no room for it."""
        waiting, waiting_bytes = self._waiting, self.waiting_bytes + message.size
        if len(waiting) >= bounds.queued or waiting_bytes > bounds.queued_bytes:
            return False
        waiting.append(message)
        self.waiting_bytes = waiting_bytes
        if not message.qos:
            self.unconfirmed += 1
        return True

    def make_room(self, message: M, count: int, size: int) -> list[M] | None:
        """Remove and return the messages to drop for a new one: the oldest that were not sent.

        At least so many messages and so many bytes; None, and nothing is removed, if there are not
        enough: then the new message is to be dropped.
        """
        gone: list[M] = []
        for each in self._waiting:
            if count <= 0 and size <= 0:
                break
            if not each.was_sent:
                gone.append(each)
                count, size = count - 1, size - each.size
        if count > 0 or size > 0:
            return None
        if gone:
            start = self._waiting.index(gone[0])
            del self._waiting[start : start + len(gone)]
            self._count(gone, -1)
        return gone

    def restore(self, message: M) -> None:
        """Append a message that was accepted before a restart."""
        self._waiting.append(message)
        self._count((message,), 1)

    def put_back(self, messages: Sequence[M]) -> None:
        """Put messages that must be sent again at the front, in this order."""
        self._waiting[:0] = messages
        self._count(messages, 1)

    def ready(
        self, places: int, in_flight: int = 0, lower: int = 0, allowance: int | None = None
    ) -> list[M]:
        """The messages that may be sent now.

        A recipient takes as many acknowledged messages at once as it has `places`; so many are in
        flight, and `lower` of those were not of the best priority. A paced recipient has an
        `allowance` in bytes; the message that exceeds it is still sent.
        """
        return self._waiting[: self._count_ready(places - in_flight, allowance)]

    def _count_ready(self, room: int, allowance: int | None) -> int:
        waiting = self._waiting
        for count, message in enumerate(waiting):
            if message.qos:
                if room <= 0:
                    return count
                room -= 1
            if allowance is not None:
                if allowance <= 0:
                    return count
                allowance -= message.size
        return len(waiting)

    def take(
        self,
        now: float,
        places: int,
        in_flight: int = 0,
        lower: int = 0,
        allowance: int | None = None,
    ) -> Taken[M]:
        """Remove the messages that may be sent now, as for `ready`, and the expired ones."""
        waiting, room = self._waiting, places - in_flight
        count = len(waiting)
        if allowance is not None or room < count - self.unconfirmed:
            count = self._count_ready(room, allowance)
        if count == len(waiting):
            taken, self._waiting = waiting, []
            self.waiting_bytes = self.unconfirmed = 0
        else:
            taken = waiting[:count]
            del waiting[:count]
            self._count(taken, -1)
        expired: list[M] = []
        for each in taken:
            expires_at = each.expires_at
            if expires_at is not None and expires_at <= now and not each.was_sent:
                expired.append(each)
        if expired:
            gone = set(map(id, expired))
            taken = [each for each in taken if id(each) not in gone]
        return taken, expired, ()

    def drop(self, unwanted: Callable[[M], bool]) -> list[M]:
        """Remove and return the messages for which `unwanted` is true."""
        return self._remove([each for each in self._waiting if unwanted(each)])

    def withdraw(self, live_key: str, ready: Iterable[M]) -> list[M]:
        """Remove and return queued copies of a live event, except those that are about to leave.

        Copies that the recipient may have already stay too: it will also need the withdrawal.
        """
        return self.drop(is_copy(live_key, ready))

    def fits(self, message: M, bounds: Bounds) -> bool:
        """Whether there is room for a message without dropping another."""
        return (
            len(self._waiting) < bounds.queued
            and self.waiting_bytes + message.size <= bounds.queued_bytes
        )

    def has_room(self, bounds: Bounds) -> bool:
        """True if the queue is at most half full."""
        return (
            2 * len(self._waiting) <= bounds.queued
            and 2 * self.waiting_bytes <= bounds.queued_bytes
        )

    def by_priority(self) -> dict[int, tuple[int, float]]:
        """How many messages of each priority wait, and since when the oldest does."""
        waiting = self._waiting
        return {1: (len(waiting), waiting[0].queued_at)} if waiting else {}

    def messages(self) -> list[M]:
        """All messages; those that must be sent again first, the others by arrival."""
        return list(self._waiting)

    def statistics(self) -> dict[str, int]:
        """Length and size of the queue."""
        return {"waiting": len(self._waiting), "waiting_bytes": self.waiting_bytes}

    def validate_state(self) -> None:
        """Assert the invariants."""
        waiting = self._waiting
        assert self.waiting_bytes == sum(each.size for each in waiting)
        assert self.unconfirmed == sum(not each.qos for each in waiting)
        sent = [each.was_sent for each in waiting]
        assert sent == sorted(sent, reverse=True), "what was sent before goes before what is new"
        assert all(each.was_sent or not needs_levels(each) for each in waiting)

    def _remove(self, gone: list[M]) -> list[M]:
        if gone:
            removed = set(map(id, gone))
            self._waiting = [each for each in self._waiting if id(each) not in removed]
            self._count(gone, -1)
        return gone

    def _count(self, messages: Sequence[M], change: int) -> None:
        self.waiting_bytes += change * sum(each.size for each in messages)
        self.unconfirmed += change * sum(not each.qos for each in messages)


def needs_levels(message: Message) -> bool:
    """Whether a message has another place than at the end of a plain queue."""
    return message.priority != 1 or message.deadline is not None


def is_copy(live_key: str, ready: Iterable[M]) -> Callable[[M], bool]:
    """A test for copies of a live event that are neither about to leave nor sent before."""
    leaving = set(map(id, ready))
    return lambda each: each.live_key == live_key and not each.was_sent and id(each) not in leaving
