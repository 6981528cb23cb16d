"""The broker's clock: it never jumps and never goes back, whatever is done to the machine's clock.

It advances with a steady clock that nobody can set and that also counts while the machine sleeps.
Where the wall clock says something else, it is approached by running at most `SLEW` faster or
slower: durations (expiry of sessions, live events, wills, positions) are right to that part.

A broker that starts again continues from the mark of its last life as long as the machine was not
started anew. After a boot nobody knows how long it was off but the wall clock, which is then
believed, unless the log already has later rows. Expiry of tokens and certificates is a promise of
others, and compared with the wall clock itself.
"""

import time
from collections.abc import Callable
from functools import partial
from math import copysign
from pathlib import Path

from msgspec import Struct, field

from nearcast.store import ClockMark

SLEW = 0.1
"""The most that it runs faster or slower than a steady clock."""
MARK_AFTER_S = 1.0
"""A new mark is due once the time was corrected by this much."""
_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


steady_time: Callable[[], float] = (
    time.monotonic if _BOOT_CLOCK is None else partial(time.clock_gettime, _BOOT_CLOCK)
)
"""Seconds since the machine was started, where the system tells also those that it slept."""


def boot_id() -> str:
    """The id of this boot of the machine; empty where the system has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


class HostClocks(Struct, frozen=True):
    """The clocks of a machine: the wall clock, which may be set, and a steady one."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = steady_time
    boot: str = field(default_factory=boot_id)
    """Times of the steady clock are comparable within one boot."""


class BrokerClock:
    """The time of one broker, in seconds since 1970; `follow` is to be called every second."""

    def __init__(self, clocks: HostClocks | None = None, start: float | None = None) -> None:
        self._clocks = HostClocks() if clocks is None else clocks
        self._steady = self._clocks.steady
        self._base = self._clocks.wall() if start is None else start
        self._at = self._steady()
        self._off_s = 0.0
        """The wall clock minus this one, when it was last looked at."""
        self._slew = 0.0
        """How much faster it runs than the steady clock, until it has approached the wall clock."""
        self._slews_s = 0.0
        """For how long that takes."""
        self._marked: ClockMark | None = None
        self.follow()

    @property
    def off_s(self) -> float:
        """How far the wall clock was ahead of this one when it was last looked at."""
        return self._off_s

    def now(self) -> float:
        """The time; it never goes back."""
        # Asked several times a tick, so it calls nothing else.
        passed = self._steady() - self._at
        return (
            self._base + passed + (self._off_s if passed >= self._slews_s else self._slew * passed)
        )

    def _time_at(self, steady: float) -> float:
        passed = steady - self._at
        slewed = self._off_s if passed >= self._slews_s else self._slew * passed
        return self._base + passed + slewed

    def follow(self) -> None:
        """Look at the wall clock, and approach it from now on."""
        steady = self._clocks.steady()
        self._base, self._at = self._time_at(steady), steady
        self._off_s = self._clocks.wall() - self._base
        self._slew, self._slews_s = copysign(SLEW, self._off_s), abs(self._off_s) / SLEW

    def mark(self) -> ClockMark:
        """Return a mark from which a later life continues."""
        steady = self._clocks.steady()
        now = self._time_at(steady)
        self._marked = ClockMark(self._clocks.boot, now - steady, now)
        return self._marked

    def needs_mark(self) -> bool:
        """Whether no mark was made yet, or the time was corrected since."""
        if self._marked is None:
            return True
        steady = self._clocks.steady()
        return abs(self._time_at(steady) - steady - self._marked.ahead_s) >= MARK_AFTER_S


def starting_time(clocks: HostClocks, mark: ClockMark | None, last_ingested: float | None) -> float:
    """Return the time at which a clock starts: never before the last one that was recorded."""
    known = 0.0 if last_ingested is None else last_ingested
    if mark is None:
        return max(clocks.wall(), known)
    continues = mark.boot and mark.boot == clocks.boot
    present = clocks.steady() + mark.ahead_s if continues else clocks.wall()
    return max(present, mark.time, known)
