"""The `nearcast` format of Spark: the logs of all brokers as a stream or as history.

`spark.readStream.format("nearcast").option("path", DIR)` follows `DIR/brokers/*/log`, including
brokers that appear later; `spark.read.format("nearcast")` reads the existing rows. Rows have the
columns of the log; missing rows come as a row of kind `gap` whose `data` has `first`, `last` and
`reason`. Method names and options follow Spark's; options may be written `maxRows` or `max_rows`.
The writing side is in `nearcast.pipeline.sink.data_sink`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from nearcast.core.model.errors import ModelError
from nearcast.core.model.subject import check_pattern
from nearcast.pipeline.errors import PipelineInputError
from nearcast.pipeline.source.log_follower import (
    FIRST_SEQ,
    Bound,
    Logs,
    Offset,
    Split,
    advance,
    broker_ranges,
    ends,
    ranges,
)
from nearcast.pipeline.source.log_ranges import (
    COLUMNS,
    LogRange,
    RangeRequest,
    RowSelection,
    arrow_schema,
    read_range,
)
from nearcast.pipeline.source.skipped_rows import Unasked
from nearcast.store.errors import StoreError
from nearcast.store.layout import BROKERS
from nearcast.store.log.manifest import Manifest
from nearcast.store.object_paths import path_at
from nearcast.store.rows.row_kinds import KINDS

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

FORMAT = "nearcast"
BATCH_ROWS = 100_000
BATCH_SEGMENTS = 1_000
STREAM_TASK_ROWS = 50_000
HISTORY_TASK_ROWS = 250_000


class SourceOptions(Struct, frozen=True, kw_only=True):
    """The validated options of a reader."""

    path: str
    brokers: tuple[str, ...] = ()
    start: Literal["earliest", "latest"] = "earliest"
    max_rows: int = BATCH_ROWS
    max_segments: int = BATCH_SEGMENTS
    partition_rows: int | None = None
    from_seq: int | None = None
    to_seq: int | None = None
    since: float | None = None
    until: float | None = None
    kinds: tuple[str, ...] = ()
    subject: str = ""
    idle_s: float = 0.0
    columns: tuple[str, ...] = COLUMNS
    rows: Literal["log", "decided"] = "log"
    """The rows of the log, or the decisions on them (`pipeline.decide.decisions`)."""

    @property
    def wanted(self) -> RangeRequest:
        """The requested rows and columns of each range."""
        return RangeRequest(
            self.columns, RowSelection(self.kinds, self.subject), self.since, self.until
        )


class NearcastDataSource(DataSource):
    """The `nearcast` format, to be registered with a session."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> "StructType":
        """Return the columns of the log, those of option `columns`, or those of decided rows."""
        options = source_options(self.options)
        if options.rows == "decided":
            from nearcast.pipeline.decide.decided_schema import ARROW_SCHEMA

            return from_arrow_schema(ARROW_SCHEMA)
        return from_arrow_schema(arrow_schema(options.columns))

    def reader(self, schema: "StructType") -> "LogHistoryReader":
        """Return the reader of history."""
        return LogHistoryReader(source_options(self.options))

    def streamReader(self, schema: "StructType") -> "LogStreamReader":  # noqa: N802
        """Return the reader of a stream."""
        return LogStreamReader(source_options(self.options))

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """Return the writer that sends the rows of a batch to brokers."""
        from nearcast.pipeline.sink.data_sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> "DataSourceStreamWriter":
        """Return the writer that sends the rows of a stream to brokers."""
        from nearcast.pipeline.sink.data_sink import stream_writer

        return stream_writer(schema, self.options, overwrite)


