"""The decided rows of several shards as those of a whole engine: one row for an event again.

A row of a shard also says which row of the log caused it, and its place among the shard's rows.
Rows of one cause that tell of the same event become one row, with the recipients of all of them.
The order of each shard is kept, so each session gets its events in the order of the log. Rows go to
the merging task in blocks of consecutive causes, each as the bytes of a stream of Arrow: Spark need
not look into them.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.core.engine.shard import Shard
from nearcast.core.matching.tables import I64
from nearcast.pipeline.decide.decided_schema import (
    ARROW_SCHEMA,
    DELIVERY,
    UNUSABLE,
)

CAUSE, SHARD, PLACE = "cause", "shard", "place"
SHARD_SCHEMA = pa.schema(
    [*ARROW_SCHEMA, (CAUSE, pa.int64()), (SHARD, pa.int32()), (PLACE, pa.int64())]
)
"""Columns of the decided rows of a shard."""
JOINED = ("recipients", "judged")
"""Columns of which a merged row has the lists of all shards."""
BLOCK_SEQS = 1_024
"""The number of seqs whose rows are merged at once."""
PACKED_SCHEMA = pa.schema(
    [
        ("broker", pa.string()), ("block", pa.int64()), (SHARD, pa.int32()), (PLACE, pa.int64()),
        ("rows", pa.binary()),
    ]
)  # fmt: skip
"""Columns of blocks: their number, the shard, the place of the first row, and all rows."""
ORDER = ("broker", "block", SHARD, PLACE)
"""The order in which blocks are merged."""

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


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard in blocks; there may be several parts of a block."""
    for batch in batches:
        blocks = batch[CAUSE].to_numpy() // BLOCK_SEQS
        starts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(starts):
            part = batch.slice(start, end - start)
            columns = [
                part["broker"][:1],
                pa.array(blocks[start : start + 1]),
                part[SHARD][:1],
                part[PLACE][:1],
                pa.array([_bytes_of(part)], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=PACKED_SCHEMA)


def merge_packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the blocks of all shards, which come in `ORDER`."""
    found = (row for batch in batches for row in batch.to_pylist())
    for _, parts in groupby(found, lambda row: (row["broker"], row["block"])):
        yield _merged(pa.concat_batches([_rows_in(part["rows"]) for part in parts]))


def _bytes_of(rows: pa.RecordBatch) -> bytes:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(written.getvalue())


def _rows_in(content: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(content) as stream:
        return stream.read_next_batch()


def _merged(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Merge rows of one broker, which come shard after shard, each in its order."""
    causes = rows[CAUSE].to_numpy()
    order: I64 = causes.argsort(kind="stable")
    shards, fresh = rows[SHARD].to_numpy()[order], _are_fresh(rows)[order]
    starts = np.diff(causes[order], prepend=-1) != 0
    firsts = np.flatnonzero(starts)
    ends = np.append(firsts[1:], rows.num_rows)
    several = shards[firsts] != shards[ends - 1]
    all_fresh = np.logical_and.reduceat(fresh, firsts)
    # Of a new event each shard has one row at most.
    begins = starts | ~np.repeat(several & all_fresh, ends - firsts)
    """True where a merged row begins, in `order`."""
    chosen = order.copy()
    """The row that a merged row is taken from, where it begins."""
    for run in np.flatnonzero(several & ~all_fresh).tolist():
        span = slice(int(firsts[run]), int(ends[run]))
        own = order[span].copy()
        part = rows.take(pa.array(own))
        at = span.start
        for members in _arranged(_keys(part), shards[span].tolist()):
            order[at : at + len(members)] = own[members]
            begins[at + 1 : at + len(members)] = False
            # The row of a live event is known only to those that decided on both together.
            known = [each for each in members if part["seq"][each].is_valid]
            chosen[at] = own[(known or members)[0]]
            at += len(members)
    merged = np.flatnonzero(begins)
    taken = pa.array(chosen[merged])
    columns = [
        _joined_lists(rows[name].take(pa.array(order)), merged)
        if name in JOINED
        else rows[name].take(taken)
        for name in ARROW_SCHEMA.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


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
        offsets, lists.flatten(), type=lists.type, mask=pa.array(nothing)
    )
