"""The loop monitor: whether the event loop runs on time, and how long garbage collections take.

A timer is due every tenth of a second. If it is late although no tick took the time, something
else has kept the event loop: another part of the process, or a machine that is overloaded.
"""

import asyncio
import gc
import logging
from collections.abc import Callable, Mapping

from nearcast.broker.operations.tick_window import RecentMaximum
from nearcast.logs import log_event

HEARTBEAT_S = 0.1

log = logging.getLogger("nearcast.broker")


class LoopMonitor:
    """Notes delays of the event loop that ticks do not explain."""

    def __init__(
        self, limit_s: float, clock: Callable[[], float], collections: "GarbageCollections"
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._collections = collections
        self._timer: asyncio.TimerHandle | None = None
        self.tick_s = 0.0
        """Seconds of ticks since the last heartbeat, which delay the loop for a known reason."""
        self._longest = RecentMaximum()
        self.count = 0
        self.seconds = 0.0
        """Seconds of all stalls together."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch a loop."""
        self._arm(loop)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def longest_s(self, now: float) -> float:
        """Return the longest delay of the last minute."""
        return self._longest.value(now)

    def statistics(self, now: float) -> dict[str, float]:
        """Counts since the start, and the longest delay of the last minute."""
        return {
            "loop_stalls_total": self.count,
            "loop_stall_seconds_total": self.seconds,
            "longest_loop_delay_seconds": self.longest_s(now),
        }

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self.tick_s = 0.0
        collection_s = self._collections.seconds
        due = self._clock() + HEARTBEAT_S
        self._timer = loop.call_later(HEARTBEAT_S, self._beat, loop, due, collection_s)

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float, collection_s: float) -> None:
        now = self._clock()
        late_s = max(0.0, now - due)
        self._longest.note(late_s, now)
        unexplained_s = late_s - self.tick_s
        if unexplained_s > self._limit_s:
            self.count += 1
            self.seconds += unexplained_s
            log_event(
                log,
                logging.WARNING,
                "event loop was stalled",
                late_s=round(late_s, 3),
                tick_s=round(self.tick_s, 3),
                collection_s=round(self._collections.seconds - collection_s, 3),
            )
        self._arm(loop)


class GarbageCollections:
    """Counts garbage collections of this process and their seconds, in whichever thread."""

    def __init__(self, clock: Callable[[], float], note: Callable[[float], None]) -> None:
        """`note` is called with the duration of each."""
        self._clock = clock
        self._note = note
        self._began = 0.0
        self.count = 0
        self.seconds = 0.0

    def start(self) -> None:
        """Begin to count."""
        gc.callbacks.append(self._called)

    def stop(self) -> None:
        """Stop counting."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def statistics(self) -> dict[str, float]:
        """Counts since the start."""
        return {
            "garbage_collections_total": self.count,
            "garbage_collection_seconds_total": self.seconds,
        }

    def _called(self, stage: str, about: Mapping[str, int]) -> None:
        if stage == "start":
            self._began = self._clock()
        else:
            took_s = self._clock() - self._began
            self.count += 1
            self.seconds += took_s
            self._note(took_s)
