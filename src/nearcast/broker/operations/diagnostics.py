"""Diagnostics of a running broker: slow ticks, stalls of the event loop, garbage collections."""

import asyncio
import time

from nearcast.broker.hub import Hub
from nearcast.broker.operations.loop_monitor import GarbageCollections, LoopMonitor
from nearcast.broker.operations.slow_ticks import SlowTicks
from nearcast.broker.operations.tick_window import TickWindow


class Diagnostics:
    """Observes the ticks of a hub and the event loop that they run in."""

    def __init__(self, hub: Hub, slow_tick_s: float) -> None:
        self._state = hub.state
        self.started_at = time.monotonic()
        phases = self._state.phases
        phases.clock = self._state.costs.clock = time.perf_counter
        self.ticks = TickWindow()
        self.slow_ticks = SlowTicks(slow_tick_s, hub.sessions)
        self.collections = GarbageCollections(time.perf_counter, phases.note_collection)
        self.monitor = LoopMonitor(slow_tick_s, time.monotonic, self.collections)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch the event loop."""
        self.started_at = time.monotonic()
        self.collections.start()
        self.monitor.start(loop)

    def stop(self) -> None:
        """Stop watching."""
        self.collections.stop()
        self.monitor.stop()

    def end_tick(self) -> float:
        """Note that a tick has ended; return its duration."""
        times = self._state.phases.finish()
        now = time.monotonic()
        took_s, slow_ticks = times.took_s, self.slow_ticks
        self.ticks.note(took_s, now)
        if took_s > slow_ticks.least_s or now >= slow_ticks.ends_at:
            slow_ticks.note(times, self._state.costs, now)
        self.monitor.tick_s += took_s
        return took_s

    def longest_wait_s(self) -> float:
        """How long one tick, or a stall of the event loop, kept all clients waiting lately."""
        now = time.monotonic()
        return max(self.slow_ticks.slowest_s(now), self.monitor.longest_s(now))

    def statistics(self) -> dict[str, float]:
        """Counters and gauges."""
        now = time.monotonic()
        return (
            self.slow_ticks.statistics(now)
            | self.monitor.statistics(now)
            | self.collections.statistics()
        )
