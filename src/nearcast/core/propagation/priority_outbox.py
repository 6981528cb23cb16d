"""A queue with priority levels: the best goes first, and the others get a guaranteed share.

A level becomes due when `share_bytes` of better levels have left since one of its own did, or since
it began to wait; then the first message of the best level that is due is next. Levels below the
first take at most half of the places of a recipient, and leave at least one for each other. What
was sent before goes before everything; what is withheld stays unsent. When the queue is full,
withheld messages are dropped first, then those of the lowest priority, the oldest first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Generic, TypeVar

from nearcast.core.propagation.outbox import (
    WITHHELD,
    Bounds,
    Message,
    Taken,
    is_copy,
)
from nearcast.core.propagation.priority_level import PriorityLevel

M = TypeVar("M", bound=Message)


class PriorityOutbox(Generic[M]):
    """The queue of one recipient that has messages of several priorities, or with deadlines."""

    __slots__ = (
        "_again", "_arrivals", "_levels", "_share_bytes", "_size", "has_levels", "unconfirmed",
        "waiting_bytes",
    )  # fmt: skip

    def __init__(self, share_bytes: int, messages: Iterable[M] = ()) -> None:
        """Take over messages that waited in another outbox."""
        self._share_bytes = share_bytes
        self._again: list[M] = []
        """Messages that must be sent again, in this order."""
        self._levels: dict[int, PriorityLevel[M]] = {}
        """By priority, the best first; the withheld ones are a level too, without an order."""
        self.has_levels = False
        """Whether it ever had a message of another priority than the best."""
        self._arrivals = 0
        self._size = 0
        self.waiting_bytes = 0
        self.unconfirmed = 0
        """The number of queued messages of QoS 0 that are not withheld."""
        for message in messages:
            if message.was_sent:
                self._again.append(message)
                self._count(message, 1)
                self.has_levels = self.has_levels or message.priority != 1
            else:
                self.restore(message)

    def __len__(self) -> int:
        return self._size

    def put(self, message: M, bounds: Bounds) -> bool:
        """Add a message; False if there is no room for it."""
        if self._size >= bounds.queued or self.waiting_bytes + message.size > bounds.queued_bytes:
            return False
        self.restore(message)
        return True

    def restore(self, message: M) -> None:
        """Add a message without regard to bounds, such as one that was accepted before."""
        self._append(self._arrivals, message)
        self._arrivals += 1
        self._count(message, 1)

    def put_back(self, messages: Sequence[M]) -> None:
        """Put messages that must be sent again at the front, in this order."""
        self._again[:0] = messages
        for each in messages:
            self._count(each, 1)
            self.has_levels = self.has_levels or each.priority != 1

    def make_room(self, message: M, count: int, size: int) -> list[M] | None:
        """Remove and return the messages to drop for a new one, the least urgent first.

        At least so many messages and so many bytes; None, and nothing is removed, if there are not
        enough that are to be dropped before it: then the new message is.
        """
        below = list(self._dropped_before(message.priority))
        if count > sum(map(len, below)) or size > sum(each.waiting_bytes for each in below):
            return None
        gone: list[M] = []
        for level in below:
            while level and (count > 0 or size > 0):
                each = level.pop_oldest()
                self._count(each, -1)
                gone.append(each)
                count, size = count - 1, size - each.size
        self._levels = {p: each for p, each in self._levels.items() if each}
        return gone

    def ready(
        self, places: int, in_flight: int = 0, lower: int = 0, allowance: int | None = None
    ) -> list[M]:
        """The messages that may be sent now, in their order; see `Outbox.ready`."""
        twin: PriorityOutbox[M] = PriorityOutbox(self._share_bytes, self.messages())
        twin.has_levels = self.has_levels
        for priority, level in self._levels.items():
            twin._levels[priority].passed_bytes = level.passed_bytes
        return twin.take(-inf, places, in_flight, lower, allowance)[0]

    def take(
        self,
        now: float,
        places: int,
        in_flight: int = 0,
        lower: int = 0,
        allowance: int | None = None,
    ) -> Taken[M]:
        """Remove the messages that may be sent now, and those that are expired or late."""
        room = _Room(places, in_flight, allowance)
        if self.has_levels:
            room.divide(places, in_flight, lower)
        ready: list[M] = []
        expired: list[M] = []
        late: list[M] = []
        again = 0
        for message in self._again:
            if not room.has(message):
                break
            room.use(message)
            self._count(message, -1)
            again += 1
        ready += self._again[:again]
        del self._again[:again]
        while not self._again and (priority := self._next_level(room)) is not None:
            level = self._levels[priority]
            message = level.pop_first()
            self._count(message, -1)
            if message.expires_at is not None and message.expires_at <= now:
                expired.append(message)
            elif not message.qos and message.deadline is not None and message.deadline < now:
                late.append(message)
            else:
                ready.append(message)
                room.use(message)
                level.passed_bytes = 0
                for level_below, other in self._levels.items():
                    if level_below > priority:
                        other.passed_bytes += message.size
            if not level:
                del self._levels[priority]
        return ready, expired, late

    def reprioritise(self, priority_of: Callable[[M], int]) -> int:
        """Give the messages that were not sent other priorities; return how many became withheld.

        Messages of one priority keep the order in which they arrived. A level that goes on waiting
        keeps what it waited for its share.
        """
        levels, self._levels = self._levels, {}
        withheld = 0
        for arrival, message in _by_arrival(levels):
            before, after = message.priority, priority_of(message)
            if after != before:
                self._count(message, -1)
                message.reprioritise(after)
                self._count(message, 1)
                withheld += after == WITHHELD
            self._append(arrival, message)
        for priority, level in self._levels.items():
            if priority in levels:
                level.passed_bytes = levels[priority].passed_bytes
        return withheld

    def drop(self, unwanted: Callable[[M], bool]) -> list[M]:
        """Remove and return the messages for which `unwanted` is true."""
        gone = [each for each in self._again if unwanted(each)]
        if gone:
            removed = set(map(id, gone))
            self._again = [each for each in self._again if id(each) not in removed]
        found = [(arrival, each) for arrival, each in _by_arrival(self._levels) if unwanted(each)]
        for priority in {each.priority for _, each in found}:
            self._levels[priority].remove(
                arrival for arrival, each in found if each.priority == priority
            )
            if not self._levels[priority]:
                del self._levels[priority]
        gone += [each for _, each in found]
        for each in gone:
            self._count(each, -1)
        return gone

    def withdraw(self, live_key: str, ready: Iterable[M]) -> list[M]:
        """Remove and return queued copies of a live event, except those that are about to leave.

        Copies that the recipient may have already stay too: it will also need the withdrawal.
        """
        return self.drop(is_copy(live_key, ready))

    def fits(self, message: M, bounds: Bounds) -> bool:
        """Whether there is room for a message without dropping another that is not withheld."""
        count, size = self._not_withheld()
        return count < bounds.queued and size + message.size <= bounds.queued_bytes

    def has_room(self, bounds: Bounds) -> bool:
        """True if the queue is at most half full, not counting withheld messages."""
        count, size = self._not_withheld()
        return 2 * count <= bounds.queued and 2 * size <= bounds.queued_bytes

    def by_priority(self) -> dict[int, tuple[int, float]]:
        """How many messages of each priority wait, and since when the oldest does."""
        found = {p: (len(each), each.oldest().queued_at) for p, each in self._levels.items()}
        for message in self._again:
            count, since = found.get(message.priority, (0, inf))
            found[message.priority] = count + 1, min(since, message.queued_at)
        return found

    def messages(self) -> list[M]:
        """All messages; those that must be sent again first, the others by arrival."""
        return self._again + [each for _, each in _by_arrival(self._levels)]

    def statistics(self) -> dict[str, int]:
        """Length and size of the queue."""
        return {"waiting": self._size, "waiting_bytes": self.waiting_bytes}

    def validate_state(self) -> None:
        """Assert the invariants."""
        messages = self.messages()
        assert self._size == len(messages)
        assert self.waiting_bytes == sum(each.size for each in messages)
        assert self.unconfirmed == sum(_is_unconfirmed(each) for each in messages)
        assert all(each.was_sent for each in self._again)
        assert self.has_levels or all(each.priority == 1 for each in messages)
        assert not [p for p in self._levels if p < 1 and p != WITHHELD]
        assert list(self._levels) == sorted(self._levels)
        for priority, level in self._levels.items():
            level.validate_state()
            for each in level.messages.values():
                assert each.priority == priority
                assert not each.was_sent

    def _not_withheld(self) -> tuple[int, int]:
        """The number and size of the messages that are not withheld."""
        withheld = self._levels.get(WITHHELD)
        if withheld is None:
            return self._size, self.waiting_bytes
        return self._size - len(withheld), self.waiting_bytes - withheld.waiting_bytes

    def _append(self, arrival: int, message: M) -> None:
        priority = message.priority
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = PriorityLevel()
            if priority != 1:
                self.has_levels = True
            if len(self._levels) > 1:
                self._levels = dict(sorted(self._levels.items()))
        level.append(arrival, message)

    def _next_level(self, room: "_Room") -> int | None:
        """The priority of the message that leaves next: of the best level that is due, or best."""
        best: int | None = None
        for priority, level in self._levels.items():
            if priority != WITHHELD and room.has(level.first()):
                if level.passed_bytes >= self._share_bytes:
                    return priority
                if best is None:
                    best = priority
        return best

    def _dropped_before(self, priority: int) -> Iterator[PriorityLevel[M]]:
        """The levels whose messages are dropped before a new one of this priority."""
        levels = self._levels
        if WITHHELD in levels:
            yield levels[WITHHELD]
        if priority != WITHHELD:
            for each in reversed(levels):
                if each >= priority:
                    yield levels[each]

    def _count(self, message: M, change: int) -> None:
        self._size += change
        self.waiting_bytes += change * message.size
        if _is_unconfirmed(message):
            self.unconfirmed += change


class _Room:
    """What a recipient still takes: messages in flight, of each kind of level, and bytes."""

    __slots__ = ("_allowance", "_first", "_lower", "_room")

    def __init__(self, places: int, in_flight: int, allowance: int | None) -> None:
        self._room = self._first = self._lower = places - in_flight
        self._allowance = allowance

    def divide(self, places: int, in_flight: int, lower: int) -> None:
        """Keep a place for each kind of level."""
        self._first = max(1, places - 1) - (in_flight - lower)
        self._lower = max(1, places // 2) - lower

    def has(self, message: Message) -> bool:
        """Whether a message may be sent; one that was sent before needs any place."""
        if self._allowance is not None and self._allowance <= 0:
            return False
        if not message.qos:
            return True
        of_level = self._first if message.priority == 1 else self._lower
        return self._room > 0 and (of_level > 0 or message.was_sent)

    def use(self, message: Message) -> None:
        """Count a message that is sent."""
        if self._allowance is not None:
            self._allowance -= message.size
        if message.qos:
            self._room -= 1
            if message.priority == 1:
                self._first -= 1
            else:
                self._lower -= 1


def _by_arrival(levels: dict[int, PriorityLevel[M]]) -> list[tuple[int, M]]:
    found = [item for level in levels.values() for item in level.messages.items()]
    return sorted(found, key=lambda item: item[0]) if len(levels) > 1 else found


def _is_unconfirmed(message: Message) -> bool:
    return not message.qos and message.priority != WITHHELD
