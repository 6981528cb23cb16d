"""Durations of the latest ticks: a distribution of the last seconds, the maximum of a minute."""

from collections import deque

from msgspec import Struct

LATEST = 4_096
"""The most ticks that a distribution is made of."""
WINDOW_S = 10.0
MINUTE_S = 60


class TickDistribution(Struct, frozen=True):
    """Quantiles of durations in seconds; zero without ticks."""

    p50_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0


class TickWindow:
    """The durations of the latest ticks."""

    def __init__(self) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=LATEST)
        """When a tick ended, and its duration."""
        self.count = 0
        """Ticks so far."""

    def note(self, took_s: float, now: float) -> None:
        """Note a tick."""
        self.count += 1
        self._latest.append((now, took_s))

    def distribution(self, now: float) -> TickDistribution:
        """Return quantiles of the last ten seconds, or of the latest `LATEST` ticks of them."""
        found = sorted(took_s for ended, took_s in self._latest if now - ended <= WINDOW_S)
        if not found:
            return TickDistribution()
        last = len(found) - 1
        return TickDistribution(found[round(0.5 * last)], found[round(0.99 * last)], found[last])


class RecentMaximum:
    """The largest value of the last minute, second by second."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, float]] = deque(maxlen=MINUTE_S)
        """Seconds with values, and the largest of each."""
        self.floor, self.ends_at = 0.0, 0.0
        """Values up to the floor need not be noted before this time."""

    def note(self, value: float, now: float) -> None:
        """Note a value."""
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            if value > self._seconds[-1][1]:
                self._seconds[-1] = second, value
        else:
            self._seconds.append((second, value))
        self.floor, self.ends_at = self._seconds[-1][1], second + 1.0

    def value(self, now: float) -> float:
        """Return the maximum; zero if no value was noted."""
        return max((most for second, most in self._seconds if now - second < MINUTE_S), default=0.0)
