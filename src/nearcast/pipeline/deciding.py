"""Decisions in Spark: who gets which event, by the same engine that brokers have.

Each task takes some rows of one broker's log, in their order. Its player begins where the rows
do: it is the one that this process has from the batch before, or comes from a snapshot, and
applies what lies between. What it decides follows from the log alone, so a batch that is done
again, by whichever process, gives the same rows.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from nearcast.core.fan import Fan
from nearcast.core.model.context import NodeState
from nearcast.pipeline import snapshots
from nearcast.pipeline.log_ranges import LogRange, Wanted, parts_of, read_range
from nearcast.pipeline.playing import ContextChange, Played, Player, Sent, Unusable
from nearcast.pipeline.sink_rows import SINK_SCHEMA
from nearcast.store import Row, broker_directory, read_manifest, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELIVERY, CONTEXT, UNUSABLE = "delivery", "context", "unusable"
"""What a decided row is."""
DECIDED_SCHEMA = (
    f"{SINK_SCHEMA}, seq long, last_seq long, elsewhere boolean, recorded boolean, node string, "
    "attributes string, previous_lat double, previous_lon double, previous_time double, "
    "reason string"
)
"""Rows of `decided`: those of the sink, and beside them what contexts and refusals need."""
SNAPSHOT_ROWS = 200_000
SNAPSHOT_ROWS_EACH = 5
"""After so many rows a player is kept, or so many for each thing that it knows if these are more.

To write one down costs about as much as to apply a row.
"""

_players: dict[tuple[str, str], tuple[Player, int]] = {}
"""The players of this process, and when each was kept last; by data directory and broker."""


def decided(log: "DataFrame", data: str) -> "DataFrame":
    """Return what comes of rows of the log: deliveries, contexts, and what could not be applied.

    `data` is the data directory with the whole log, which every executor must see.
    """
    return log.mapInArrow(partial(decide_batches, data), DECIDED_SCHEMA)


def decide_batches(data: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decide on rows, which are in the order of their seqs for each broker."""
    rows = (row for batch in batches for row in rows_of(batch))
    for broker, own in groupby(rows, attrgetter("broker")):
        yield from _decide(data, broker, own)


def snapshot_directory(data: str, broker: str) -> Path:
    """Where players of a broker are kept."""
    return Path(data) / "checkpoints" / "snapshots" / broker_directory(Path(), broker).name


