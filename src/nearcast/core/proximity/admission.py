"""Admission: a bounded share of the channel for each node and type of events."""

from msgspec import Struct

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
