"""Measures: what modules of awareness may classify of a link, by name.

A measure is a callable that takes `LinkFigures` and returns a number, or None if there is none now.
Programs add their own as entry points of the group `nearcast.awareness`; the name of the entry
point is the name of the measure. One that fails is logged and does not count.
"""

import logging
import math
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from nearcast.broker.awareness.link_estimator import LinkFigures
from nearcast.logs import log_event

GROUP = "nearcast.awareness"
AHEAD_S = 2.0
"""How far the predictor looks ahead."""
_LEVEL_WEIGHT, _TREND_WEIGHT = 0.5, 0.3

Measure = Callable[[LinkFigures], float | None]
log = logging.getLogger("nearcast.broker")


def predicted_throughput_kbps(figures: LinkFigures) -> float | None:
    """The throughput soon, by an exponentially weighted trend of the last measurements."""
    if figures.throughput_kbps is None or not figures.history:
        return None
    (before, level), trend = figures.history[0], 0.0
    for at, rate in figures.history[1:]:
        passed_s = at - before
        expected = level + trend * passed_s
        found = expected + _LEVEL_WEIGHT * (rate - expected)
        trend += _TREND_WEIGHT * ((found - level) / passed_s - trend)
        before, level = at, found
    return max(0.0, level + trend * AHEAD_S)


SHIPPED: Mapping[str, Measure] = {
    "throughput_kbps": lambda figures: figures.throughput_kbps,
    "rtt_ms": lambda figures: figures.rtt_ms,
    "rtt_variance_ms": lambda figures: figures.rtt_variance_ms,
    "delivery_rate_kbps": lambda figures: figures.delivery_rate_kbps,
    "predicted_throughput_kbps": predicted_throughput_kbps,
}


class Measures:
    """All measures; those of entry points are loaded when a policy first names them."""

    def __init__(self, found: Mapping[str, EntryPoint] | None = None) -> None:
        self._known: dict[str, Measure | None] = dict(SHIPPED)
        """None: a measure that does not exist or cannot be loaded."""
        self._found = found
        self._failed: set[str] = set()

    def value(self, name: str, figures: LinkFigures) -> float | None:
        """The value of a measure; None if there is none, or no such measure."""
        if name not in self._known:
            self._known[name] = self._load(name)
        measure = self._known[name]
        if measure is None:
            return None
        try:
            value = measure(figures)
            return None if value is None or not math.isfinite(value) else float(value)
        except Exception as error:  # of somebody else's code
            if name not in self._failed:
                self._failed.add(name)
                why = f"{type(error).__name__}: {error}"
                log_event(log, logging.WARNING, "a measure failed", measure=name, why=why)
            return None

    def _load(self, name: str) -> Measure | None:
        if self._found is None:
            self._found = {each.name: each for each in entry_points(group=GROUP)}
        why = f"there are {', '.join(sorted({*SHIPPED, *self._found}))}"
        if name in self._found:
            try:
                loaded = self._found[name].load()
            except Exception as error:  # of somebody else's code
                why = f"{type(error).__name__}: {error}"
            else:
                if callable(loaded):
                    measure: Measure = loaded
                    return measure
                why = "it is not callable"
        log_event(log, logging.WARNING, "a measure does not count", measure=name, why=why)
        return None
