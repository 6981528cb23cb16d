"""The queue of messages for one recipient: ordered, bounded, and released as its link allows.

The host passes how many acknowledged messages its link takes now and, if the recipient is paced,
how many bytes; `take` returns the messages to send. When the outbox is full, the new message is
dropped. Expired messages are removed when they reach the front.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar


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


class Bounds(Protocol):
    """Limits of a recipient's queue."""

    @property
    def queued(self) -> int:
        """The maximum number of messages."""

    @property
    def queued_bytes(self) -> int:
        """The maximum total size of messages."""


M = TypeVar("M", bound=Message)


class Outbox(Generic[M]):
    """The queue of one recipient."""

    __slots__ = ("_waiting", "unconfirmed", "waiting_bytes")

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

    def take_back(self) -> None:
        """Remove the message that was put last."""
        self._count((self._waiting.pop(),), -1)

    def restore(self, message: M) -> None:
        """Append a message that was accepted before a restart."""
        self._waiting.append(message)
        self._count((message,), 1)

    def put_back(self, messages: Sequence[M]) -> None:
        """Put messages that must be sent again at the front, in this order."""
        self._waiting[:0] = messages
        self._count(messages, 1)

    def ready(self, room: int, allowance: int | None = None) -> int:
        """The number of messages at the front that may be sent now.

        `room` is the number of acknowledged messages that may be sent. A paced recipient has an
        `allowance` in bytes; the message that exceeds it is still sent.
        """
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

    def take(self, now: float, room: int, allowance: int | None = None) -> tuple[list[M], list[M]]:
        """Remove the messages that may be sent now; return those to send, and the expired ones."""
        waiting = self._waiting
        count = len(waiting)
        if allowance is not None or room < count - self.unconfirmed:
            count = self.ready(room, allowance)
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
        return taken, expired

    def drop(self, unwanted: Callable[[M], bool]) -> list[M]:
        """Remove and return the messages for which `unwanted` is true."""
        return self._remove([each for each in self._waiting if unwanted(each)])

    def withdraw(self, live_key: str, ready: int) -> list[M]:
        """Remove and return queued copies of a live event, except among the first `ready`.

        Copies that the recipient may have already stay too: it will also need the withdrawal.
        """
        return self._remove(
            [
                each
                for place, each in enumerate(self._waiting)
                if place >= ready and each.live_key == live_key and not each.was_sent
            ]
        )

    def has_room(self, bounds: Bounds) -> bool:
        """True if the queue is at most half full."""
        return (
            2 * len(self._waiting) <= bounds.queued
            and 2 * self.waiting_bytes <= bounds.queued_bytes
        )

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

    def _remove(self, gone: list[M]) -> list[M]:
        if gone:
            removed = set(map(id, gone))
            self._waiting = [each for each in self._waiting if id(each) not in removed]
            self._count(gone, -1)
        return gone

    def _count(self, messages: Sequence[M], change: int) -> None:
        self.waiting_bytes += change * sum(each.size for each in messages)
        self.unconfirmed += change * sum(not each.qos for each in messages)
