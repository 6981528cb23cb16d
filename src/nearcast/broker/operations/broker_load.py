"""The load of a broker as a whole, from two samples: traffic, ticks, CPU and memory."""

import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.broker.operations.tick_window import TickDistribution

if TYPE_CHECKING:
    from nearcast.broker.server import Server

_STATM = Path("/proc/self/statm")


class BrokerLoad(Struct, frozen=True):
    """What a broker does now; rates are a second."""

    broker: str
    uptime_s: float
    connections: int
    sessions: int
    users_waiting: int
    """Users whose input waits for its turn."""
    cpu: float
    """Cores that the process uses."""
    memory_bytes: int
    packets_in_per_s: float
    bytes_in_per_s: float
    packets_out_per_s: float
    bytes_out_per_s: float
    ticks_per_s: float
    ticks: TickDistribution
    """Durations of the last seconds."""
    slow_ticks: int
    """Since the start."""
    slowest_tick_s: float
    """Of the last minute."""
    longest_loop_delay_s: float
    """Of the last minute."""
    waiting_for_disk_bytes: int
    failing: str | None
    """Why the store cannot be written to."""


class LoadSample:
    """Counts of a broker at one moment."""

    def __init__(self, server: "Server") -> None:
        state = server.hub.state
        traffic = state.traffic
        self._server = server
        self._at = time.monotonic()
        self._counts = (
            time.process_time(),
            traffic.packets_received,
            traffic.bytes_received,
            traffic.answers_sent + state.counters["sent"],
            traffic.bytes_sent,
            server.diagnostics.ticks.count,
        )

    def load_since(self, earlier: "LoadSample") -> BrokerLoad:
        """Return the load between an earlier sample and this one."""
        passed_s = self._at - earlier._at
        cpu, packets, size, packets_sent, size_sent, ticks = (
            (now - then) / passed_s for now, then in zip(self._counts, earlier._counts, strict=True)
        )
        server = self._server
        diagnostics, state, now = server.diagnostics, server.hub.state, self._at
        return BrokerLoad(
            broker=state.name,
            uptime_s=now - diagnostics.started_at,
            connections=state.traffic.clients,
            sessions=len(state.sessions),
            users_waiting=len(state.costs.users),
            cpu=cpu,
            memory_bytes=resident_bytes(),
            packets_in_per_s=packets,
            bytes_in_per_s=size,
            packets_out_per_s=packets_sent,
            bytes_out_per_s=size_sent,
            ticks_per_s=ticks,
            ticks=diagnostics.ticks.distribution(now),
            slow_ticks=diagnostics.slow_ticks.count,
            slowest_tick_s=diagnostics.slow_ticks.slowest_s(now),
            longest_loop_delay_s=diagnostics.monitor.longest_s(now),
            waiting_for_disk_bytes=server.waiting_for_disk_bytes,
            failing=server.failing,
        )


def resident_bytes() -> int:
    """Memory of this process; where the system does not say, the most that it ever had."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1_024
