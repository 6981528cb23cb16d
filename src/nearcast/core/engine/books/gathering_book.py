"""The book of what waits: pools of events, each for all subscriptions for which the same waits.

Subscriptions are known by their numbers. Those with equal aggregability for which the same events
wait are in one pool, however many they are; an event that only some of them match divides it. What
changes is noted for the host, which keeps it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

import msgspec
import numpy as np
from msgspec import Struct

from nearcast.core.engine.delivery.match_order import Flags
from nearcast.core.gathering.aggregates.parts import Part
from nearcast.core.gathering.division import Division
from nearcast.core.gathering.needs.aggregability import Aggregability, parse_aggregability
from nearcast.core.gathering.needs.needs import Needs
from nearcast.core.gathering.waiting import WaitingEvent, WaitingFigures
from nearcast.core.matching.tables import I32
from nearcast.core.model.event import Subscription

NO_RULE = -1
MOST_POOLS = 10_000
MOST_WAITING_BYTES = 64 * 1024 * 1024
"""Beyond these bounds the pool that began to wait first is released."""
PoolPlace = tuple[int, str, str]
"""The number of an aggregability, a topic, and the members of a division."""


class Pool:
    """Events that wait together for some subscriptions."""

    __slots__ = (
        "division",
        "figures",
        "followed",
        "id",
        "left",
        "members",
        "needs",
        "place",
        "rule",
        "waiting",
    )

    def __init__(
        self, id_: int, place: PoolPlace, rule: Aggregability, division: Division, members: I32
    ) -> None:
        self.id = id_
        self.place = place
        self.rule = rule
        self.division = division
        self.members = members
        """The numbers of the subscriptions, in ascending order."""
        self.left = 0
        """How many have left since all were noted."""
        self.waiting: list[WaitingEvent] = []
        self.figures = WaitingFigures()
        self.needs: dict[tuple[int, int], Needs] = {}
        """Needs that depend on contexts, by subscription and event, as far as they are known."""
        self.followed: set[str] = set()
        """Nodes on whose contexts needs depend."""

    @property
    def due(self) -> float:
        """The time of ingest at which it is released, whatever is needed."""
        return self.waiting[0].ingested + self.rule.wait_s

    @property
    def is_met(self) -> bool:
        """True if what waits may leave."""
        found = self.figures.figures
        if found.volume >= self.rule.at_most:
            return True
        return not self.rule.depends_on_contexts and self.rule.needs.are_met(found)

    def keep(self, waiting: Iterable[WaitingEvent]) -> None:
        """Hold these events and no others."""
        self.waiting = list(waiting)
        self.figures = WaitingFigures(self.waiting)


class PoolAdded(Struct, frozen=True, gc=False):
    """An event waits in a pool from now on."""

    pool: int
    waiting: WaitingEvent


class PoolRemoved(Struct, frozen=True, gc=False):
    """An event does not wait in a pool any more."""

    pool: int
    number: int


class PoolPut(Struct, frozen=True, gc=False):
    """A pool is new, or is for other subscriptions than before."""

    pool: int
    subject: str
    division: Division
    subscriptions: tuple[str, ...]
    """The ids of those that get more than QoS 0: for these it is kept on disk."""


class PoolLeft(Struct, frozen=True, gc=False):
    """A pool is not for some subscriptions any more."""

    pool: int
    subscriptions: tuple[str, ...]
    """The ids of those that got more than QoS 0."""


class PoolEnded(Struct, frozen=True, gc=False):
    """Nothing waits in a pool any more."""

    pool: int


PoolChange = PoolAdded | PoolRemoved | PoolPut | PoolLeft | PoolEnded


class GatheringBook:
    """Pools by place, and the aggregability of subscriptions by their numbers."""

    def __init__(self) -> None:
        self.count = 0
        """The number of subscriptions that gather."""
        self._durable: dict[int, str] = {}
        """Ids of those that get more than QoS 0, by number."""
        self._rules: dict[int, Aggregability] = {}
        self._numbers_of_rules: dict[bytes, int] = {}
        self._keys_of_rules: dict[int, bytes] = {}
        self._users_of_rules: Counter[int] = Counter()
        self._rules_made = 0
        self._rule_of = np.zeros(0, np.int32)
        """By number of a subscription; `NO_RULE` if it does not gather."""
        self._pools: dict[PoolPlace, list[Pool]] = {}
        self._by_id: dict[int, Pool] = {}
        self._due: list[tuple[float, int]] = []
        """Times at which pools may be due, each with the id of one."""
        self.followed: dict[str, set[int]] = {}
        """Ids of pools whose needs depend on contexts, by node."""
        self._removed: list[tuple[int, int, str]] = []
        """Subscriptions that ended, but are still members of pools: number, aggregability, and the
        id if they got more than QoS 0."""
        self._made = 0
        self._arrived = 0
        self._size = 0
        """The bytes of what waits, about."""
        self.changes: list[PoolChange] = []
        """What changed since it was last taken."""

    # Subscriptions

    def add(self, number: int, subscription: Subscription) -> None:
        """Take a subscription, whether it gathers or not."""
        if self._removed:
            self.settle()
        if subscription.aggregate is None:
            return
        if number >= len(self._rule_of):
            rules = np.full(max(64, 2 * number + 2), NO_RULE, np.int32)
            rules[: len(self._rule_of)] = self._rule_of
            self._rule_of = rules
        rule = self._rule_of[number] = self._rule_number(subscription.aggregate)
        self._users_of_rules[rule] += 1
        if subscription.qos:
            self._durable[number] = subscription.id
        self.count += 1

    def remove(self, number: int) -> None:
        """Drop a subscription; what waits for it alone is let go."""
        rule = int(self._rule_of[number]) if number < len(self._rule_of) else NO_RULE
        if rule == NO_RULE:
            return
        self._rule_of[number] = NO_RULE
        self.count -= 1
        self._removed.append((number, rule, self._durable.pop(number, "")))
        self._users_of_rules[rule] -= 1
        if not self._users_of_rules[rule]:
            del self._users_of_rules[rule], self._rules[rule]
            del self._numbers_of_rules[self._keys_of_rules.pop(rule)]

    @property
    def is_active(self) -> bool:
        """True if some subscription gathers, or something waits."""
        return self.count > 0 or bool(self._by_id)

    def gathers(self, numbers: I32) -> Flags:
        """Return which of the subscriptions gather."""
        return np.not_equal(self.rules_of(numbers), NO_RULE)

    def rules_of(self, numbers: I32) -> I32:
        """Return the numbers of the aggregability of subscriptions."""
        known = len(self._rule_of)
        if not len(numbers) or int(numbers.max()) < known:
            return self._rule_of[numbers]
        found = np.full(len(numbers), NO_RULE, np.int32)
        inside = numbers < known
        found[inside] = self._rule_of[numbers[inside]]
        return found

    def rule(self, number: int) -> Aggregability:
        """The aggregability of a number."""
        return self._rules[number]

    def settle(self) -> None:
        """Take subscriptions that ended out of their pools."""
        if not self._removed:
            return
        gone = np.array([number for number, _, _ in self._removed], np.int32)
        rules = {rule for _, rule, _ in self._removed}
        durable = {number: id_ for number, _, id_ in self._removed if id_}
        self._removed = []
        for pool in list(self._by_id.values()):
            if pool.place[0] not in rules:
                continue
            stays = ~np.isin(pool.members, gone, assume_unique=True)
            if not stays.all():
                self._keep_members(pool, stays, durable)

    # Pools

    @property
    def pools(self) -> Iterator[Pool]:
        """All pools, the oldest first."""
        self.settle()
        return iter(list(self._by_id.values()))

    def next_number(self) -> int:
        """The place of a new event among all that ever waited."""
        self._arrived += 1
        return self._arrived

    def put(
        self, place: PoolPlace, division: Division, members: I32, waiting: WaitingEvent
    ) -> list[Pool]:
        """Let an event wait for subscriptions; return the pools that it is in now.

        Their numbers ascend.
        """
        self.settle()
        parts = waiting.parts()
        found: list[Pool] = []
        for pool in list(self._pools.get(place, ())):
            if members is pool.members or np.array_equal(members, pool.members):
                found.append(pool)
                members = members[:0]
                break
            inside = np.isin(pool.members, members, assume_unique=True)
            if inside.any():
                members = np.setdiff1d(members, pool.members, assume_unique=True)
                found.append(pool if inside.all() else self._divide(pool, inside))
        if len(members):
            found.append(self._new(place, division, members))
        changed = [pool for pool in found if not pool.figures.has(parts)]
        for pool in changed:
            self._append(pool, waiting, parts)
        return changed

    def too_large_with(self, place: PoolPlace, members: I32, more: int, most: int) -> list[Pool]:
        """Return the pools of some subscriptions that would exceed a size with so much more."""
        self.settle()
        return [
            pool
            for pool in self._pools.get(place, ())
            if pool.figures.size + more > most
            and np.isin(pool.members, members, assume_unique=True).any()
        ]

    def end(self, pool: Pool) -> None:
        """Let a pool go."""
        del self._by_id[pool.id]
        self._size -= pool.figures.size
        for node in pool.followed:
            self.followed[node].discard(pool.id)
            if not self.followed[node]:
                del self.followed[node]
        beside = self._pools[pool.place]
        beside.remove(pool)
        if not beside:
            del self._pools[pool.place]
        self.changes.append(PoolEnded(pool.id))

    def keep(self, pool: Pool, waiting: Sequence[WaitingEvent]) -> None:
        """Let only these events of a pool wait on."""
        if not waiting:
            self.end(pool)
            return
        numbers = {each.number for each in waiting}
        gone = [each.number for each in pool.waiting if each.number not in numbers]
        self._hold(pool, waiting)
        self.changes += [PoolRemoved(pool.id, number) for number in gone]
        heappush(self._due, (pool.due, pool.id))

    def rewrite(self, pool: Pool, waiting: Sequence[WaitingEvent]) -> None:
        """Let the same events wait on, with other contents."""
        self._hold(pool, waiting)
        for each in waiting:
            self.changes += [PoolRemoved(pool.id, each.number), PoolAdded(pool.id, each)]

    def move(self, pool: Pool, members: I32, waiting: Sequence[WaitingEvent]) -> Pool | None:
        """Let only these events wait for some members of a pool; return their pool if any do."""
        found = None
        if waiting:
            found = self._new(pool.place, pool.division, members)
            found.needs = _needs_of(pool, members)
            self._hold(found, waiting)
            self.changes += [PoolAdded(found.id, each) for each in waiting]
            heappush(self._due, (found.due, found.id))
        stays = ~np.isin(pool.members, members, assume_unique=True)
        self._keep_members(pool, stays, self._durable)
        return found

    def follow(self, pool: Pool, nodes: Iterable[str]) -> None:
        """Note that what leaves of a pool depends on the contexts of nodes."""
        for node in nodes:
            self.followed.setdefault(node, set()).add(pool.id)
            pool.followed.add(node)

    def pool(self, id_: int) -> Pool | None:
        """The pool of an id; None if it is gone."""
        return self._by_id.get(id_)

    def take_out(self, number: int) -> list[tuple[Pool, list[WaitingEvent]]]:
        """Return what waits for a subscription, by pool, and take it out of them."""
        self.settle()
        found = []
        for pool in list(self._by_id.values()):
            stays = pool.members != number
            if not stays.all():
                found.append((pool, list(pool.waiting)))
                self._keep_members(pool, stays, self._durable)
        return found

    def next_due(self) -> float | None:
        """The time when the next pool is due; None if nothing waits."""
        while self._due:
            at, id_ = self._due[0]
            pool = self._by_id.get(id_)
            if pool is not None and pool.due <= at:
                return at
            heappop(self._due)
            if pool is not None:
                heappush(self._due, (pool.due, pool.id))
        return None

    def due(self, now: float) -> Pool | None:
        """Return a pool that is due, the one that was due first; None if none is."""
        self.settle()
        at = self.next_due()
        return self._by_id[self._due[0][1]] if at is not None and at <= now else None

    def beyond_bounds(self) -> Pool | None:
        """Return the pool that is to make room, None if there is enough."""
        if len(self._by_id) <= MOST_POOLS and self._size <= MOST_WAITING_BYTES:
            return None
        return min(self._by_id.values(), key=lambda each: (each.waiting[0].ingested, each.id))

    def statistics(self) -> dict[str, int]:
        """Return how many subscriptions gather, and what waits for them."""
        return {
            "gathering": self.count,
            "gathering_pools": len(self._by_id),
            "gathering_bytes": self._size,
        }

    def restore(self, id_: int, place: PoolPlace, division: Division, members: I32) -> Pool:
        """Add a pool as it was kept."""
        self._made = max(self._made, id_)
        return self._add_pool(Pool(id_, place, self._rules[place[0]], division, members))

    def refill(self, pool: Pool, waiting: Sequence[WaitingEvent]) -> None:
        """Let events wait in a restored pool."""
        self._hold(pool, waiting)
        self._arrived = max(self._arrived, *(each.number for each in waiting))
        heappush(self._due, (pool.due, pool.id))

    def note_members(self) -> None:
        """Note the members of pools that some have left, so that nothing has the names of these."""
        for pool in self.pools:
            if pool.left:
                self._note(pool)

    def take_changes(self) -> list[PoolChange]:
        """Return what changed since the last call."""
        found, self.changes = self.changes, []
        return found

    def _rule_number(self, aggregate: object) -> int:
        key = msgspec.json.encode(aggregate, order="sorted")
        number = self._numbers_of_rules.get(key)
        if number is None:
            self._rules_made += 1
            number = self._numbers_of_rules[key] = self._rules_made
            self._keys_of_rules[number] = key
            self._rules[number] = parse_aggregability(aggregate)
        return number

    def _new(self, place: PoolPlace, division: Division, members: I32) -> Pool:
        self._made += 1
        rule = self._rules[place[0]]
        pool = self._add_pool(Pool(self._made, place, rule, division, members))
        self._note(pool)
        return pool

    def _note(self, pool: Pool) -> None:
        durable = self._durable
        members = pool.members.tolist() if durable else ()
        ids = tuple(durable[number] for number in members if number in durable)
        pool.left = 0
        self.changes.append(PoolPut(pool.id, pool.place[1], pool.division, ids))

    def _add_pool(self, pool: Pool) -> Pool:
        self._by_id[pool.id] = pool
        self._pools.setdefault(pool.place, []).append(pool)
        return pool

    def _divide(self, pool: Pool, inside: Flags) -> Pool:
        """Return a new pool with what waits in another, for some of its members."""
        found = self._new(pool.place, pool.division, pool.members[inside])
        found.needs = _needs_of(pool, found.members)
        self._hold(found, pool.waiting)
        self.changes += [PoolAdded(found.id, each) for each in found.waiting]
        heappush(self._due, (found.due, found.id))
        self._keep_members(pool, ~inside, self._durable)
        return found

    def _keep_members(self, pool: Pool, stays: Flags, durable: Mapping[int, str]) -> None:
        """Let some members go; `durable` has the ids of those that get more than QoS 0."""
        gone, members = pool.members[~stays].tolist(), pool.members[stays]
        if not len(members):
            self.end(pool)
            return
        pool.members = members
        pool.left += len(gone)
        ids = tuple(durable[number] for number in gone if number in durable)
        if pool.left > len(members):
            # Lists of everybody get shorter by half each time: together twice as long as the first.
            self._note(pool)
        elif ids:
            self.changes.append(PoolLeft(pool.id, ids))

    def _hold(self, pool: Pool, waiting: Iterable[WaitingEvent]) -> None:
        self._size -= pool.figures.size
        pool.keep(waiting)
        self._size += pool.figures.size

    def _append(self, pool: Pool, waiting: WaitingEvent, parts: Sequence[Part]) -> None:
        pool.waiting.append(waiting)
        pool.figures.add(waiting, parts)
        self._size += waiting.size
        if len(pool.waiting) == 1:
            heappush(self._due, (pool.due, pool.id))
        self.changes.append(PoolAdded(pool.id, waiting))


def _needs_of(pool: Pool, members: I32) -> dict[tuple[int, int], Needs]:
    """Return what is known of the needs of some members."""
    numbers = set(members.tolist()) if pool.needs else set()
    return {key: needs for key, needs in pool.needs.items() if key[0] in numbers}
