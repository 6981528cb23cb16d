"""The phase timer: what the time of a tick goes to.

Phases exclude each other: one ends when the next begins, so that their sum is the time that the
broker worked since the last tick ended. That includes input that was processed as it arrived.
"""

from collections.abc import Callable
from enum import IntEnum


class Phase(IntEnum):
    """A part of a tick."""

    IDLE = 0
    """Outside of ticks."""
    INPUT = 1
    """Decoding, checks, connects, answers."""
    ENGINE = 2
    DISPATCH = 3
    """From decisions to frames and queues."""
    RECORDING = 4
    """Rows for the log and changes for the store."""
    OUTPUT = 5
    """Messages from queues, and the data of each connection."""
    COMMIT = 6
    """Submitting to the store, and writing to sockets."""
    DISK = 7
    """Waiting for a commit."""


def no_clock() -> float:
    """The clock of virtual time: work takes none, only its counts are charged."""
    return 0.0


_NOTHING = [0.0] * len(Phase)


class PhaseTimer:
    """Adds up the seconds of each phase."""

    __slots__ = ("_phase", "_since", "clock", "collection_s", "seconds")

    def __init__(self) -> None:
        self.clock: Callable[[], float] = no_clock
        self._phase = Phase.IDLE
        self._since = 0.0
        self.seconds = _NOTHING.copy()
        """Seconds of each phase since the last tick ended."""
        self.collection_s = 0.0
        """Seconds of garbage collection in all phases together."""

    def switch(self, phase: Phase) -> Phase:
        """Begin a phase; return the one that ended, to switch back to it."""
        ended, now = self._phase, self.clock()
        self.seconds[ended] += now - self._since
        self._phase, self._since = phase, now
        return ended

    def move(self, seconds: float, source: Phase, target: Phase) -> None:
        """Count some time of a phase to another."""
        self.seconds[source] -= seconds
        self.seconds[target] += seconds

    def note_collection(self, seconds: float) -> None:
        """Note a garbage collection that just ended, unless nothing was being done."""
        if self._phase is not Phase.IDLE:
            self.collection_s += seconds

    def finish(self) -> "TickTimes":
        """End the tick; return its times, and begin to count anew."""
        seconds, now = self.seconds, self.clock()
        seconds[self._phase] += now - self._since
        self._phase, self._since = Phase.IDLE, now
        times = TickTimes(seconds, self.collection_s)
        self.seconds, self.collection_s = _NOTHING.copy(), 0.0
        return times


class TickTimes:
    """The times of one tick."""

    __slots__ = ("collection_s", "seconds", "took_s")

    def __init__(self, seconds: list[float], collection_s: float = 0.0) -> None:
        self.seconds = seconds
        self.collection_s = collection_s
        self.took_s = sum(seconds) - seconds[Phase.IDLE]

    def shares(self) -> dict[str, float]:
        """The share of each phase in the tick, by name."""
        return {
            phase.name.lower(): self.seconds[phase] / self.took_s
            for phase in Phase
            if phase is not Phase.IDLE and self.took_s
        }