def _decide(data: str, broker: str, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    first = next(rows)
    player, kept = _player(data, broker, first.seq - 1)
    # Until all is well the process has no player: a task that is cut off leaves it half-way.
    _players.pop((data, broker), None)
    for played in player.decide(_joined(first, rows)):
        yield from decided_batches(broker, played)
    if player.seq - kept >= max(SNAPSHOT_ROWS, SNAPSHOT_ROWS_EACH * player.size):
        snapshots.save(snapshot_directory(data, broker), player)
        kept = player.seq
    _players[data, broker] = player, kept


def _joined(first: Row, rows: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rows


def _player(data: str, broker: str, seq: int) -> tuple[Player, int]:
    """A player that has applied all rows up to one, and when it was kept last."""
    player, kept = _players.get((data, broker), (None, 0))
    if player is None or player.seq > seq or seq - player.seq > SNAPSHOT_ROWS:
        found = snapshots.load(snapshot_directory(data, broker), seq)
        _settle_memory()
        if found is not None and (player is None or not player.seq <= seq < found.seq):
            player, kept = found, found.seq
        elif player is None or player.seq > seq:
            player, kept = Player(broker), 0
    if player.seq < seq:
        log = broker_directory(Path(data), broker) / "log"
        first = player.seq + 1
        segments, gaps = parts_of(read_manifest(log), first, seq)
        missed = LogRange(str(log), broker, first, seq, tuple(segments), tuple(gaps))
        for batch in read_range(missed, Wanted()):
            player.apply(rows_of(batch))
        player.seq = seq
    return player, kept


def _settle_memory() -> None:
    """Have no garbage looked for among all that a player knows, and seldom elsewhere."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def decided_batches(broker: str, played: Played) -> Iterator[pa.RecordBatch]:
    """Yield what came of some rows, a batch for each kind."""
    for count, columns in (
        _deliveries(played.sent),
        _contexts(played.contexts),
        _unusable(played.unusable),
    ):
        if count:
            columns["broker"] = pa.repeat(broker, count)
            yield pa.RecordBatch.from_arrays(
                [_column(columns.get(field.name), field.type, count) for field in ARROW_SCHEMA],
                schema=ARROW_SCHEMA,
            )


Columns = dict[str, object]


def _column(values: object, form: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, form)
    return values if isinstance(values, pa.Array) else pa.array(values, form)


def _deliveries(sent: Sequence[Sent]) -> tuple[int, Columns]:
    events = [each.event for each in sent]
    at = [event.position for event in events]
    return len(sent), {
        "kind": pa.repeat(DELIVERY, len(sent)),
        "id": [event.id for event in events],
        "subject": [event.subject for event in events],
        "publisher": [event.publisher for event in events],
        "session": [event.session for event in events],
        "time": [event.time for event in events],
        "lat": [None if each is None else each.lat for each in at],
        "lon": [None if each is None else each.lon for each in at],
        "at_given": [event.at_given for event in events],
        "payload": [event.payload for event in events],
        "properties": [_pairs(each.headers[0]) for each in sent],
        "headers": [each.headers[1] for each in sent],
        "qos": [event.qos for event in events],
        "retain": [event.retain for event in events],
        "valid_s": [event.valid_s for event in events],
        "expires": [each.expires for each in sent],
        "object": [event.object for event in events],
        "recipients": _recipients(sent),
        "seq": [each.seq for each in sent],
        "elsewhere": [each.elsewhere for each in sent],
        "recorded": [each.recorded for each in sent],
    }


def _pairs(properties: Sequence[tuple[str, str]]) -> list[dict[str, str]] | None:
    return [{"name": name, "value": value} for name, value in properties] or None


def _recipients(sent: Sequence[Sent]) -> pa.Array:
    sessions: list[str] = []
    names: list[str] = []
    counts: list[int] = []
    priorities: list[int] = []
    replayed: list[bool] = []
    sizes: list[int] = []
    for each in sent:
        what = each.sent
        if isinstance(what, Fan):
            filed, size = what.filed, len(what.filed)
            sessions += [one.owner for one in filed]
            names += [one.id for one in filed]
            counts += [1] * size
            priorities += [what.priority] * size
            replayed += [False] * size
        else:
            size = 1
            sessions.append(what.owner)
            names += what.subscriptions
            counts.append(len(what.subscriptions))
            priorities.append(what.priority)
            replayed.append(what.replayed)
        sizes.append(size)
    wanted = pa.ListArray.from_arrays(_offsets(counts), pa.array(names, pa.string()))
    recipients = pa.StructArray.from_arrays(
        [
            pa.array(sessions, pa.string()),
            wanted,
            pa.array(priorities, pa.int32()),
            pa.array(replayed, pa.bool_()),
        ],
        fields=list(RECIPIENT),
    )
    return pa.ListArray.from_arrays(_offsets(sizes), recipients)


def _offsets(lengths: Sequence[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)]), pa.int32())


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


RECIPIENT = pa.struct(
    [
        ("session", pa.string()),
        ("subscriptions", pa.list_(pa.string())),
        ("priority", pa.int32()),
        ("replayed", pa.bool_()),
    ]
)
ARROW_SCHEMA = pa.schema(
    [
        ("broker", pa.string()), ("kind", pa.string()), ("id", pa.string()),
        ("subject", pa.string()), ("publisher", pa.string()), ("session", pa.string()),
        ("time", pa.float64()), ("lat", pa.float64()), ("lon", pa.float64()),
        ("at_given", pa.bool_()), ("payload", pa.binary()),
        ("properties", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),
        ("headers", pa.binary()), ("qos", pa.int32()), ("retain", pa.bool_()),
        ("valid_s", pa.float64()), ("expires", pa.float64()), ("object", pa.string()),
        ("to", pa.string()), ("recipients", pa.list_(RECIPIENT)), ("seq", pa.int64()),
        ("last_seq", pa.int64()), ("elsewhere", pa.bool_()), ("recorded", pa.bool_()),
        ("node", pa.string()), ("attributes", pa.string()), ("previous_lat", pa.float64()),
        ("previous_lon", pa.float64()), ("previous_time", pa.float64()), ("reason", pa.string()),
    ]
)  # fmt: skip
"""`DECIDED_SCHEMA` in Arrow's words."""
