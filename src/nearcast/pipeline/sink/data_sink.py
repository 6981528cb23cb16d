"""The sink: rows of a query are sent to brokers over MQTT, each exactly once.

Tasks stage rows at their brokers, under (query, epoch, partition, attempt); the driver's commit
releases the epoch at each broker, naming the attempts that count. If a broker stays unreachable
until the timeout, the epoch fails and Spark retries it. A broker that had released the epoch
acknowledges and drops the repeat, so no row is lost or duplicated.

The name of an attempt is random, since Spark's numbers begin again with every driver. Spark's query
id is part of the query name here, so that a query with a new checkpoint, whose epochs begin at 0
again, is another query.
"""

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from nearcast.pipeline.errors import LinkError, PipelineInputError
from nearcast.pipeline.sink.broker_address import BrokerAddress
from nearcast.pipeline.sink.broker_link import BrokerLink, borrowed
from nearcast.pipeline.sink.sink_rows import bounded, rows_by_broker
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

WAIT_S = 30.0
ABORT_WAIT_S = 2.0
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's task properties that identify the streaming query and its batch."""
STAGED_SCHEMA = (
    "broker string, query string, epoch long, partition long, attempt string, packets long"
)


class SinkOptions(Struct, frozen=True):
    """The parsed options of a write."""

    path: str
    query: str
    epoch: int | None
    wait_s: float
    urls: dict[str, str]
    """URLs of brokers that have no directory here, by name; `*` for all."""
    user: str
    password_file: str
    ca_file: str

    @classmethod
    def read(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Parse options; raises `PipelineInputError`."""
        given = {name.lower(): value for name, value in options.items()}
        urls = {name[4:]: value for name, value in given.items() if name.startswith("url.")}
        if "url" in given:
            urls["*"] = given["url"]
        if not given.get("path") and not urls:
            raise PipelineInputError(
                "the sink needs the option path, the data directory of the brokers"
            )
        try:
            epoch = int(given["epoch"]) if "epoch" in given else None
            wait_s = float(given.get("wait_s", WAIT_S))
        except ValueError as error:
            raise PipelineInputError(f"epoch and wait_s are numbers: {error}") from None
        return cls(
            given.get("path", ""),
            given.get("query", "query"),
            epoch,
            wait_s,
            urls,
            given.get("user", ""),
            given.get("password_file", ""),
            given.get("ca_file", ""),
        )

    def place(self, broker: str) -> BrokerAddress:
        """Return the address of a broker."""
        url = self.urls.get(broker.lower(), self.urls.get("*", ""))
        if not url:
            return BrokerAddress(self.path, broker, ca_file=self.ca_file)
        return BrokerAddress(self.path, broker, url, self.user, self.password_file, self.ca_file)


class SinkPart(Struct, frozen=True):
    """The rows that a task has staged at one broker."""

    broker: str
    query: str
    epoch: int
    partition: int
    attempt: str
    packets: int


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
            yield pa.record_batch([list(column) for column in columns], names=list(_PART))

    found = frame.mapInArrow(stage_all, STAGED_SCHEMA).collect()
    parts = [SinkPart(*(row[name] for name in _PART)) for row in found]
    release(parts, chosen)
    return sum(part.packets for part in parts)


_PART = SinkPart.__struct_fields__


class _BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
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
        self._options = options

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
    """Stage rows at their brokers, in the task that has them; return the staged parts.

    `alone` is the query name of a write without an epoch.
    """
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    query, epoch = _under(options, context, alone)
    attempt = secrets.token_hex(8)
    with contextlib.ExitStack() as stack:
        found: dict[str, _Staging] = {}
        for batch in chain.from_iterable(map(bounded, batches)):
            for broker, rows in rows_by_broker(batch):
                staging = found.get(broker)
                if staging is None:
                    link = stack.enter_context(borrowed(options.place(broker), options.wait_s))
                    at = SinkPart(broker, query, epoch, partition, attempt, 0)
                    staging = found[broker] = _Staging(link, at)
                staging.add(rows)
        return [staging.finish() for staging in found.values()]


def release(parts: Iterable[SinkPart], options: SinkOptions) -> None:
    """Release staged rows, one broker after another; raises `LinkError`."""
    for (broker, query, epoch), manifest in sorted(_manifests(parts).items()):
        with borrowed(options.place(broker), options.wait_s) as link:
            link.send(Release(query, epoch).topic, manifest_bytes(manifest))
            link.flush()


def abort(parts: Iterable[SinkPart], options: SinkOptions) -> None:
    """Drop staged rows where the broker is reachable; otherwise the next epoch drops them."""
    for broker, query, epoch in sorted(_manifests(parts)):
        with (
            contextlib.suppress(LinkError),
            borrowed(options.place(broker), min(options.wait_s, ABORT_WAIT_S)) as link,
        ):
            link.send(Abort(query, epoch).topic, b"")
            link.flush()


class _Staging:
    """Sends rows to one broker."""

    def __init__(self, link: BrokerLink, part: SinkPart) -> None:
        self._link = link
        self._part = part
        self._packer = Packer(link.largest_payload)
        self._count = 0

    def add(self, rows: Iterable[HandedRow]) -> None:
        for row in rows:
            self._send(self._packer.add(row))

    def finish(self) -> SinkPart:
        self._send(self._packer.rest())
        self._link.flush()
        part = self._part
        return SinkPart(
            part.broker, part.query, part.epoch, part.partition, part.attempt, self._count
        )

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


def _manifests(parts: Iterable[SinkPart]) -> dict[tuple[str, str, int], Manifest]:
    found: dict[tuple[str, str, int], Manifest] = {}
    for part in parts:
        manifest = found.setdefault((part.broker, part.query, part.epoch), [])
        manifest.append((part.partition, part.attempt, part.packets))
    return found


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[SinkPart]:
    return [part for each in messages if isinstance(each, Handed) for part in each.parts]
