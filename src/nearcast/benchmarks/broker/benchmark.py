"""The broker benchmark: Nearcast and mosquitto under the same loads, in one run.

Rates are messages per CPU-second of the broker's process, which makes them less sensitive to a
busy machine. The brokers run alternately, and the best of several runs counts, because noise only
ever adds.
"""

import platform
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from nearcast.benchmarks.broker.peers import BROKERS, FLOOR, MOSQUITTO, Running, start_floor
from nearcast.benchmarks.broker.rows import BenchRow, BrokerBenchSettings, flow_rows, latency_rows
from nearcast.benchmarks.load.orders import (
    Delayed,
    Failed,
    FanOut,
    Flowed,
    Idle,
    Ingest,
    LoadResult,
    Order,
    Rested,
    Target,
)
from nearcast.benchmarks.load.process import LoadProcess
from nearcast.benchmarks.this_machine import machine

WANTED_BYTES_EACH = 4_096
"""Target for the memory of an idle connection."""
SPARE_DESCRIPTORS = 500
MEMORY = "memory"
"""Name of the row for the memory of idle connections."""


class FlowFigures(Struct, frozen=True):
    """A broker under one load: its best run, or the reason for its failure."""

    messages_per_cpu_s: float | None = None
    best: Flowed | None = None
    runs: list[float] = []
    """Messages per CPU-second of every run."""
    failed: str | None = None


class FlowRow(Struct, frozen=True):
    """All brokers under one load."""

    name: str
    describe: str
    wanted: float | None
    receivers: int
    brokers: dict[str, FlowFigures]
    ratios: dict[str, float]
    """Messages per CPU-second as a multiple of mosquitto's, by broker."""


class LatencyFigures(Struct, frozen=True):
    """Latency of a broker; each percentile is the minimum over its runs."""

    messages: int = 0
    p50_us: float | None = None
    p99_us: float | None = None
    failed: str | None = None


class LatencyRow(Struct, frozen=True):
    """All brokers under one latency load."""

    name: str
    describe: str
    brokers: dict[str, LatencyFigures]


class MemoryFigures(Struct, frozen=True):
    """Memory of a broker per idle connection: the median of all runs."""

    connections: int = 0
    bytes_each: float | None = None
    bytes_each_subscribed: float | None = None
    runs: list[float] = []
    """Bytes of a plain connection in every run; they vary with the memory that was already free."""
    failed: str | None = None


class BrokerResult(Struct, frozen=True):
    """The result of a whole run."""

    benchmark: str
    started: str
    settings: BrokerBenchSettings
    machine: dict[str, str]
    versions: dict[str, str]
    describe: dict[str, str]
    promises: dict[str, str]
    """Where a QoS 1 message is stored when its PUBACK is sent, by broker."""
    skipped: dict[str, str]
    rows: list[FlowRow]
    latency: list[LatencyRow]
    memory: dict[str, MemoryFigures]
    wanted_bytes_each: int

    @property
    def failures(self) -> list[str]:
        """Descriptions of all failures."""
        tables: dict[str, Mapping[str, FlowFigures | LatencyFigures | MemoryFigures]] = {
            **{row.describe: row.brokers for row in self.rows},
            **{row.describe: row.brokers for row in self.latency},
            "idle connections": self.memory,
        }
        return [
            f"{describe}: {name}: {figures.failed}"
            for describe, brokers in tables.items()
            for name, figures in brokers.items()
            if figures.failed is not None
        ]


def row_names(settings: BrokerBenchSettings) -> list[str]:
    """The row names that `BrokerBenchSettings.rows` accepts."""
    return [row.name for row in (*flow_rows(settings), *latency_rows(settings))] + [MEMORY]