class RangePartition(InputPartition):
    """A range of one log, for one task."""

    value: LogRange


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the logs; the manifests are kept in the driver, not in tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._logs = Logs(path_at(options.path), options.brokers)
        self._unasked = Unasked(options.wanted.rows, options.idle_s)
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of a new query: the first row of each broker, or after the last."""
        return {} if self._options.start == "earliest" else ends(self._now())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the default size of a batch."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit the query to the rows that exist now."""
        self._target = ends(self._now())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch."""
        manifests = self._now()
        target = self._target
        if target is not None:
            manifests = {broker: manifests[broker] for broker in target}
        end = advance(manifests, start, self._bound(limit), target)
        if target is not None or not self._options.idle_s:
            return end
        is_all = all(end.get(name, last) >= last for name, last in ends(manifests).items())
        return start if is_all and self._unasked.may_wait(manifests, start, end) else end

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the offset after all rows known at the last refresh."""
        return ends(self._logs.manifests()) or None

    def partitions(self, start: Offset, end: Offset) -> list[RangePartition]:
        """Return the partitions of a batch; the same rows whenever it is planned again."""
        if any(end[broker] > start.get(broker, FIRST_SEQ) for broker in end):
            self._now()
        split = Split(self._options.partition_rows or STREAM_TASK_ROWS)
        return [RangePartition(each) for each in ranges(self._logs, start, end, split)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        return _rows(partition.value, self._options)

    def _now(self) -> dict[str, Manifest]:
        self._logs.refresh()
        return self._logs.manifests()

    def _bound(self, limit: ReadLimit) -> Bound:
        if isinstance(limit, ReadAllAvailable):
            return Bound()
        if isinstance(limit, ReadMaxFiles):
            return Bound(segments=limit.max_files)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
        return Bound(rows, self._options.max_segments)


class LogHistoryReader(DataSourceReader):
    """Reads the existing rows, all of them or a range of seqs or of time."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[RangePartition]:
        """Return the partitions of the requested rows."""
        options = self._options
        root = path_at(options.path)
        if not (root / BROKERS).is_dir():
            raise StoreError(f"{root} has no logs of brokers: there is no {BROKERS}/ in it")
        logs = Logs(root, options.brokers)
        logs.refresh()
        split = Split(options.partition_rows or HISTORY_TASK_ROWS)
        found: list[LogRange] = []
        for broker, manifest in logs.manifests().items():
            first, last = _row_range(manifest, options)
            if first <= last:
                found += broker_ranges(manifest, broker, first, last, split)
        return [RangePartition(each) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        # Without any partition, Spark reads one whose value is None.
        if partition.value is not None:
            yield from _rows(partition.value, self._options)


def _rows(span: LogRange, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, or the decisions on them."""
    if options.rows == "log":
        return read_range(span, options.wanted)
    from nearcast.pipeline.decide.decisions import decide_batches

    return decide_batches(options.path, read_range(span, RangeRequest()))


def _row_range(manifest: Manifest, options: SourceOptions) -> tuple[int, int]:
    """Return the first and the last seq that may match the options."""
    first, last = options.from_seq or FIRST_SEQ, manifest.last_seq
    if options.to_seq is not None:
        last = min(last, options.to_seq)
    # No bisection, since a clock may have been set back.
    if options.since is not None:
        segments = manifest.segments
        if segments and segments[0].first_ingested < options.since:
            new = (each.first_seq for each in segments if each.last_ingested >= options.since)
            first = max(first, next(new, manifest.last_seq + 1))
    if options.until is not None:
        old = (e.last_seq for e in reversed(manifest.segments) if e.first_ingested < options.until)
        last = min(last, next(old, 0))
    return first, last


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """Return the options of a reader; raises `PipelineInputError` if one is unknown or wrong."""
    named = {name.lower().replace("_", ""): value for name, value in given.items()}
    known = {name.replace("_", ""): name for name in SourceOptions.__struct_fields__}
    unknown = sorted(named.keys() - known.keys())
    if unknown:
        raise PipelineInputError(
            f"the nearcast source has no option {', '.join(unknown)}; it has "
            f"{', '.join(SourceOptions.__struct_fields__)}"
        )
    if "path" not in named:
        raise PipelineInputError(
            "the nearcast source needs the option path: the data directory, or the URL of its copy"
        )
    values = {known[name]: _OPTIONS[known[name]](known[name], v) for name, v in named.items()}
    parts = values.keys() & {"kinds", "subject", "columns", "since", "until"}
    if values.get("rows") == "decided" and parts:
        raise PipelineInputError(
            f"what is decided needs whole rows of all kinds: leave {', '.join(sorted(parts))} out"
        )
    return SourceOptions(**values)


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise PipelineInputError(f"option {name} is a whole number from 1 on, not {text!r}")
    return int(text)


def _names(name: str, text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _pattern(name: str, text: str) -> str:
    try:
        return check_pattern(text)
    except ModelError as error:
        raise PipelineInputError(f"option {name}: {error}") from None


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds < math.inf:
        raise PipelineInputError(f"option {name} is a number of seconds, not {text!r}")
    return seconds


def _some_of(choices: Sequence[str]) -> Callable[[str, str], tuple[str, ...]]:
    def chosen(name: str, text: str) -> tuple[str, ...]:
        found = _names(name, text)
        if not found or not set(found) <= set(choices):
            raise PipelineInputError(
                f"option {name} names {name} of the log ({', '.join(choices)}), not {text!r}"
            )
        return found

    return chosen


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def chosen(name: str, text: str) -> str:
        if text not in choices:
            raise PipelineInputError(f"option {name} is {' or '.join(choices)}, not {text!r}")
        return text

    return chosen


def _instant(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineInputError(
            f"option {name} is a time as in 2026-01-31T12:00:00Z or in seconds, not {text!r}"
        ) from None
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


_OPTIONS = {
    "path": lambda name, text: text,
    "brokers": _names,
    "start": _one_of("earliest", "latest"),
    "rows": _one_of("log", "decided"),
    "max_rows": _number,
    "max_segments": _number,
    "partition_rows": _number,
    "from_seq": _number,
    "to_seq": _number,
    "since": _instant,
    "until": _instant,
    "kinds": _some_of(KINDS),
    "subject": _pattern,
    "idle_s": _seconds,
    "columns": _some_of(COLUMNS),
}
