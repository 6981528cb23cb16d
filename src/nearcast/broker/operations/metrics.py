"""Metrics for Prometheus, and health.

Values are read on request, never pushed: every part has `statistics()`, and this module only names
them. The one exception, the duration of ticks, costs a search in a short list.
"""

import logging
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct, structs
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from nearcast.broker.operations.metric_help import help_of
from nearcast.logs import log_event

log = logging.getLogger("nearcast.broker")

Figures = Mapping[str, float] | Struct
"""The result of a `statistics()`; nested structs are included."""

TICK_BOUNDS_S = (
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
)  # fmt: skip

_UNFIT = re.compile(r"[^a-zA-Z0-9_]")
_LABELLED = re.compile(r'(\w+)\{(\w+)="(\w+)"\}')
"""A name with a label, as Prometheus writes it."""


class Health(Struct, frozen=True):
    """The state of a part: `degraded` works less well than it should, `failing` does not work."""

    status: Literal["ok", "degraded", "failing"] = "ok"
    detail: str = ""


class TickDurations:
    """A histogram of tick durations."""

    def __init__(self, bounds_s: Iterable[float] = TICK_BOUNDS_S) -> None:
        self._bounds = tuple(bounds_s)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def feed(self, duration_s: float) -> None:
        """Count one tick."""
        # A duration equal to a bound belongs to its bucket, as in Prometheus.
        self._counts[bisect_left(self._bounds, duration_s)] += 1
        self._sum += duration_s

    def family(self) -> HistogramMetricFamily:
        """Return the histogram for Prometheus, with cumulative buckets."""
        buckets, below = [], 0
        for bound, count in zip((*self._bounds, math.inf), self._counts, strict=True):
            below += count
            buckets.append(("+Inf" if math.isinf(bound) else repr(bound), below))
        return HistogramMetricFamily(
            "nearcast_tick_duration_seconds",
            "How long the broker took for a tick.",
            buckets=buckets,
            sum_value=self._sum,
        )


class Metrics(Collector):
    """The metrics of all parts, of the process and of ticks, in a registry of their own.

    A metric is called `nearcast_SOURCE_NAME`; one that ends in `_total` never decreases.
    """

    def __init__(
        self, sources: Mapping[str, Callable[[], Figures]], ticks: TickDurations | None = None
    ) -> None:
        self.sources = dict(sources)
        self.ticks = TickDurations() if ticks is None else ticks
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the broker."""
        answers = GaugeMetricFamily(
            "nearcast_source_up", "Whether a part gave its figures.", labels=("source",)
        )
        for source, figures in self.statistics().items():
            answers.add_metric([source], 0.0 if figures is None else 1.0)
            labelled: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
            for name, value in (figures or {}).items():
                found = _LABELLED.fullmatch(name)
                if found is None:
                    yield _family(_UNFIT.sub("_", f"{source}_{name}"), value)
                    continue
                plain, label, text = found.groups()
                family = labelled.get(plain)
                if family is None:
                    family = labelled[plain] = _labelled_family(f"{source}_{plain}", label)
                family.add_metric([text], value)
            yield from labelled.values()
        yield answers
        yield self.ticks.family()

    def statistics(self) -> dict[str, dict[str, float] | None]:
        """Return the values of every source; None for one that failed, so that others are shown.

        Call it where the sources may be called: most belong to the event loop of the broker.
        """
        figures: dict[str, dict[str, float] | None] = {}
        for source, ask in self.sources.items():
            try:
                figures[source] = flat(ask())
            except Exception as error:
                log_event(log, logging.WARNING, "no figures", source=source, error=repr(error))
                figures[source] = None
        return figures

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the form that an Accept header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


def flat(figures: Figures) -> dict[str, float]:
    """Return values by name; nested ones are called `PART_NAME`."""
    items = structs.asdict(figures) if isinstance(figures, Struct) else figures
    found: dict[str, float] = {}
    for name, value in items.items():
        if isinstance(value, Struct | Mapping):
            found |= {f"{name}_{inner}": figure for inner, figure in flat(value).items()}
        else:
            found[name] = int(value) if isinstance(value, int) else float(value)
    return found


def _labelled_family(name: str, label: str) -> CounterMetricFamily | GaugeMetricFamily:
    """Return a family of values that a label tells apart, without any."""
    form = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return form(f"nearcast_{name}", _help_of(name), labels=(label,))


def _help_of(name: str) -> str:
    return help_of(name) or f"{name.replace('_', ' ').capitalize()}."


def _family(name: str, value: float) -> Metric:
    help_text = _help_of(name)
    if name.endswith("_total"):
        return CounterMetricFamily(f"nearcast_{name}", help_text, value=value)
    return GaugeMetricFamily(f"nearcast_{name}", help_text, value=value)
