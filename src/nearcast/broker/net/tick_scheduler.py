"""Ticking: when that is decided which was read.

At once if all was quiet. Where more is being read, together with what the next turns of the loop
bring, as long as each of them brings something: in a larger tick a message costs less, and all of
a tick that one client gets is one write.
"""

from collections.abc import Callable

QUIET_S = 0.000_2
"""What comes sooner than this after a tick does not come alone."""
LONGEST_S = 0.005
"""So long what was read waits for more at most."""
CallSoon = Callable[[Callable[[], None]], object]
"""Lets a loop call something in its next turn."""


class TickScheduler:
    """Calls `tick` when it is due; `now` returns the time."""

    def __init__(self, tick: Callable[[], None], now: Callable[[], float]) -> None:
        self._tick = tick
        self._now = now
        self._call_soon: CallSoon | None = None
        self._due = False
        self._more = False
        """Something was read since the tick is due, or since that was last looked at."""
        self.time = now()
        """When what is decided next was first read; during a tick, when that began."""
        self._ended_at = self.time

    def start(self, call_soon: CallSoon) -> None:
        """From now on there is a loop."""
        self._call_soon = call_soon

    def reading(self) -> bool:
        """Something is read; whether it is the first for its tick."""
        if self._due:
            return False
        self.time = self._now()
        return True

    def note_input(self) -> None:
        """Something was read: tick, at once if all was quiet, else with what else is there."""
        if self._due:
            self._more = True
        elif self.time - self._ended_at > QUIET_S:
            self._tick()
        else:
            self.soon()

    def soon(self) -> None:
        """Tick once everything that is there has been read."""
        if not self._due and self._call_soon is not None:
            self._due, self._more = True, False
            self._call_soon(self._look)

    def began(self) -> float:
        """A tick begins, for whatever reason; when."""
        self._due = False
        self.time = self._now()
        return self.time

    def ended(self) -> float:
        """The tick is over; how long it took."""
        self._ended_at = self._now()
        return self._ended_at - self.time

    def _look(self) -> None:
        """A turn of the loop is over: tick, unless it brought something and more may come."""
        if not self._due:
            return
        if self._more and self._call_soon is not None and self._now() - self.time < LONGEST_S:
            self._more = False
            self._call_soon(self._look)
        else:
            self._tick()
