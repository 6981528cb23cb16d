"""The tick scheduler: when input is decided.

At once if the server was idle. Under load, together with the input of the next loop iterations, as
long as each of them brings some: in a larger tick a message costs less, and all output of a tick to
one client is one write.
"""

from collections.abc import Callable

QUIET_S = 0.000_03
"""Input that comes sooner than this after a tick is treated as load."""
LONGEST_S = 0.005
"""How long input waits for more at most."""
CallSoon = Callable[[Callable[[], None]], object]
"""Schedules a function for the next iteration of the event loop."""


class TickScheduler:
    """Calls `tick` when it is due; `now` returns the time."""

    def __init__(self, tick: Callable[[], None], now: Callable[[], float]) -> None:
        self._tick = tick
        self._now = now
        self._call_soon: CallSoon | None = None
        self._due = False
        self._more = False
        """More input was read since the tick was scheduled, or since the last check."""
        self.time = now()
        """The time of the first input for the next tick; during a tick, its start."""
        self._ended_at = self.time

    def start(self, call_soon: CallSoon) -> None:
        """Set the event loop function to schedule with."""
        self._call_soon = call_soon

    def reading(self) -> bool:
        """Note that input is being read; return whether it is the first for its tick."""
        if self._due:
            return False
        self.time = self._now()
        return True

    def note_input(self) -> None:
        """Tick after input: at once if idle, else with further input."""
        if self._due:
            self._more = True
        elif self.time - self._ended_at > QUIET_S:
            self._tick()
        else:
            self.soon()

    def soon(self) -> None:
        """Schedule a tick after all available input has been read."""
        if not self._due and self._call_soon is not None:
            self._due, self._more = True, False
            self._call_soon(self._look)

    def began(self) -> float:
        """Note the start of a tick; return its time."""
        self._due = False
        self.time = self._now()
        return self.time

    def ended(self) -> float:
        """Note the end of a tick; return its duration."""
        self._ended_at = self._now()
        return self._ended_at - self.time

    def _look(self) -> None:
        """Tick after a loop iteration, unless it brought input and more may come."""
        if not self._due:
            return
        if self._more and self._call_soon is not None and self._now() - self.time < LONGEST_S:
            self._more = False
            self._call_soon(self._look)
        else:
            self._tick()
