"""The decided rows of several shards as those of a whole engine: one row for an event again.

A row of a shard also says which row of the log caused it, and its place among the shard's rows.
Rows of one cause that tell of the same event become one row, with the recipients of all of them.
The order of each shard is kept, so each session gets its events in the order of the log.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.core.engine.shard import Shard
from nearcast.core.matching.tables import I64
from nearcast.pipeline.decide.decided_schema import (
    ARROW_SCHEMA,
    DELIVERY,
    RECIPIENTS,
    UNUSABLE,
)
from nearcast.pipeline.decide.plain_events import joined

CAUSE, SHARD, PLACE = "cause", "shard", "place"
SHARD_SCHEMA = pa.schema(
    [*ARROW_SCHEMA, (CAUSE, pa.int64()), (SHARD, pa.int32()), (PLACE, pa.int64())]
)
"""Columns of the decided rows of a shard."""
ORDER = ("broker", CAUSE, SHARD, PLACE)
"""The order in which rows are merged."""

Flags = npt.NDArray[np.bool_]


class ShardRows:
    """Adds to the decided rows of a task what is needed to merge them."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._made = 0

    def located(self, rows: pa.RecordBatch, causes: pa.Array) -> pa.RecordBatch:
        """Return rows with the seqs of their causes and their places."""
        count, first = rows.num_rows, self._made
        self._made += count
        shard = pa.repeat(pa.scalar(self._shard.number, pa.int32()), count)
        places = pa.array(np.arange(first, self._made))
        columns = [*rows.columns, causes, shard, places]
        return pa.RecordBatch.from_arrays(columns, schema=SHARD_SCHEMA)


def merge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the rows of all shards, which come in `ORDER`."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        whole = joined(held)
        # The rows of its last cause may go on in the next batch.
        last = int(np.flatnonzero(_cause_starts(whole))[-1])
        held = [whole.slice(last)]
        if last:
            yield _merged(whole.slice(0, last))
    if held:
        yield _merged(joined(held))


def _merged(rows: pa.RecordBatch) -> pa.RecordBatch:
    starts = _cause_starts(rows)
    order: I64 = np.arange(rows.num_rows)
    groups = np.ones(rows.num_rows, np.bool_)
    """True where a merged row begins, in `order`."""
    chosen = order.copy()
    """The row that a merged row is taken from, by its first row."""
    firsts = np.flatnonzero(starts)
    ends = np.append(firsts[1:], rows.num_rows)
    shards = rows[SHARD].to_numpy()
    several = shards[firsts] != shards[ends - 1]
    fresh = np.logical_and.reduceat(_are_fresh(rows), firsts)
    # A new event: each shard has one row of it at most.
    groups[np.repeat(several & fresh, ends - firsts) & ~starts] = False
    for run in np.flatnonzero(several & ~fresh).tolist():
        first, end = int(firsts[run]), int(ends[run])
        part = rows.slice(first, end - first)
        at = first
        for members in _arranged(_keys(part), shards[first:end].tolist()):
            order[at : at + len(members)] = [first + each for each in members]
            groups[at + 1 : at + len(members)] = False
            known = [each for each in members if part["seq"][each].is_valid]
            chosen[at] = first + (known or members)[0]
            at += len(members)
    if groups.all() and not several.any():
        return rows.select(ARROW_SCHEMA.names)
    begins = np.flatnonzero(groups)
    found = rows.select(ARROW_SCHEMA.names).take(pa.array(chosen[begins]))
    merged = _joined_lists(rows["recipients"].take(pa.array(order)), begins)
    at = ARROW_SCHEMA.get_field_index("recipients")
    return found.set_column(at, ARROW_SCHEMA.field(at), merged)


def _cause_starts(rows: pa.RecordBatch) -> Flags:
    """True where the rows of another cause begin."""
    broker = rows["broker"].dictionary_encode().indices.to_numpy()
    cause = rows[CAUSE].to_numpy()
    starts = np.ones(rows.num_rows, np.bool_)
    starts[1:] = (cause[1:] != cause[:-1]) | (broker[1:] != broker[:-1])
    return starts


def _are_fresh(rows: pa.RecordBatch) -> Flags:
    """True for deliveries of the event that is their cause."""
    same = pc.fill_null(pc.equal(rows["seq"], rows[CAUSE]), False)
    flags: Flags = pc.and_(pc.equal(rows["kind"], DELIVERY), same).to_numpy(zero_copy_only=False)
    return flags


def _keys(rows: pa.RecordBatch) -> list[Hashable]:
    """What rows of one cause tell of: those of different shards with equal keys are merged."""
    found: list[Hashable] = []
    fresh = _are_fresh(rows).tolist()
    names = ("kind", "publisher", "id", "seq", "last_seq", "reason")
    columns = (rows[name].to_pylist() for name in names)
    for row, (kind, publisher, name, *rest) in enumerate(zip(*columns, strict=True)):
        if kind == DELIVERY:
            found.append((publisher, name, fresh[row]))
        else:
            found.append((kind, *rest) if kind == UNUSABLE else row)
    return found


def _arranged(keys: Sequence[Hashable], shards: Sequence[int]) -> list[list[int]]:
    """Return the rows of one cause, those to merge together, so that the order of each shard stays.

    If two shards have events in different orders, some stay apart.
    """
    found: list[tuple[Hashable, list[int]]] = []
    shard, after = -1, 0
    for row, key in enumerate(keys):
        if shards[row] != shard:
            shard, after = shards[row], 0
        at = next((k for k in range(after, len(found)) if found[k][0] == key), None)
        if at is None:
            found.insert(after, (key, [row]))
            after += 1
        else:
            found[at][1].append(row)
            after = at + 1
    return [rows for _, rows in found]


def _joined_lists(lists: pa.Array, begins: I64) -> pa.Array:
    """Join each run of lists; a run of nulls is null."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.append(0, np.cumsum(lengths))[np.append(begins, len(lists))].astype(np.int32)
    nothing = ~np.logical_or.reduceat(lists.is_valid().to_numpy(zero_copy_only=False), begins)
    return pa.ListArray.from_arrays(
        offsets, lists.flatten(), type=RECIPIENTS, mask=pa.array(nothing)
    )
