"""How often an address may connect, and how often its credentials may be wrong.

Both remember a bounded number of addresses: the one that was quiet for longest is forgotten
first. Time is given, and may jump: no address is blocked for more than two windows because of it.
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
    """Token buckets: `rate` connections a second from one address, and a second's worth at once."""

    def __init__(self, rate: float, most: int = MOST_ADDRESSES) -> None:
        self._rate = rate
        self._size = max(1.0, rate)
        self._most = most
        # In the order of the last attempt, so that what can be forgotten is in front.
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self.refused = 0

    def __len__(self) -> int:
        return len(self._buckets)

    def allow(self, address: str, now: float) -> bool:
        """Take one connection from an address's bucket, if there is one in it."""
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
        # Two for each new one: it never grows beyond recent addresses.
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
    """Wrong passwords by address, in windows of a minute from the first; safe between threads."""

    def __init__(self, per_minute: int, most: int = MOST_ADDRESSES) -> None:
        self._per_minute = per_minute
        self._most = most
        # In the order in which windows began, which is the order in which they end.
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._windows)

    def note(self, address: str, now: float) -> None:
        """Count a wrong password."""
        with self._lock:
            window = self._open(address, now)
            if window is None:
                while len(self._windows) >= self._most:
                    del self._windows[next(iter(self._windows))]
                window = self._windows[address] = _Window(now, 0)
            window.count += 1

    def wait_s(self, address: str, now: float) -> float:
        """Return how long an address has to wait before it may try again: mostly not at all."""
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
    # Checks end in another order than they began; only a clock that jumped is further behind.
    return abs(now - window.began) < WINDOW_S
