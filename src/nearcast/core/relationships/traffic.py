"""Traffic: speeds of nodes passing through a cell, per window, and hazards there (seed E).

Speeds are counted in steps of a decimetre per second, so that the state of a window is bounded,
sums do not depend on order, and quantiles are exact for what was counted.
"""

import math

import msgspec
from msgspec import Struct

from nearcast.core.relationships.tracks import check_form

FORM = 1
STEPS_PER_MPS = 10


class TrafficSettings(Struct, frozen=True):
    """Cell size, window and hazards of the traffic count."""

    cell_m: float = 200.0
    window_s: float = 300.0
    hazards: str = "hazard/#"
    """The subject pattern of hazard events."""


class TrafficWindow(Struct, frozen=True):
    """The traffic of a cell in one window; speeds are None where none is known."""

    start: float
    fixes: int
    nodes: int
    mean_mps: float | None
    median_mps: float | None
    p10_mps: float | None
    hazards: int


class _Open(Struct, array_like=True):
    fixes: int = 0
    nodes: set[str] = msgspec.field(default_factory=set)
    speeds: dict[int, int] = msgspec.field(default_factory=dict)
    hazards: set[str] = msgspec.field(default_factory=set)


class _TrafficState(Struct, array_like=True):
    form: int
    windows: dict[int, _Open]


class CellTraffic:
    """The open windows of one cell."""

    def __init__(self, settings: TrafficSettings) -> None:
        self._window_s = settings.window_s
        self._windows: dict[int, _Open] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def pass_by(self, time: float, node: str, speed_mps: float | None) -> None:
        """Count a fix of a node in this cell."""
        window = self._at(time)
        window.fixes += 1
        window.nodes.add(node)
        if speed_mps is not None:
            step = speed_step(speed_mps)
            window.speeds[step] = window.speeds.get(step, 0) + 1

    def warn(self, time: float, event: str) -> None:
        """Count a hazard, once per event."""
        self._at(time).hazards.add(event)

    def close(self, now: float) -> list[TrafficWindow]:
        """Close and return the windows that end by a watermark, before which nothing arrives."""
        over = [n for n in sorted(self._windows) if (n + 1) * self._window_s <= now]
        return [self._window_of(n, self._windows.pop(n)) for n in over]

    def next_close(self) -> float | None:
        """Return the time at which the first window ends."""
        return (min(self._windows) + 1) * self._window_s if self._windows else None

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return msgspec.msgpack.encode(_TrafficState(FORM, self._windows))

    @classmethod
    def from_bytes(cls, settings: TrafficSettings, data: bytes) -> "CellTraffic":
        """Return the state of a stored form; refuse one that a later release wrote."""
        kept = msgspec.msgpack.decode(data, type=_TrafficState)
        check_form(kept.form, FORM, "cell of traffic")
        traffic = cls(settings)
        traffic._windows = kept.windows
        return traffic

    def _at(self, time: float) -> _Open:
        return self._windows.setdefault(math.floor(time / self._window_s), _Open())

    def _window_of(self, number: int, window: _Open) -> TrafficWindow:
        known = sum(window.speeds.values())
        total = sum(step * count for step, count in window.speeds.items())
        return TrafficWindow(
            number * self._window_s,
            window.fixes,
            len(window.nodes),
            total / (known * STEPS_PER_MPS) if known else None,
            _quantile(window.speeds, known, 50),
            _quantile(window.speeds, known, 10),
            len(window.hazards),
        )


def speed_step(speed_mps: float) -> int:
    """Return a speed in counting steps."""
    return int(speed_mps * STEPS_PER_MPS + 0.5)


def _quantile(speeds: dict[int, int], known: int, percent: int) -> float | None:
    """Return the smallest speed that at least this share of all does not exceed."""
    wanted = (known * percent + 99) // 100
    for step in sorted(speeds):
        wanted -= speeds[step]
        if wanted <= 0:
            return step / STEPS_PER_MPS
    return None