def run(settings: BrokerBenchSettings, step: Callable[[str], None]) -> BrokerResult:
    """Run the benchmark; `step` gets progress texts. Raises BenchmarkError."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    settings = _within_descriptors(settings)
    missing = {name: broker.missing() for name, broker in BROKERS.items()}
    present = [name for name, lacks in missing.items() if lacks is None]
    wanted = frozenset(settings.rows or row_names(settings))
    with ExitStack() as closing:
        load = closing.enter_context(LoadProcess())
        directory = Path(closing.enter_context(tempfile.TemporaryDirectory()))
        field = _BrokerRuns(present, load, directory, settings, step)
        closing.callback(field.close)
        rows = [field.flow(row) for row in flow_rows(settings) if row.name in wanted]
        latency = [field.latency(row) for row in latency_rows(settings) if row.name in wanted]
        memory = field.memory() if MEMORY in wanted else {}
    return BrokerResult(
        benchmark="broker",
        started=started,
        settings=settings,
        machine=machine(),
        versions={
            "python": platform.python_version(),
            **{name: BROKERS[name].version() for name in present},
        },
        describe={name: BROKERS[name].describe for name in present},
        promises={name: BROKERS[name].promise for name in present},
        skipped={name: lacks for name, lacks in missing.items() if lacks is not None},
        rows=rows,
        latency=latency,
        memory=memory,
        wanted_bytes_each=WANTED_BYTES_EACH,
    )


def _within_descriptors(settings: BrokerBenchSettings) -> BrokerBenchSettings:
    """Raise the descriptor limit to its maximum, and cap the number of connections by it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return settings
    # A multiple of 100, because connections are served in groups of that size.
    connections = min(settings.connections, (most - SPARE_DESCRIPTORS) // 100 * 100)
    return msgspec.structs.replace(settings, connections=connections)


class _BrokerRuns:
    """Brokers that run side by side and are measured alternately."""

    def __init__(
        self,
        names: Sequence[str],
        load: LoadProcess,
        directory: Path,
        settings: BrokerBenchSettings,
        step: Callable[[str], None],
    ) -> None:
        self._names = names
        self._load = load
        self._directory = directory
        self._settings = settings
        self._step = step
        self._running: dict[str, Running] = {}
        self._started = 0

    def close(self) -> None:
        """Stop all brokers."""
        for broker in self._running.values():
            broker.close()
        self._running.clear()

    def flow(self, row: BenchRow) -> FlowRow:
        """Measure the messages per CPU-second of all brokers under one load."""
        brokers = {}
        for name, outcomes in self._take_turns(row).items():
            last = outcomes[-1]
            flowed = [each for each in outcomes if isinstance(each, Flowed)]
            wrong = [each for each in flowed if each.arrived != each.expected]
            if isinstance(last, Failed):
                brokers[name] = FlowFigures(failed=last.reason)
            elif wrong:
                reason = f"{wrong[0].arrived:,} of {wrong[0].expected:,} messages arrived"
                brokers[name] = FlowFigures(failed=reason)
            else:
                best = max(flowed, key=_rate)
                brokers[name] = FlowFigures(_rate(best), best, [_rate(each) for each in flowed])
        return FlowRow(row.name, row.describe, row.wanted, row.receivers, brokers, _ratios(brokers))

    def latency(self, row: BenchRow) -> LatencyRow:
        """Measure the latency of all brokers under one load."""
        brokers = {}
        for name, outcomes in self._take_turns(row).items():
            last = outcomes[-1]
            delayed = [each for each in outcomes if isinstance(each, Delayed)]
            if isinstance(last, Failed):
                brokers[name] = LatencyFigures(failed=last.reason)
            else:
                brokers[name] = LatencyFigures(
                    delayed[0].messages,
                    min(each.p50_us for each in delayed),
                    min(each.p99_us for each in delayed),
                )
        return LatencyRow(row.name, row.describe, brokers)

    def memory(self) -> dict[str, MemoryFigures]:
        """Measure the memory of idle connections, with a fresh broker for each run."""
        count = self._settings.connections
        order = partial(Idle, connections=count)
        row = BenchRow(MEMORY, f"{count:,} idle connections", order, anew=True)
        figures = {}
        for name, outcomes in self._take_turns(row).items():
            last = outcomes[-1]
            rested = [each for each in outcomes if isinstance(each, Rested)]
            if isinstance(last, Failed):
                figures[name] = MemoryFigures(failed=last.reason)
            else:
                figures[name] = MemoryFigures(
                    count,
                    median(each.bytes_each for each in rested),
                    median(each.bytes_each_subscribed for each in rested),
                    [each.bytes_each for each in rested],
                )
        return figures

    def _take_turns(self, row: BenchRow) -> dict[str, list[LoadResult]]:
        """Run all brokers alternately, so that noise affects them alike; skip those that failed."""
        names = [*self._names, FLOOR] if row.has_floor else self._names
        outcomes: dict[str, list[LoadResult]] = {name: [] for name in names}
        for number in range(1, self._settings.runs + 1):
            for name, before in outcomes.items():
                if before and isinstance(before[-1], Failed):
                    continue
                self._step(f"{row.describe}: {name}, run {number} of {self._settings.runs}")
                if row.anew:
                    self.close()
                before.append(self._carry_out(name, row.order))
        return outcomes

    def _carry_out(self, name: str, order: Callable[[Target], Order]) -> LoadResult:
        if name not in self._running:
            self._started += 1
            directory = self._directory / f"{name}-{self._started}"
            directory.mkdir()
            if name == FLOOR:
                self._running[name] = start_floor(directory)
            else:
                self._running[name] = BROKERS[name].start(directory)
                self._warm_up(self._running[name])
        broker = self._running[name]
        records = name != FLOOR and BROKERS[name].records
        settle_s = self._settings.settle_s if records else 0.0
        outcome = self._load.carry_out(order(Target(broker.port, broker.pid, settle_s)))
        if isinstance(outcome, Failed):
            broker.close()
            del self._running[name]
        return outcome

    def _warm_up(self, broker: Running) -> None:
        """Trigger a broker's lazy initialisation before it is measured."""
        target = Target(broker.port, broker.pid, 0.0)
        for order in (FanOut(target, 10, 10, 16, 4, 1), Ingest(target, 1, 2, 16, 4)):
            self._load.carry_out(order)


def _rate(flowed: Flowed) -> float:
    return flowed.expected / flowed.broker_cpu_s


def _ratios(brokers: dict[str, FlowFigures]) -> dict[str, float]:
    theirs = brokers.get(MOSQUITTO, FlowFigures()).messages_per_cpu_s
    if theirs is None:
        return {}
    return {
        name: figures.messages_per_cpu_s / theirs
        for name, figures in brokers.items()
        if name != MOSQUITTO and figures.messages_per_cpu_s is not None
    }
