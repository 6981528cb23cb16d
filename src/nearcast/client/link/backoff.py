"""Delays between connection attempts: increasing, with jitter."""

from random import Random

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """Delays that double from `first_s` up to `most_s`; jitter shortens each by up to half."""

    first_s: float = 0.5
    most_s: float = 30.0

    def delay_s(self, attempt: int, chance: Random) -> float:
        """Return the delay before an attempt; the first is number 0."""
        longest = min(self.most_s, self.first_s * 2.0 ** min(attempt, 32))
        return longest * chance.uniform(0.5, 1.0)
