"""The situation benchmark: moving clients that subscribe to the events around them.

Nearcast, mosquitto with the cells of a grid as topics, and Redis with a geo set run the same
journeys. The metric is useful deliveries, those that match the receiver's subscription, per
CPU-second of all processes: server and clients. Every run that is not paced compares the
deliveries with the expected ones.
"""

import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.benchmarks.situation.city import Scenario
from nearcast.benchmarks.situation.orders import (
    Order,
    SituationFailed,
    SituationOutcome,
    SituationPlayed,
)
from nearcast.benchmarks.situation.sides import KINDS_TOO, MOSQUITTO, OURS, RECORDED, REDIS, SIDES
from nearcast.benchmarks.this_machine import machine

WANTED_RATIO, WANTED_BYTES = 5.0, 0.1
"""Targets: useful deliveries per CPU-second and bytes, as multiples of mosquitto's."""
MOVES_IN_GROWTH = 15_000
SETTLE_S = 1.3
"""Seconds to wait until the log is written, so that its CPU time is counted."""
LOAD_WITHIN_S = 600.0


class SituationBenchSettings(Struct, frozen=True):
    """Settings of the situation benchmark."""

    scenario: Scenario = Scenario()
    cells_m: tuple[float, ...] = (1_000.0, 500.0, 250.0)
    """Cell sizes to try; the best one for mosquitto is used in the comparison."""
    growth: tuple[int, ...] = (100, 500, 1_000, 5_000)
    paced_rounds: int = 5
    """Rounds in real time, of two seconds each."""
    runs: int = 2


class Line(Struct, frozen=True):
    """One side in one scenario: its best run, or the reason for its failure."""

    side: str
    scenario: Scenario
    cell_m: float | None
    paced: bool = False
    played: SituationPlayed | None = None
    useful_per_cpu_s: float | None = None
    runs: list[float] = []
    """Useful deliveries per CPU-second of every run."""
    bytes_per_useful: float | None = None
    messages_per_move: float | None = None
    failed: str | None = None


class SituationResult(Struct, frozen=True):
    """The result of a whole run."""

    benchmark: str
    started: str
    settings: SituationBenchSettings
    machine: dict[str, str]
    versions: dict[str, str]
    describe: dict[str, str]
    skipped: dict[str, str]
    wanted_ratio: float
    wanted_bytes: float
    cells: list[Line]
    """mosquitto with every cell size, without and with filters."""
    comparison: list[Line]
    """All sides, without and with filters."""
    paced: list[Line]
    """All sides in real time."""
    denser: list[Line]
    """More movers in the same city."""
    wider: list[Line]
    """More movers in a larger city, at constant density."""

    @property
    def failures(self) -> list[str]:
        """Descriptions of all failures."""
        lines = [*self.cells, *self.comparison, *self.paced, *self.denser, *self.wider]
        return [
            f"{line.side}, {line.scenario.movers:,} movers: {line.failed}"
            for line in lines
            if line.failed is not None
        ]


