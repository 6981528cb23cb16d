"""The sink: rows of a query are sent to brokers over MQTT, each exactly once.

Tasks stage rows at their brokers, under (query, epoch, partition, attempt); the driver's commit
releases the epoch at each broker, naming the attempts that count. If a broker stays unreachable
until the timeout, the epoch fails and Spark retries it. A broker that had released the epoch
acknowledges and drops the repeat, so no row is lost or duplicated.

With the option `backlog` tasks write rows to the backlogs of the brokers, and the driver's `Outbox`
sends them from there: a broker that is away then holds up nobody else.

The name of an attempt is random, since Spark's numbers begin again with every driver. Spark's query
id is part of the query name here, so that a query with a new checkpoint, whose epochs begin at 0
again, is another query.
"""

import contextlib
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import convert
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from nearcast.pipeline.errors import LinkError, PipelineInputError
from nearcast.pipeline.sink.backlog import PartWriter
from nearcast.pipeline.sink.broker_link import BrokerLink, borrowed
from nearcast.pipeline.sink.outbox import backlog_directory, open_outbox
from nearcast.pipeline.sink.sink_options import SinkOptions as SinkOptions
from nearcast.pipeline.sink.sink_options import SinkPart as SinkPart
from nearcast.pipeline.sink.sink_rows import DueRow, bounded, rows_by_broker, split_dues
from nearcast.wire.handover import (
    Abort,
    HandedRow,
    Manifest,
    Packer,
    Release,
    Staged,
    manifest_bytes,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

ABORT_WAIT_S = 2.0
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's task properties that identify the streaming query and its batch."""
STAGED_SCHEMA = (
    "broker string, query string, epoch long, partition long, attempt string, packets long, "
    "rows long, dues array<double>, as_of long"
)


@dataclass
class Handed(WriterCommitMessage):
    """The commit message of a task: the parts it has staged."""

    parts: list[SinkPart] = field(default_factory=list)


def batch_writer(
    schema: "StructType", options: Mapping[str, str], overwrite: bool
) -> DataSourceArrowWriter:
    """Return the writer of `df.write.format("nearcast")`.

    With an `epoch`, or inside `foreachBatch`, the write takes effect once however often it is
    retried; two writes of one batch need different `query` names. Otherwise it is a query of its
    own.
    """
    return _BatchWriter(SinkOptions.read(options))


def stream_writer(
    schema: "StructType", options: Mapping[str, str], overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return the writer of `df.writeStream.format("nearcast")`."""
    return _StreamWriter(SinkOptions.read(options))


def hand_over(frame: "DataFrame", options: Mapping[str, str], epoch: int) -> int:
    """Stage a frame's rows and release them from this process; return the number of packets.

    The same as the batch writer, without Spark's own processes for planning and committing a write.
    For `foreachBatch`, whose batch id is the epoch.
    """
    chosen = SinkOptions.read({**options, "epoch": str(epoch)})

    def stage_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = stage(batches, chosen)
        columns = zip(*((getattr(part, name) for name in _PART) for part in parts), strict=True)
        if parts:
            yield pa.record_batch([list(column) for column in columns], schema=_STAGED)

    found = frame.mapInArrow(stage_all, STAGED_SCHEMA).collect()
    parts = [convert(row.asDict(), SinkPart) for row in found]
    release(parts, chosen)
    return sum(part.packets for part in parts)


_PART = SinkPart.__struct_fields__
_STAGED = pa.schema(
    [
        ("broker", pa.string()), ("query", pa.string()), ("epoch", pa.int64()),
        ("partition", pa.int64()), ("attempt", pa.string()), ("packets", pa.int64()),
        ("rows", pa.int64()), ("dues", pa.list_(pa.float64())), ("as_of", pa.int64()),
    ]
)  # fmt: skip


class _BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = _without_backlog(options)
        self._alone = f"{options.query} {secrets.token_hex(8)}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Handed:
        """Stage a partition."""
        return Handed(stage(iterator, self._options, self._alone))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Release the rows that all tasks have staged."""
        release(_parts(messages), self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop the rows that tasks have staged."""
        abort(_parts(messages), self._options)


class _StreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, one epoch at a time."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = _without_backlog(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Handed:
        """Stage a partition of an epoch."""
        return Handed(stage(iterator, self._options))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Release an epoch."""
        parts = _parts(messages)
        assert all(part.epoch == batchId for part in parts), "Spark told tasks another epoch"
        release(parts, self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Drop the rows that tasks have staged."""
        abort(_parts(messages), self._options)


def stage(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, alone: str | None = None
) -> list[SinkPart]:
    """Stage rows at their brokers, or write them to the backlogs, in the task that has them.

    Returns the parts. `alone` is the query name of a write without an epoch.
    """
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    query, epoch = _under(options, context, alone)
    attempt = secrets.token_hex(8)
    with contextlib.ExitStack() as stack:
        found: dict[str, _Staging | PartWriter] = {}
        dues: list[DueRow] = []
        for whole in chain.from_iterable(map(bounded, batches)):
            batch, due_rows = split_dues(whole)
            dues += due_rows
            for broker, rows in rows_by_broker(batch):
                staging = found.get(broker)
                if staging is None:
                    at = SinkPart(broker, query, epoch, partition, attempt, 0)
                    staging = found[broker] = _staging(at, options, stack)
                staging.add(rows)
        parts = [staging.finish() for staging in found.values()]
    times: dict[tuple[str, int], set[float]] = {}
    for due in dues:
        own = times.setdefault((due.broker, due.as_of), set())
        if due.time is not None:
            own.add(math.ceil(due.time / options.due_step_s) * options.due_step_s)
    return parts + [
        SinkPart(broker, query, epoch, partition, attempt, 0, 0, tuple(sorted(own)), as_of)
        for (broker, as_of), own in times.items()
    ]


def release(parts: Iterable[SinkPart], options: SinkOptions) -> None:
    """Release staged rows, one broker after another; raises `LinkError`.

    With a backlog they are durable on return, and most brokers have them.
    """
    if options.backlog:
        open_outbox(options).release(parts)
        return
    for (broker, query, epoch), manifest in sorted(_manifests(parts).items()):
        with borrowed(options.place(broker), options.wait_s) as link:
            link.send(Release(query, epoch).topic, manifest_bytes(manifest))
            link.flush()


def abort(parts: Iterable[SinkPart], options: SinkOptions) -> None:
    """Drop staged rows where the broker is reachable; otherwise the next epoch drops them."""
    if options.backlog:
        return
    for broker, query, epoch in sorted(_manifests(parts)):
        with (
            contextlib.suppress(LinkError),
            borrowed(options.place(broker), min(options.wait_s, ABORT_WAIT_S)) as link,
        ):
            link.send(Abort(query, epoch).topic, b"")
            link.flush()


def _staging(
    part: SinkPart, options: SinkOptions, stack: contextlib.ExitStack
) -> "_Staging | PartWriter":
    if options.backlog:
        return stack.enter_context(PartWriter(backlog_directory(options, part.broker), part))
    return _Staging(stack.enter_context(borrowed(options.place(part.broker), options.wait_s)), part)


class _Staging:
    """Sends rows to one broker."""

    def __init__(self, link: BrokerLink, part: SinkPart) -> None:
        self._link = link
        self._part = part
        self._packer = Packer(link.largest_payload)
        self._count = self._rows = 0

    def add(self, rows: Iterable[HandedRow]) -> None:
        for row in rows:
            self._rows += 1
            self._send(self._packer.add(row))

    def finish(self) -> SinkPart:
        self._send(self._packer.rest())
        self._link.flush()
        return replace(self._part, packets=self._count, rows=self._rows)

    def _send(self, packets: Iterable[bytes]) -> None:
        part = self._part
        for packet in packets:
            at = Staged(part.query, part.epoch, part.partition, part.attempt, self._count)
            self._link.send(at.topic, packet)
            self._count += 1


def _under(options: SinkOptions, context: TaskContext | None, alone: str | None) -> tuple[str, int]:
    """Return the query and the epoch that a task's rows are staged under."""
    batch_id = None if context is None else context.getLocalProperty(BATCH_ID)
    epoch = (
        options.epoch if options.epoch is not None else None if batch_id is None else int(batch_id)
    )
    if epoch is None:
        if alone is None:
            raise PipelineInputError(
                "Spark does not say which epoch this is; give the option epoch"
            )
        return alone, 0
    query_id = None if context is None else context.getLocalProperty(QUERY_ID)
    return options.query if query_id is None else f"{options.query} {query_id}", epoch


def _without_backlog(options: SinkOptions) -> SinkOptions:
    """Return options; raises `PipelineInputError` if they name a backlog.

    Spark commits a write in a process that ends with it, where nothing could be sent later.
    """
    if options.backlog:
        raise PipelineInputError("the option backlog needs hand_over, in foreachBatch")
    return options


def _manifests(parts: Iterable[SinkPart]) -> dict[tuple[str, str, int], Manifest]:
    found: dict[tuple[str, str, int], Manifest] = {}
    for part in parts:
        if part.is_about_timers:
            continue
        manifest = found.setdefault((part.broker, part.query, part.epoch), [])
        manifest.append((part.partition, part.attempt, part.packets))
    return found


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[SinkPart]:
    return [part for each in messages if isinstance(each, Handed) for part in each.parts]
