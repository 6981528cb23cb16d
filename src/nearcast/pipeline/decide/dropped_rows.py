"""Going on after rows that a log has dropped before the pipeline had them.

Decisions depend on all rows before, so they go on only from a snapshot: one that the pipeline has,
or one that the broker writes of what is in force now. Rows up to there are reported as not decided.
"""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.source.row_inputs import Unusable, gap_in
from nearcast.store import GAP, StoreError, ask_broker, rows_of
from nearcast.store.log.log_reader import DROPPED

ASK_S = 20.0
"""How long to wait for a snapshot of the broker, each time that the epoch is tried."""
LOOK_S = 0.2


class TaskRows:
    """The rows of a task, up to each place where rows were dropped."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        first = next(batches)
        self._waiting = [first]
        self.begin: int = first["seq"][0].as_py()
        """The first row that is not decided yet, dropped or not."""
        self.dropped: Unusable | None = None
        """The rows that are missing at this place."""

    def until_dropped(self) -> Iterator[pa.RecordBatch]:
        """Yield rows up to the next that were dropped, or the end."""
        self.dropped = None
        while (batch := self._next()) is not None:
            at = _dropped_at(batch)
            if at is None:
                yield batch
                continue
            self.dropped = gap_in(next(rows_of(batch.slice(at, 1))))
            self.begin = self.dropped.seq
            self._waiting.append(batch.slice(at + 1))
            if at:
                yield batch.slice(0, at)
            return

    def skip(self, seq: int) -> int:
        """Skip the rows up to `seq`; return the last that this task has of them."""
        last = self.begin if self.dropped is None else self.dropped.last
        while (batch := self._next()) is not None:
            passed = int(np.searchsorted(batch["seq"].to_numpy(), seq, side="right"))
            if passed < batch.num_rows:
                self._waiting.append(batch.slice(passed))
                return seq
            last = _last(batch)
        return last

    def _next(self) -> pa.RecordBatch | None:
        while self._waiting:
            batch = self._waiting.pop()
            if batch.num_rows:
                return batch
        return next((each for each in self._batches if each.num_rows), None)


def _last(batch: pa.RecordBatch) -> int:
    """The last row that a batch has or stands for."""
    row = next(rows_of(batch.slice(batch.num_rows - 1)))
    return gap_in(row).last if row.kind == GAP else row.seq


def _dropped_at(batch: pa.RecordBatch) -> int | None:
    """The place of the first row that stands for dropped ones."""
    gaps = np.flatnonzero(pc.equal(batch["kind"], GAP).to_numpy(zero_copy_only=False))
    for at in gaps.tolist():
        if gap_in(next(rows_of(batch.slice(at, 1)))).reason == DROPPED:
            return int(at)
    return None


def player_after(snapshots: Snapshots, broker: str, seq: int) -> Player:
    """Return a player that has applied all rows up to `seq`, or further, from a snapshot.

    Asks the broker for one if there is none. Raises `PipelineError` if it does not answer.
    """
    found = snapshots.load_after(seq)
    if found is not None:
        return found
    try:
        ask_broker(snapshots.log, seq)
    except StoreError as error:
        raise PipelineError(_needed(broker, seq) + f" It cannot be asked: {error}") from None
    ends = time.monotonic() + ASK_S
    while time.monotonic() < ends:
        found = snapshots.load_after(seq)
        if found is not None:
            return found
        time.sleep(LOOK_S)
    raise PipelineError(_needed(broker, seq))


def _needed(broker: str, seq: int) -> str:
    return (
        f"the log of {broker} no longer has the rows up to {seq} (older than log.keep_s), and "
        f"there is no snapshot of what was in force after them: start {broker}, which writes one "
        "when it is asked, and the pipeline goes on from there; or restore its log from a backup."
    )


def not_decided(first: int, last: int, player: Player) -> Unusable:
    """Return the report for rows before the first snapshot after dropped rows."""
    return Unusable(
        first,
        last,
        f"not decided: rows before were dropped (older than log.keep_s), and what was in force is "
        f"known only from row {player.seq} on",
    )
