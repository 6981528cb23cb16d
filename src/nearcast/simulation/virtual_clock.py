"""A clock that is moved by hand: what is due happens in order, and nobody sleeps.

Everything that happens in a simulated world is a call that was put on this clock. Two calls that
are due at the same moment happen in the order in which they were put there, and chance comes from
named sources that all follow from one seed, so a run with the same seed is the same run.
"""

import heapq
from collections.abc import Callable
from random import Random

Call = Callable[[], object]

FIRST_MOMENT = 1_000_000_000.0
"""When a virtual world begins, in seconds since 1970."""


class Alarm:
    """A call that is due at some time, unless it is cancelled."""

    __slots__ = ("_call", "at")

    def __init__(self, at: float, call: Call) -> None:
        self.at = at
        self._call: Call | None = call

    def cancel(self) -> None:
        """Let it not happen."""
        self._call = None

    def ring(self) -> None:
        """Make the call, once."""
        call, self._call = self._call, None
        if call is not None:
            call()


class VirtualClock:
    """The time of one simulated world, and what is due in it."""

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
        """How long the world has lasted."""
        return self._now - self._start

    def chance(self, name: str) -> Random:
        """A source of chance of its own: what others draw changes nothing in it."""
        return Random(f"{self.seed}/{name}")

    def at(self, when: float, call: Call) -> Alarm:
        """Make a call at a time; one that has passed is now."""
        alarm = Alarm(max(when, self._now), call)
        self._count += 1
        heapq.heappush(self._due, (alarm.at, self._count, alarm))
        return alarm

    def after(self, delay_s: float, call: Call) -> Alarm:
        """Make a call after a while."""
        return self.at(self._now + delay_s, call)

    def soon(self, call: Call) -> Alarm:
        """Make a call now, after all that is due now already."""
        return self.at(self._now, call)

    def step(self) -> bool:
        """Go on to the next call and make it; False if there is none."""
        if not self._due:
            return False
        self._now, _, alarm = heapq.heappop(self._due)
        alarm.ring()
        return True

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.run_until(self._now + seconds)

    def run_until(self, when: float) -> None:
        """Let time pass up to a moment, whose calls are made too."""
        while self._due and self._due[0][0] <= when:
            self.step()
        self._now = max(self._now, when)