def run(settings: SituationBenchSettings, step: Callable[[str], None]) -> SituationResult:
    """Run the benchmark; `step` gets progress texts. Raises BenchmarkError."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    missing = {name: side.missing() for name, side in SIDES.items()}
    present = [name for name, lacks in missing.items() if lacks is None]
    field = _SituationRuns(present, settings, step)
    plain = settings.scenario
    filtered = replace(plain, filtered=True)
    cells = [
        line
        for scenario in (plain, filtered)
        for cell_m in settings.cells_m
        for line in field.measure([MOSQUITTO], scenario, cell_m)
    ]
    best = {each: _best_cell(cells, each, settings.cells_m[0]) for each in (False, True)}
    everyone = [OURS, RECORDED, MOSQUITTO, KINDS_TOO, REDIS]
    comparison = [
        line
        for each in (plain, filtered)
        for line in field.measure(everyone, each, best[each.filtered])
    ]
    short = replace(plain, rounds=settings.paced_rounds)
    paced = [
        line
        for each in (short, replace(short, filtered=True))
        for line in field.measure(everyone, each, best[each.filtered], paced=True)
    ]
    denser, wider = [], []
    for movers in settings.growth:
        rounds = max(2, min(plain.rounds, MOVES_IN_GROWTH // movers))
        grown = replace(plain, movers=movers, rounds=rounds)
        denser += field.measure([OURS, MOSQUITTO], grown, best[False])
        side_m = plain.side_m * (movers / plain.movers) ** 0.5
        wider += field.measure([OURS, MOSQUITTO], replace(grown, side_m=side_m), best[False])
    return SituationResult(
        benchmark="situation",
        started=started,
        settings=settings,
        machine=machine(),
        versions={
            "python": platform.python_version(),
            **{name: SIDES[name].version() for name in present},
        },
        describe={name: SIDES[name].describe for name in present},
        skipped={name: lacks for name, lacks in missing.items() if lacks is not None},
        wanted_ratio=WANTED_RATIO,
        wanted_bytes=WANTED_BYTES,
        cells=cells,
        comparison=comparison,
        paced=paced,
        denser=denser,
        wider=wider,
    )


class _SituationRuns:
    """Measures the installed sides alternately."""

    def __init__(
        self, present: Sequence[str], settings: SituationBenchSettings, step: Callable[[str], None]
    ) -> None:
        self._present = present
        self._settings = settings
        self._step = step

    def measure(
        self, names: Sequence[str], scenario: Scenario, cell_m: float, *, paced: bool = False
    ) -> list[Line]:
        """Run a scenario on several sides alternately, so that noise affects them alike."""
        names = [name for name in names if name in self._present]
        if not scenario.filtered:
            names = [name for name in names if name != KINDS_TOO]
        outcomes: dict[str, list[SituationOutcome]] = {name: [] for name in names}
        for number in range(self._settings.runs):
            for name in names:
                self._step(
                    f"{scenario.movers:,} movers{' with filters' * scenario.filtered}: {name}, "
                    f"run {number + 1} of {self._settings.runs}"
                )
                outcomes[name].append(_play(name, scenario, cell_m, paced))
        return [_line(name, scenario, cell_m, paced, outcomes[name]) for name in names]


def _play(name: str, scenario: Scenario, cell_m: float, paced: bool) -> SituationOutcome:
    """Start a server, run a load generator against it, and stop it."""
    side = SIDES[name]
    with tempfile.TemporaryDirectory() as directory:
        server = side.start(Path(directory))
        try:
            order = Order(
                side.way, server.port, server.pid, scenario, SETTLE_S if side.records else 0.0,
                cell_m, side.kind_in_topic, paced,
            )  # fmt: skip
            command = [sys.executable, "-m", "nearcast.benchmarks.situation.load"]
            ran = subprocess.run(
                command, input=msgspec.json.encode(order), stdout=subprocess.PIPE, check=False,
                timeout=LOAD_WITHIN_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return SituationFailed(f"it was not done within {LOAD_WITHIN_S:.0f} s")
        finally:
            server.close()
    if ran.returncode:
        return SituationFailed(f"the load generator ended with code {ran.returncode}")
    outcome: SituationOutcome = msgspec.json.decode(ran.stdout, type=SituationOutcome)
    return outcome


def _line(
    name: str, scenario: Scenario, cell_m: float, paced: bool, outcomes: Sequence[SituationOutcome]
) -> Line:
    cell = cell_m if SIDES[name].uses_cells else None
    failed = [each.reason for each in outcomes if isinstance(each, SituationFailed)]
    if failed:
        return Line(name, scenario, cell, paced, failed=failed[0])
    played = [each for each in outcomes if isinstance(each, SituationPlayed)]
    best = max(played, key=_rate)
    if paced:
        # The minimum of each percentile: other load on the machine only ever adds.
        best = replace(
            best,
            p50_us=min(each.p50_us or 0.0 for each in played),
            p99_us=min(each.p99_us or 0.0 for each in played),
        )
    return Line(
        name, scenario, cell, paced, best, _rate(best), [_rate(each) for each in played],
        best.bytes_moved / max(1, best.useful), best.move_messages / max(1, best.moves),
    )  # fmt: skip


def _rate(played: SituationPlayed) -> float:
    return played.useful / (played.server_cpu_s + played.client_cpu_s)


def _best_cell(cells: Sequence[Line], filtered: bool, otherwise: float) -> float:
    lines = [line for line in cells if line.scenario.filtered == filtered and line.useful_per_cpu_s]
    best = max(lines, key=lambda line: line.useful_per_cpu_s or 0.0, default=None)
    return otherwise if best is None or best.cell_m is None else best.cell_m
