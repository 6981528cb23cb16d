"""Overheard beacons: proximities near a node that is outside, so that it need not wait inside.

A radio reaches farther than a small proximity. Who keeps the beacons that it overhears knows a
proximity in the moment in which it enters, however fast it moves.
"""

from msgspec import Struct

from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.discovery.discovery import Key, key_of
from nearcast.core.proximity.discovery.proximity import Proximity
from nearcast.core.proximity.messages import Beacon


class _Overheard(Struct):
    beacon: Beacon
    proximity: Proximity
    naval: Position
    expires_at: float


class OverheardBeacons:
    """The latest beacons of proximities that this node is not in."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_key: dict[Key, _Overheard] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def put(self, beacon: Beacon, proximity: Proximity, expires_at: float) -> None:
        """Keep a beacon."""
        self.forget(beacon)
        while len(self._by_key) >= self._most:
            self._by_key.pop(next(iter(self._by_key)))
        found = _Overheard(beacon, proximity, Position(*beacon.naval), expires_at)
        self._by_key[key_of(beacon)] = found

    def forget(self, beacon: Beacon) -> None:
        """Forget the beacon of a proximity."""
        self._by_key.pop(key_of(beacon), None)

    def entered(self, here: Position, now: float) -> list[tuple[Beacon, float]]:
        """Remove and return the beacons of those that a position is in, and when they expire."""
        found = []
        for key, each in list(self._by_key.items()):
            if each.expires_at <= now:
                del self._by_key[key]
            elif each.proximity.holds(here, each.naval, each.beacon.scale):
                del self._by_key[key]
                found.append((each.beacon, each.expires_at))
        return found
