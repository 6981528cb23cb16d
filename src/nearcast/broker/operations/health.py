"""The health of a broker, part by part.

`failing` means that it does not do its job: nothing can be kept, or clients wait for seconds.
"""

from collections.abc import Callable

from nearcast.broker.durability.disk_space import DiskStage
from nearcast.broker.operations.metrics import Health
from nearcast.broker.server import Server

SLOW_S = 1.0
STALLED_S = 5.0
"""By how much the event loop was late lately."""


def health_checks(server: Server) -> dict[str, Callable[[], Health]]:
    """Return the checks of a broker by their names."""
    return {
        "store": lambda: _store(server),
        "disk": lambda: _disk(server),
        "log": lambda: _degraded(server.log_problem),
        "clock": lambda: _degraded(server.clock.problem),
        "loop": lambda: _loop(server),
    }


def _store(server: Server) -> Health:
    return Health() if server.failing is None else Health("failing", server.failing)


def _disk(server: Server) -> Health:
    disk = server.hub.state.disk
    return _degraded(disk.why if disk.stage >= DiskStage.UNRECORDED else None)


def _degraded(problem: str | None) -> Health:
    return Health() if problem is None else Health("degraded", problem)


def _loop(server: Server) -> Health:
    late_s = server.diagnostics.longest_wait_s()
    if late_s < SLOW_S:
        return Health()
    told = f"clients had to wait for up to {late_s:.1f} s lately"
    return Health("failing" if late_s >= STALLED_S else "degraded", told)
