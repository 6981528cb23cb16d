"""Discovery: the proximities that concern a node where it is, learned from beacons (seed D).

A proximity is in the list while the node is inside it and hears of it. A stationary one is left
when the node moves out; a mobile one by its latest naval, when a beacon or an event tells it; both
expire when nothing was heard for some periods. Events of one subject have one structure: as long as
one is known, beacons that say otherwise are ignored.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from nearcast.core.model.geometry.position import Position, position
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.discovery.group_id import group_id
from nearcast.core.proximity.discovery.proximity import Proximity, read_proximity
from nearcast.core.proximity.messages import Beacon, LatLon

Key = tuple[str, str, bool]
"""Producer, subject, and whether it is sought by a consumer."""


class Discovered(Struct):
    """A proximity of another node."""

    beacon: Beacon
    """The latest one."""
    proximity: Proximity
    group: int
    naval: Position
    naval_time: float
    scale: float
    expires_at: float

    @property
    def key(self) -> Key:
        """What it is known by."""
        return key_of(self.beacon)

    @property
    def type(self) -> EventType:
        """The type of its events."""
        return self.beacon.type

    def holds(self, at: Position) -> bool:
        """Return whether a position is inside, by the latest naval."""
        return self.proximity.holds(at, self.naval, self.scale)

    def move(self, naval: LatLon, scale: float, time: float) -> bool:
        """Move it, unless something later is known; return whether it is of now."""
        if time < self.naval_time:
            return False
        self.naval, self.scale, self.naval_time = Position(*naval), scale, time
        return True


class ProximityList:
    """All proximities that are relevant here."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._by_key: dict[Key, Discovered] = {}
        self._by_group: dict[int, dict[Key, Discovered]] = {}
        self._sought: dict[Key, Discovered] = {}
        self._heard: dict[Key, tuple[int, int, float]] = {}
        """Incarnation and number of the latest beacon, and until when an older one may come."""
        self._next_expiry = math.inf
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Discovered]:
        return iter(self._by_key.values())

    def get(self, key: Key) -> Discovered | None:
        """Return what is known by a key."""
        return self._by_key.get(key)

    def of_group(self, group: int) -> Iterable[Discovered]:
        """Return the proximities whose events are sent in a group."""
        return self._by_group.get(group, {}).values()

    @property
    def sought(self) -> Iterable[Discovered]:
        """Those that consumers seek."""
        return self._sought.values()

    def is_new(self, beacon: Beacon, until: float) -> bool:
        """Return whether a beacon is later than all heard of its kind, and remember it."""
        key = key_of(beacon)
        known = self._heard.get(key)
        if known is not None and (beacon.incarnation, beacon.number) <= known[:2]:
            return False
        self._heard.pop(key, None)
        if len(self._heard) >= 4 * self._most:
            self._heard.pop(next(iter(self._heard)))
        self._heard[key] = beacon.incarnation, beacon.number, until
        return True

    def structure_of(self, subject: str) -> EventType | None:
        """Return the type of a subject, if somebody here announces it."""
        for each in self._by_key.values():
            if each.type.subject == subject and not each.beacon.sought:
                return each.type
        return None

    def add(self, beacon: Beacon, expires_at: float) -> tuple[Discovered, list[Discovered]]:
        """Learn a proximity, or news of one; return it, and what it replaces or displaces."""
        key = key_of(beacon)
        described = described_by(beacon)
        known, gone = self._by_key.get(key), []
        if known is not None and (
            known.proximity != described
            or known.type != beacon.type
            or known.beacon.incarnation != beacon.incarnation
        ):
            self.remove(known)
            gone.append(known)
            known = None
        if known is None:
            gone += self._displaced(beacon.producer)
            group = group_id(beacon.type, described)
            at = Position(*beacon.naval)
            known = Discovered(beacon, described, group, at, beacon.time, beacon.scale, expires_at)
            self._by_key[key] = known
            self._by_group.setdefault(group, {})[key] = known
            if beacon.sought:
                self._sought[key] = known
        else:
            known.beacon = beacon
            known.move(beacon.naval, beacon.scale, beacon.time)
            known.expires_at = expires_at
        self._next_expiry = min(self._next_expiry, expires_at)
        return known, gone

    def remove(self, found: Discovered) -> None:
        """Forget a proximity."""
        if self._by_key.get(found.key) is found:
            del self._by_key[found.key]
            self._sought.pop(found.key, None)
            group = self._by_group[found.group]
            del group[found.key]
            if not group:
                del self._by_group[found.group]

    def expired(self, now: float) -> list[Discovered]:
        """Remove and return what fell silent."""
        if now < self._next_expiry:
            return []
        gone = [each for each in self._by_key.values() if each.expires_at <= now]
        for each in gone:
            self.remove(each)
        for key in [key for key, heard in self._heard.items() if heard[2] <= now]:
            del self._heard[key]
        self._next_expiry = min(
            (each.expires_at for each in self._by_key.values()), default=math.inf
        )
        return gone

    @property
    def wake_at(self) -> float:
        """When something may expire."""
        return self._next_expiry

    def _displaced(self, producer: str) -> list[Discovered]:
        """Make room for one more: those that expire first give way, a producer's own before."""
        own = [each for each in self._by_key.values() if each.beacon.producer == producer]
        crowd = own if len(own) >= self._most_of_one else None
        if crowd is None and len(self._by_key) >= self._most:
            crowd = list(self._by_key.values())
        if not crowd:
            return []
        first = min(crowd, key=lambda each: each.expires_at)
        self.remove(first)
        self.evicted += 1
        return [first]


def key_of(beacon: Beacon) -> Key:
    """Return what the proximity of a beacon is known by."""
    return beacon.producer, beacon.type.subject, beacon.sought


def described_by(beacon: Beacon) -> Proximity:
    """Return the proximity of a beacon, or raise `ModelError`."""
    return _read(beacon.area, beacon.initial, beacon.grow_s)


@lru_cache(4_096)
def _read(area: str, initial: LatLon, grow_s: float) -> Proximity:
    return read_proximity(area, position(*initial), grow_s)
