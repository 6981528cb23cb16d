"""Rate limits by address: for connections, and for failed credentials.

Both keep a bounded number of addresses; the least recently active one is dropped first. Time is
passed in, and may jump: that blocks no address for more than two windows.
"""

from collections import OrderedDict
from threading import Lock

from msgspec import Struct

MOST_ADDRESSES = 65_536
WINDOW_S = 60.0


class _Bucket(Struct, gc=False):
    tokens: float
    at: float


class ConnectRates:
    """Token buckets: `rate` connections a second per address, with a burst of one second."""

    def __init__(self, rate: float, most: int = MOST_ADDRESSES) -> None:
        self._rate = rate
        self._size = max(1.0, rate)
        self._most = most
        # In the order of the last attempt, so that expired entries are in front.
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self.refused = 0

    def __len__(self) -> int:
        return len(self._buckets)

    def allow(self, address: str, now: float) -> bool:
        """Take one connection from the bucket of an address; False if it is empty."""
        if self._rate <= 0:
            return True
        bucket = self._buckets.pop(address, None)
        if bucket is None:
            bucket = _Bucket(self._size, now)
        filled = bucket.tokens + max(0.0, now - bucket.at) * self._rate
        bucket.tokens, bucket.at = min(self._size, filled), now
        self._forget(now)
        self._buckets[address] = bucket
        if bucket.tokens < 1.0:
            self.refused += 1
            return False
        bucket.tokens -= 1.0
        return True

    def _forget(self, now: float) -> None:
        # Two for each new one, so that it never grows beyond recent addresses.
        for _ in range(2):
            address = next(iter(self._buckets), None)
            if address is None:
                return
            full_at = self._buckets[address].at + self._size / self._rate
            if full_at > now and len(self._buckets) < self._most:
                return
            del self._buckets[address]


class _Window(Struct, gc=False):
    began: float
    count: int


class FailureRates:
    """Failed passwords by address, in windows of a minute from the first; thread-safe."""

    def __init__(self, per_minute: int, most: int = MOST_ADDRESSES) -> None:
        self._per_minute = per_minute
        self._most = most
        # In the order in which windows began, which is the order in which they end.
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._windows)

    def note(self, address: str, now: float) -> None:
        """Count a failed password."""
        with self._lock:
            window = self._open(address, now)
            if window is None:
                while len(self._windows) >= self._most:
                    del self._windows[next(iter(self._windows))]
                window = self._windows[address] = _Window(now, 0)
            window.count += 1

    def wait_s(self, address: str, now: float) -> float:
        """Return how long an address has to wait before the next attempt; usually 0."""
        with self._lock:
            window = self._open(address, now)
        if window is None or self._per_minute <= 0 or window.count < self._per_minute:
            return 0.0
        return window.began + WINDOW_S - now

    def _open(self, address: str, now: float) -> _Window | None:
        while self._windows:
            oldest = next(iter(self._windows))
            if _is_open(self._windows[oldest], now):
                break
            del self._windows[oldest]
        window = self._windows.get(address)
        if window is not None and not _is_open(window, now):
            del self._windows[address]
            return None
        return window


def _is_open(window: _Window, now: float) -> bool:
    # Checks end in another order than they began; only a clock jump makes a larger difference.
    return abs(now - window.began) < WINDOW_S
