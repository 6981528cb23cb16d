"""How the cost of a table grows: epochs, compaction and vacuum of many rows in one driver.

No Spark takes part: rows are written by the driver, as in a small epoch. What is measured is what
the format of tables costs: CPU of an epoch at several sizes of the table, and the memory of the
process, which must not grow with the table.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from nearcast.pipeline.tables.tables import EpochId, Tables

COMPACT_EPOCHS = 200
"""The pipeline compacts a table that has so many small files."""
ROWS_A_SECOND = 1_000
STARTED = 1_700_000_000.0
MARKS = (0.01, 0.1, 0.5, 1.0)
"""The shares of all rows at which epochs are measured."""
MEASURED_EPOCHS = 10
SAMPLE_S = 0.02


class TableBenchSettings(Struct, frozen=True):
    """The size of the benchmark."""

    rows: int = 10_000_000
    epoch_rows: int = 10_000


class StepCost(Struct, frozen=True):
    """The cost of one kind of step with a table of some size."""

    step: str
    table_rows: int
    files: int
    cpu_ms: float
    """CPU of a step, in milliseconds."""
    wall_ms: float
    memory_mb: float
    """The most memory of the process during the step."""


class TableBenchResult(Struct, frozen=True):
    """All figures."""

    settings: TableBenchSettings
    steps: list[StepCost]


def run(settings: TableBenchSettings, step: Callable[[str], None]) -> TableBenchResult:
    """Fill a table, and measure on the way."""
    epochs = max(MEASURED_EPOCHS, settings.rows // settings.epoch_rows)
    marks = sorted({max(MEASURED_EPOCHS, round(epochs * share)) for share in MARKS})
    found: list[StepCost] = []
    with tempfile.TemporaryDirectory() as directory:
        tables = Tables(Path(directory))
        done = 0
        for mark in marks:
            compaction: StepCost | None = None
            costs: list[StepCost] = []
            for epoch in range(done, mark):
                step(f"epoch {epoch + 1} of {epochs}")
                if epoch and epoch % COMPACT_EPOCHS == 0:
                    compaction = _cost(tables, "compaction", tables.compact)
                append = partial(
                    tables.append, "events", events(epoch, settings.epoch_rows),
                    EpochId("benchmark", epoch),
                )  # fmt: skip
                if epoch >= mark - MEASURED_EPOCHS:
                    costs.append(_cost(tables, "epoch", append))
                else:
                    append()
            done = mark
            found.append(min(costs, key=lambda cost: cost.cpu_ms))
            if compaction is not None:
                found.append(compaction)
        step("vacuum")
        found.append(_cost(tables, "vacuum", partial(tables.vacuum, 0.0)))
        step("reading all")
        found.append(_cost(tables, "reading all", partial(_read, tables)))
    return TableBenchResult(settings, found)


def events(epoch: int, count: int) -> pa.Table:
    """Rows such as the table `events` has, of one epoch."""
    numbers = np.arange(epoch * count, (epoch + 1) * count)
    times = STARTED + numbers / ROWS_A_SECOND
    draw = np.random.default_rng(epoch)
    return pa.table(
        {
            "broker": pa.repeat("local", count),
            "seq": numbers,
            "event_id": [f"e{number}" for number in numbers.tolist()],
            "subject": [f"city/{each}" for each in draw.integers(0, 500, count).tolist()],
            "publisher": [f"p{each}" for each in draw.integers(0, 10_000, count).tolist()],
            "time": times,
            "ingested": times,
            "lat": draw.uniform(53.0, 54.0, count),
            "lon": draw.uniform(-7.0, -6.0, count),
            "payload": [b'{"noise": %d}' % each for each in draw.integers(0, 99, count).tolist()],
        }
    )


def show(result: TableBenchResult, console: Console) -> None:
    """Print the figures as a table."""
    shown = Table("step", "rows in the table", "files", "CPU ms", "wall ms", "memory MB")
    for each in result.steps:
        shown.add_row(
            each.step, f"{each.table_rows:,}", f"{each.files:,}", f"{each.cpu_ms:,.1f}",
            f"{each.wall_ms:,.1f}", f"{each.memory_mb:,.0f}",
        )  # fmt: skip
    console.print(shown)


def _read(tables: Tables) -> int:
    return sum(batch.num_rows for batch in tables.batches("events", ["seq", "subject"]))


def _cost(tables: Tables, name: str, act: Callable[[], object]) -> StepCost:
    cpu, wall = time.process_time(), time.perf_counter()
    with _most_memory() as most:
        act()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    (size,) = tables.statistics()
    return StepCost(name, size.rows, size.files, cpu * 1e3, wall * 1e3, most[0] / 1e6)


@contextmanager
def _most_memory() -> Iterator[list[int]]:
    """Yield a list whose only item is the most memory of this process so far."""
    process, ended = psutil.Process(), threading.Event()
    most = [process.memory_info().rss]

    def sample() -> None:
        while not ended.wait(SAMPLE_S):
            most[0] = max(most[0], process.memory_info().rss)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()
