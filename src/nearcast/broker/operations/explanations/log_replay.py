"""The inputs of a broker's log, for an engine that decides on them once more."""

from collections.abc import Callable, Iterator
from pathlib import Path

from nearcast.core.engine.engine import Engine
from nearcast.core.model.inputs import Input, TimePassed
from nearcast.store import (
    TICK,
    CorruptError,
    Gap,
    LogReader,
    Row,
    broker_snapshots,
    find_snapshots,
    input_of,
    is_input,
    read_snapshot,
    rows_of,
)

Progress = Callable[[int, int], None]
"""Is told how many rows of how many are done."""


def rows_in(reader: LogReader) -> int:
    """Return the seq of the last row of a log; 0 if there is none."""
    segments = reader.segments()
    return segments[-1].last_seq if segments else 0


def resume_before(engine: Engine, log: Path, seq: int) -> int:
    """Restore an engine from the last snapshot before a row; return the row to go on from."""
    for file in reversed(find_snapshots(broker_snapshots(log))):
        if file.seq < seq:
            try:
                head, inputs = read_snapshot(file.path, file.others)
            except CorruptError:
                continue
            engine.restore(head.seq, inputs)
            return head.seq + 1
    return 1


def replayed_inputs(
    reader: LogReader, first_seq: int, missing: list[str], progress: Progress | None = None
) -> Iterator[tuple[Row, Input | TimePassed]]:
    """Yield the inputs from a row on; what is missing before the next is appended to `missing`."""
    total = rows_in(reader)
    for part in reader.read(first_seq):
        if isinstance(part, Gap):
            missing.append(part.reason)
            continue
        for row in rows_of(part):
            if row.kind == TICK:
                yield row, TimePassed()
                continue
            if not is_input(row.kind):
                continue
            if progress is not None and row.seq % 1_000 == 0:
                progress(row.seq, total)
            yield row, input_of(row)
