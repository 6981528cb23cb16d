"""Admission: a bounded share of the channel for each node and type of events."""

import heapq
from collections import OrderedDict

from msgspec import Struct

from nearcast.core.proximity.discovery.own_names import OwnNames
from nearcast.core.proximity.settings import ProximitySettings

_BEACONS = "$beacons"
"""No subject of events."""
OVERHEAD_BYTES = 120
"""What a message takes on the channel beside its payload, about."""


class TokenBucket(Struct):
    """So many bytes a second on average, and at most `capacity` at once."""

    rate: float
    capacity: float
    level: float
    at: float = 0.0

    def wait_s(self, size: float, now: float) -> float:
        """Return how long a message has to wait; one larger than the capacity waits for that."""
        level = min(self.capacity, self.level + max(now - self.at, 0.0) * self.rate)
        lacking = min(size, self.capacity) - level
        return lacking / self.rate if lacking > 0.0 else 0.0

    def take(self, size: float, now: float) -> bool:
        """Take bytes if they are there; return whether they were."""
        if now > self.at:
            self.level = min(self.capacity, self.level + (now - self.at) * self.rate)
            self.at = now
        if self.level < min(size, self.capacity):
            return False
        self.level -= size
        return True


def bucket(rate: float, burst_s: float, now: float) -> TokenBucket:
    """Return a full bucket, large enough for at least one message."""
    capacity = max(rate * burst_s, 2_000.0)
    return TokenBucket(rate, capacity, capacity, now)


class ChannelShares:
    """What each node and each of its types may use of the channel, as far as this node lets it."""

    def __init__(self, names: OwnNames, settings: ProximitySettings) -> None:
        self._names = names
        self._settings = settings
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()

    def of_type(self, producer: str, subject: str, now: float) -> TokenBucket:
        """Return the share of a producer's events of a subject."""
        return self._bucket(producer, subject, self._settings.type_share, now)

    def take(self, producer: str, subject: str, size: float, now: float) -> bool:
        """Take from the shares of another producer; return whether both had room."""
        of_type = self.of_type(producer, subject, now)
        of_node = self._bucket(producer, "", self._settings.node_share, now)
        if of_node.wait_s(size, now) > 0.0 or not of_type.take(size, now):
            return False
        return of_node.take(size, now)

    def take_beacon(self, producer: str, size: float, now: float) -> bool:
        """Take from what another producer's beacons may use; return whether there was room.

        It is apart from that of its events, so that these do not end its announcements.
        """
        share = self._settings.node_share
        return self._bucket(producer, _BEACONS, share, now).take(size, now)

    def _bucket(self, producer: str, subject: str, share: float, now: float) -> TokenBucket:
        key = producer, subject
        found = self._buckets.get(key)
        if found is None:
            settings = self._settings
            # Others are allowed some more, as what they sent steadily may arrive in bursts.
            more = 1.0 if producer in self._names else 2.0
            rate = settings.channel_bytes_s * share
            found = self._buckets[key] = bucket(rate, more * settings.burst_s, now)
            if len(self._buckets) > 4 * settings.proximities_most:
                self._buckets.popitem(last=False)
        return found


class ByteBudget:
    """So many bytes for values that end by themselves."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ends: list[tuple[float, int]] = []
        self._bytes = 0

    def take(self, size: int, until: float, now: float) -> bool:
        """Take bytes until a time; return whether there was room."""
        while self._ends and self._ends[0][0] <= now:
            self._bytes -= heapq.heappop(self._ends)[1]
        if self._bytes + size > self._most:
            return False
        heapq.heappush(self._ends, (until, size))
        self._bytes += size
        return True
