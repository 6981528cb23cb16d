"""Decisions in Spark: the recipients of each event, by the same engine that brokers run.

Each task takes a range of rows of one broker's log, in order. Its player must have applied all rows
before that range: it is the cached player of this process or is loaded from a snapshot, and applies
the rows in between. Decisions follow from the log alone, so a batch that is retried, by any
process, gives the same rows.

With several shards, the rows are decided once by each, for its own sessions, in processes that have
players of that shard only; then the rows of all shards are merged.
"""

import gc
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from nearcast.core.engine.shard import WHOLE, Shard
from nearcast.core.engine.updates.recorded_notices import recorded_notices
from nearcast.core.model.context import NodeState
from nearcast.core.model.notice_record import NoticeRecord
from nearcast.pipeline.decide.decided_schema import ARROW_SCHEMA as ARROW_SCHEMA
from nearcast.pipeline.decide.decided_schema import CONTEXT as CONTEXT
from nearcast.pipeline.decide.decided_schema import DELIVERY as DELIVERY
from nearcast.pipeline.decide.decided_schema import DUE as DUE
from nearcast.pipeline.decide.decided_schema import NOTICE as NOTICE
from nearcast.pipeline.decide.decided_schema import RECIPIENT as RECIPIENT
from nearcast.pipeline.decide.decided_schema import SUSPECT as SUSPECT
from nearcast.pipeline.decide.decided_schema import UNUSABLE as UNUSABLE
from nearcast.pipeline.decide.decided_schema import Columns, decided_batch
from nearcast.pipeline.decide.delivery_rows import delivery_batch
from nearcast.pipeline.decide.dropped_rows import TaskRows, not_decided, player_after
from nearcast.pipeline.decide.plain_events import joined
from nearcast.pipeline.decide.player import (
    ContextChange,
    NextRelease,
    Played,
    PlayedDeliveries,
    Player,
)
from nearcast.pipeline.decide.shard_merge import ShardRows
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.movement.suspects import Suspect
from nearcast.pipeline.source.log_ranges import LogRange, RangeRequest, parts_of, read_range
from nearcast.pipeline.source.row_inputs import Unusable
from nearcast.store import AnyPath, read_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


SNAPSHOT_ROWS = 200_000
SNAPSHOT_ROWS_EACH = 5
"""A snapshot is saved after this many rows, or this many per known object if that is more.

Writing one object to a snapshot costs about as much as applying one row.
"""

TOO_MANY = "a task made more copies of events than may be collected"

_players: dict[tuple[str, str], tuple[Player, int]] = {}
"""Players of this process and the seq of their last snapshot, by data directory and broker."""


def decided(
    log: "DataFrame",
    data: str,
    shards: int = 1,
    *,
    most_copies: int | None = None,
    since: float | None = None,
    until: float | None = None,
) -> "DataFrame":
    """Return the decided rows of a log: deliveries, contexts, unusable rows and suspects.

    A task that makes more than `most_copies` copies of events fails, with `TOO_MANY` in its error:
    few rows of a log may have so many recipients that nobody should collect them.

    `data` is the data directory with the whole log, or the URL of its copy: every executor must be
    able to read it. If the frame has the rows of a time only, `since` and `until` say so; shards
    read them again.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(ARROW_SCHEMA)
    decide = partial(decide_batches, data, most_copies=most_copies)
    if shards == 1:
        return log.mapInArrow(decide, schema)
    from nearcast.pipeline.decide.shard_tasks import decided_in_shards

    return decided_in_shards(log, data, decide, shards, RangeRequest(since=since, until=until))


def decide_batches(
    data: str,
    batches: Iterable[pa.RecordBatch],
    shard: Shard = WHOLE,
    most_copies: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Decide on rows, which are ordered by seq for each broker.

    The rows of a shard also have the columns by which they are merged.
    """
    located = ShardRows(shard)
    limit = CopyLimit(math.inf if most_copies is None else most_copies)
    for broker, own in groupby(_by_broker(batches), itemgetter(0)):
        for parts in _decide(data, broker, shard, (batch for _, batch in own)):
            limit.count(parts)
            if shard.is_whole:
                yield from decided_batches(broker, *parts)
            else:
                yield from shard_batches(broker, located, *parts)


