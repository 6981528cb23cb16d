"""What waits for subscriptions that gather, on disk: for those that get more than QoS 0.

Events of QoS 1 and 2 are stored in the tick that acknowledges them, and go in the tick in which
what they are part of leaves. So a release is one commit: a crash loses and doubles nothing.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from nearcast.broker.durability.journal import Journal
from nearcast.core.engine.books.gathering_book import (
    PoolAdded,
    PoolChange,
    PoolEnded,
    PoolLeft,
    PoolPut,
    PoolRemoved,
)
from nearcast.core.gathering.waiting import WaitingEvent, WaitingPool
from nearcast.store import (
    Forgotten,
    Kept,
    decoded_ids,
    decoded_pool,
    decoded_waiting,
    encoded_ids,
    encoded_pool,
    encoded_waiting,
)

POOLS, WAITING = "waiting pools", "waiting events"
HIDDEN_GROUPS, HIDDEN = "hidden groups", "hidden events"
"""The spaces of the store; an event is under the id of its pool and its number."""
LEFT = "waiting pools left"
"""The space of the subscriptions that left a pool after it was stored, which may have very many."""


class WaitingRecorder:
    """Notes what changes, and reads it back."""

    def __init__(self, pools: str = POOLS, events: str = WAITING) -> None:
        self._pool_space, self._event_space = pools, events
        self._stored: dict[int, set[int]] = {}
        """Numbers of the stored events of each stored pool."""
        self._left: dict[int, int] = {}
        """How often subscriptions left each stored pool since it was stored."""
        self._gone: dict[int, set[str]] = {}
        self._pools: dict[int, WaitingPool] = {}
        self._events: dict[int, list[WaitingEvent]] = {}

    def record(self, changes: Iterable[PoolChange], journal: Journal) -> None:
        """Note changes of pools."""
        for change in changes:
            match change:
                case PoolPut():
                    self._put(change, journal)
                case PoolAdded(pool, waiting) if pool in self._stored and waiting.event.qos:
                    self._stored[pool].add(waiting.number)
                    key, value = _key(pool, waiting.number), encoded_waiting(waiting)
                    journal.note(Kept(self._event_space, key, value), sync=False)
                case PoolRemoved(pool, number) if number in self._stored.get(pool, ()):
                    self._stored[pool].discard(number)
                    journal.note(Forgotten(self._event_space, _key(pool, number)), sync=False)
                case PoolLeft(pool, gone) if pool in self._stored:
                    count = self._left[pool] = self._left.get(pool, 0) + 1
                    journal.note(Kept(LEFT, _key(pool, count), encoded_ids(gone)), sync=False)
                case PoolEnded(pool):
                    self._end(pool, journal)

    def _put(self, change: PoolPut, journal: Journal) -> None:
        if not change.subscriptions:
            self._end(change.pool, journal)
            return
        self._stored.setdefault(change.pool, set())
        self._forget_left(change.pool, journal)
        pool = WaitingPool(change.pool, change.subject, change.division, change.subscriptions, ())
        journal.note(Kept(self._pool_space, str(pool.id), encoded_pool(pool)), sync=False)

    def _end(self, pool: int, journal: Journal) -> None:
        numbers = self._stored.pop(pool, None)
        if numbers is None:
            return
        journal.note(Forgotten(self._pool_space, str(pool)), sync=False)
        self._forget_left(pool, journal)
        for number in sorted(numbers):
            journal.note(Forgotten(self._event_space, _key(pool, number)), sync=False)

    def _forget_left(self, pool: int, journal: Journal) -> None:
        for count in range(self._left.pop(pool, 0)):
            journal.note(Forgotten(LEFT, _key(pool, count + 1)), sync=False)

    def restore(self, space: str, value: bytes, key: str) -> None:
        """Take a stored pool or event, or who left a pool."""
        if space == LEFT:
            id_, count = (int(part) for part in key.split("/"))
            self._left[id_] = max(count, self._left.get(id_, 0))
            self._gone.setdefault(id_, set()).update(decoded_ids(value))
        elif space == self._pool_space:
            pool = decoded_pool(value)
            self._pools[pool.id] = pool
            self._stored.setdefault(pool.id, set())
        else:
            id_, waiting = int(key.partition("/")[0]), decoded_waiting(value)
            self._events.setdefault(id_, []).append(waiting)
            self._stored.setdefault(id_, set()).add(waiting.number)

    def take_restored(self) -> list[WaitingPool]:
        """Return the stored pools with their events, once."""
        pools, self._pools = self._pools, {}
        events, self._events = self._events, {}
        gone = self._gone
        found = []
        for id_, pool in sorted(pools.items()):
            waiting = sorted(events.get(id_, ()), key=lambda each: each.number)
            left = gone.get(id_, ())
            stay = tuple(each for each in pool.subscriptions if each not in left)
            found.append(replace(pool, subscriptions=stay, events=tuple(waiting)))
        return found

    def store_anew(self, pools: Iterable[WaitingPool], journal: Journal) -> None:
        """Store restored pools that some had left, without these."""
        gone, self._gone = self._gone, {}
        for pool in pools:
            if pool.id in gone:
                put = PoolPut(pool.id, pool.subject, pool.division, pool.subscriptions)
                self._put(put, journal)

    def end_others(self, pools: Iterable[WaitingPool], journal: Journal) -> None:
        """End stored pools that are not among these."""
        for id_ in self._stored.keys() - {pool.id for pool in pools}:
            self._end(id_, journal)


def _key(pool: int, number: int) -> str:
    return f"{pool}/{number}"
