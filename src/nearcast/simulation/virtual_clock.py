"""A clock that is advanced explicitly: due calls are made in order, without sleeping.

Everything that happens in a simulated world is a call scheduled on this clock. Calls due at the
same time are made in the order in which they were scheduled, and random numbers come from named
generators derived from one seed, so a run with the same seed is the same run.
"""

import heapq
from collections.abc import Callable
from random import Random

Call = Callable[[], object]

FIRST_MOMENT = 1_000_000_000.0
"""The start time of a virtual world, in seconds since 1970."""


class Alarm:
    """A call scheduled for a time, which can be cancelled."""

    __slots__ = ("_call", "at")

    def __init__(self, at: float, call: Call) -> None:
        self.at = at
        self._call: Call | None = call

    def cancel(self) -> None:
        """Cancel the call."""
        self._call = None

    def ring(self) -> None:
        """Make the call, once."""
        call, self._call = self._call, None
        if call is not None:
            call()


class VirtualClock:
    """The time of one simulated world, and its scheduled calls."""

    def __init__(self, seed: int | str = 0, start: float = FIRST_MOMENT) -> None:
        self.seed = seed
        self._now = self._start = start
        self._due: list[tuple[float, int, Alarm]] = []
        self._count = 0

    def now(self) -> float:
        """The time in seconds since 1970."""
        return self._now

    @property
    def elapsed_s(self) -> float:
        """The time since the start of the world."""
        return self._now - self._start

    def chance(self, name: str) -> Random:
        """A random generator of its own, independent of all others."""
        return Random(f"{self.seed}/{name}")

    def at(self, when: float, call: Call) -> Alarm:
        """Schedule a call at a time; a time in the past is now."""
        alarm = Alarm(max(when, self._now), call)
        self._count += 1
        heapq.heappush(self._due, (alarm.at, self._count, alarm))
        return alarm

    def after(self, delay_s: float, call: Call) -> Alarm:
        """Schedule a call after a delay."""
        return self.at(self._now + delay_s, call)

    def soon(self, call: Call) -> Alarm:
        """Schedule a call now, after all that are already due now."""
        return self.at(self._now, call)

    def step(self) -> bool:
        """Advance to the next call and make it; False if there is none."""
        if not self._due:
            return False
        self._now, _, alarm = heapq.heappop(self._due)
        alarm.ring()
        return True

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.run_until(self._now + seconds)

    def run_until(self, when: float) -> None:
        """Let time pass up to a moment, including the calls due then."""
        while self._due and self._due[0][0] <= when:
            self.step()
        self._now = max(self._now, when)