def _by_broker(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for batch in batches:
        if batch.num_rows:
            brokers = batch["broker"].dictionary_encode()
            which = brokers.indices.to_numpy()
            starts = [0, *(np.flatnonzero(which[1:] != which[:-1]) + 1).tolist(), len(which)]
            for start, end in pairwise(starts):
                name = brokers.dictionary[which[start]].as_py()
                yield name, batch.slice(start, end - start)


class CopyLimit:
    """Counts the copies of events that a task makes, while it makes them."""

    def __init__(self, most: float) -> None:
        self._left = most

    def count(self, parts: Sequence[Played]) -> None:
        """Count the copies of some parts; raises `PipelineError` once they are too many."""
        self._left -= sum(len(each.deliveries) for part in parts for each in part.sent)
        if self._left < 0:
            raise PipelineError(TOO_MANY)


def _decide(
    data: str, broker: str, shard: Shard, batches: Iterator[pa.RecordBatch]
) -> Iterator[Sequence[Played]]:
    rows, snapshots = TaskRows(batches), Snapshots.of(data, broker, shard)
    _drop_others(shard)
    player, kept = _player(data, broker, shard, rows.begin - 1)
    # The cache has no player meanwhile: an interrupted task leaves it partly advanced.
    _players.pop((data, broker), None)
    decided_alone = player.decides_alone
    while True:
        if player.seq >= rows.begin:
            passed = not_decided(rows.begin, rows.skip(player.seq), player)
            snapshots.note_undecided(passed)
            yield [Played(unusable=[passed])]
        yield from player.decide_columns(rows.until_dropped())
        if rows.dropped is None:
            break
        player = player_after(snapshots, broker, rows.dropped.last)
        kept = player.seq
        decided_alone = True  # What was told before may not hold any more.
    if decided_alone or player.decides_alone:
        yield [Played(releases=[player.next_release()])]
    if not shard.is_whole:
        # All shards save theirs at the same row: not as each remembers, but as the files say.
        kept = snapshots.newest(player.seq)
    if player.seq - kept >= _many_rows(player) or snapshots.is_due(player.seq):
        snapshots.save(player)
        kept = player.seq
    _players[data, broker] = player, kept
    # What the rows took is not needed until the next task.
    pa.default_memory_pool().release_unused()


def _drop_others(shard: Shard) -> None:
    """Drop the players of other shards: a process has those of one."""
    others = [key for key, (player, _) in _players.items() if player.shard != shard]
    for key in others:
        del _players[key]
    if others:
        gc.unfreeze()
        gc.collect()


def _player(data: str, broker: str, shard: Shard, seq: int) -> tuple[Player, int]:
    """A player that has applied all rows up to `seq`, and the seq of its last snapshot.

    The cached player is used unless it is ahead of `seq`, or so far behind that loading a snapshot
    is less work than applying the missing rows. If the log has dropped some of them, it is the
    first player that can go on, which may be ahead of `seq`.
    """
    player, kept = _players.get((data, broker), (None, 0))
    if player is not None and player.seq > seq:
        player = None
    snapshots = Snapshots.of(data, broker, shard)
    newest = snapshots.newest(seq)
    if newest and (player is None or newest - player.seq >= _many_rows(player)):
        found = snapshots.load(seq)
        _settle_memory()
        if found is not None and (player is None or found.seq > player.seq):
            player, kept = found, found.seq
    if player is None:
        player, kept = Player(broker, shard), 0
    if player.seq < seq and not _catch_up(player, snapshots.log, seq):
        low = read_manifest(snapshots.log).whole.low_seq
        player = player_after(snapshots, broker, low - 1)
        kept = player.seq
    return player, kept


def _catch_up(player: Player, log: AnyPath, seq: int) -> bool:
    """Apply the rows up to `seq`; return whether the log still had all that it has not lost."""
    first = player.seq + 1
    manifest = read_manifest(log)
    if manifest.whole.low_seq <= first:
        segments, gaps = parts_of(manifest, first, seq)
        missed = LogRange(str(log), player.broker, first, seq, tuple(segments), tuple(gaps))
        player.apply_columns(read_range(missed, RangeRequest()))
        player.seq = seq
        # Rows may be dropped while they are read.
        manifest = read_manifest(log)
    return manifest.whole.low_seq <= first


def _many_rows(player: Player) -> int:
    """The number of rows that cost about as much as a snapshot of a player."""
    return max(SNAPSHOT_ROWS, SNAPSHOT_ROWS_EACH * player.size)


def _settle_memory() -> None:
    """Exclude the player's objects from garbage collection, and collect seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def decided_batches(broker: str, *parts: Played) -> Iterator[pa.RecordBatch]:
    """Yield the decided rows of some parts, one batch for each kind."""
    return (batch for batch, _ in _batches_and_causes(broker, parts))


def shard_batches(broker: str, rows: ShardRows, *parts: Played) -> Iterator[pa.RecordBatch]:
    """Yield the decided rows of a shard as `decided_batches` does, to be merged with others."""
    for batch, causes in _batches_and_causes(broker, parts):
        yield rows.located(batch, batch["seq"] if causes is None else causes)


def _batches_and_causes(
    broker: str, parts: Sequence[Played]
) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
    """Yield batches with the seqs of the rows that caused theirs; None: their own."""
    sent: list[pa.RecordBatch] = []
    causes: list[pa.Array] = []
    rest = Played()
    for part in parts:
        for each in part.sent:
            if len(each.deliveries):
                batch = delivery_batch(broker, each)
                sent.append(batch)
                causes.append(_causes(batch, each))
        rest.contexts += part.contexts
        rest.unusable += part.unusable
        rest.suspects += part.suspects
        rest.releases += part.releases
    if sent:
        yield joined(sent), pa.concat_arrays(causes)
    if rest.contexts:
        yield decided_batch(broker, *_contexts(rest.contexts)), None
    if rest.unusable:
        yield decided_batch(broker, *_unusable(rest.unusable)), None
    for part in parts:
        told = [record for record, _ in recorded_notices(part.notices)]
        if told:
            yield decided_batch(broker, *_notices(told, part)), None
    if rest.suspects:
        yield decided_batch(broker, *_suspects(rest.suspects)), None
    if rest.releases:
        yield decided_batch(broker, *_releases(rest.releases)), None


def _causes(rows: pa.RecordBatch, played: PlayedDeliveries) -> pa.Array:
    if played.cause is None:
        return rows["seq"]
    return pa.repeat(pa.scalar(played.cause, pa.int64()), rows.num_rows)


def _contexts(changes: Sequence[ContextChange]) -> tuple[int, Columns]:
    states = [each.state or NodeState(each.node) for each in changes]
    at, before = [state.position for state in states], [state.previous for state in states]
    return len(changes), {
        "kind": pa.repeat(CONTEXT, len(changes)),
        "seq": [each.seq for each in changes],
        "time": [each.time for each in changes],
        "node": [each.node for each in changes],
        "lat": [None if each is None else each.lat for each in at],
        "lon": [None if each is None else each.lon for each in at],
        "previous_lat": [None if each is None else each.lat for each in before],
        "previous_lon": [None if each is None else each.lon for each in before],
        "previous_time": [state.previous_at for state in states],
        "attributes": [
            None if each.state is None else msgspec.json.encode(each.state.attributes).decode()
            for each in changes
        ],
    }


def _unusable(found: Sequence[Unusable]) -> tuple[int, Columns]:
    return len(found), {
        "kind": pa.repeat(UNUSABLE, len(found)),
        "seq": [each.seq for each in found],
        "last_seq": [each.last for each in found],
        "reason": [each.reason for each in found],
    }


def _notices(found: Sequence[NoticeRecord], part: Played) -> tuple[int, Columns]:
    return len(found), {
        "kind": pa.repeat(NOTICE, len(found)),
        "id": [each.state for each in found],
        "subject": [each.topic for each in found],
        "node": [each.node for each in found],
        "time": [each.time for each in found],
        "seq": pa.repeat(pa.scalar(part.seq, pa.int64()), len(found)),
        "recorded": pa.repeat(part.recorded, len(found)),
    }


def _suspects(found: Sequence[Suspect]) -> tuple[int, Columns]:
    return len(found), {
        "kind": pa.repeat(SUSPECT, len(found)),
        "seq": [each.seq for each in found],
        "last_seq": [each.seq for each in found],
        "time": [each.time for each in found],
        "node": [each.node for each in found],
        "reason": [each.reason for each in found],
    }


def _releases(found: Sequence[NextRelease]) -> tuple[int, Columns]:
    return len(found), {
        "kind": pa.repeat(DUE, len(found)),
        "id": [str(each.seq) for each in found],
        "subject": pa.repeat("", len(found)),
        "seq": [each.seq for each in found],
        "time": [each.time for each in found],
    }
