"""Following the logs of many brokers: new rows, the size of batches, and their partitions.

An offset is the next seq of each broker. A batch is bounded in rows and in segments, and brokers
that are behind advance together in the order of ingest, so that catching up with one does not make
the rows of another late. Only new parts of manifests are read: the cost of a batch does not grow
with the number of segments.
"""

import heapq
import math
from collections.abc import Iterator, Mapping

from msgspec import Struct

from nearcast.pipeline.source.log_ranges import LogRange, parts_of
from nearcast.store.errors import StoreError, told
from nearcast.store.layout import brokers_in, log_directory
from nearcast.store.log.manifest import Manifest, ManifestFiles
from nearcast.store.log.segments import Segment
from nearcast.store.object_paths import AnyPath

Offset = dict[str, int]
"""The next seq of each broker; a broker that is not in it is at its first row."""

FIRST_SEQ = 1
TOGETHER_S = 10.0
"""How far one broker may be ahead of another in a batch; less would only take more steps."""


class Bound(Struct, frozen=True):
    """The limits of one batch; None is no limit."""

    rows: int | None = None
    segments: int | None = None


class Split(Struct, frozen=True):
    """The limits of one task."""

    rows: int
    segments: int = 100


class Logs:
    """The manifests of the brokers in a data directory or its copy, as of the last refresh."""

    def __init__(self, root: AnyPath, brokers: tuple[str, ...] = ()) -> None:
        self._root = root
        self._chosen = brokers
        self._known: dict[str, tuple[ManifestFiles, Manifest]] = {}

    def refresh(self) -> None:
        """Find new brokers, and read new parts of manifests."""
        for broker in self._chosen or self._present():
            if broker not in self._known:
                files = ManifestFiles(self.directory(broker), broker)
                self._known[broker] = files, files.read()
            else:
                files, manifest = self._known[broker]
                self._known[broker] = files, files.refresh(manifest)

    def manifests(self) -> dict[str, Manifest]:
        """Return the manifests by broker, sorted by name."""
        return {broker: self._known[broker][1] for broker in sorted(self._known)}

    def directory(self, broker: str) -> AnyPath:
        """Return the directory of a broker's log."""
        return log_directory(self._root, broker)

    def _present(self) -> list[str]:
        with told(self._root, "listing it"):
            return brokers_in(self._root)


def ends(manifests: Mapping[str, Manifest]) -> Offset:
    """Return the offset after all existing rows."""
    return {broker: manifest.last_seq + 1 for broker, manifest in manifests.items()}


def advance(
    manifests: Mapping[str, Manifest], start: Offset, bound: Bound, target: Offset | None = None
) -> Offset:
    """Return the end of a batch that begins at `start`, at most `target`.

    Missing rows are skipped without being counted.
    """
    limits = ends(manifests) if target is None else target
    rows = bound.rows if bound.rows is not None else sum(limits.values())
    segments = bound.segments if bound.segments is not None else rows
    paths = {
        broker: _Path(manifest, start.get(broker, FIRST_SEQ), limits[broker])
        for broker, manifest in manifests.items()
        if limits.get(broker, FIRST_SEQ) > start.get(broker, FIRST_SEQ)
    }
    waiting = [(path.ingested, broker) for broker, path in paths.items() if path.goes_on]
    heapq.heapify(waiting)
    while waiting and rows > 0:
        _, broker = heapq.heappop(waiting)
        path = paths[broker]
        if not path.is_open:
            if segments == 0:
                continue
            segments -= 1
        others = waiting[0][0] if waiting else math.inf
        rows -= path.take(rows, others + TOGETHER_S)
        if path.goes_on:
            heapq.heappush(waiting, (path.ingested, broker))
    reached = {broker: path.seq for broker, path in paths.items()}
    return dict(sorted((start | reached).items()))


class _Path:
    """The progress of a batch in one broker's log."""

    def __init__(self, manifest: Manifest, seq: int, limit: int) -> None:
        self._manifest = manifest
        self._limit = limit
        self._index = manifest.at_seq(seq)
        self.is_open = False
        self.seq = seq
        self._pass_over()

    @property
    def _segment(self) -> Segment | None:
        segments = self._manifest.segments
        return segments[self._index] if self._index < len(segments) else None

    @property
    def goes_on(self) -> bool:
        """True if there are rows to take."""
        return self.seq < self._limit and self._segment is not None

    @property
    def ingested(self) -> float:
        """The estimated ingest time of the next row."""
        segment = self._segment
        assert segment is not None
        part = (self.seq - segment.first_seq) / (segment.last_seq - segment.first_seq + 1)
        return segment.first_ingested + part * (segment.last_ingested - segment.first_ingested)

    def take(self, rows: int, until: float) -> int:
        """Advance in this segment to about a time; return the number of rows taken."""
        segment = self._segment
        assert segment is not None
        span = segment.last_ingested - segment.first_ingested
        if until < segment.last_ingested and span > 0:
            part = (until - self.ingested) / span
            rows = min(rows, 1 + int(part * (segment.last_seq - segment.first_seq + 1)))
        end = min(self.seq + rows, segment.last_seq + 1, self._limit)
        taken = end - self.seq
        self.seq = end
        self.is_open = end <= segment.last_seq
        if not self.is_open:
            self._index += 1
            self._pass_over()
        return taken

    def _pass_over(self) -> None:
        """Advance to the next row that is in a segment, or to the limit."""
        segment = self._segment
        self.seq = max(
            self.seq,
            self._limit if segment is None else min(segment.first_seq, self._limit),
        )


def ranges(logs: Logs, start: Offset, end: Offset, split: Split) -> Iterator[LogRange]:
    """Yield the partitions of a batch, one for each task.

    Raises `StoreError` if a log ends before `end`, for example because a manifest lost its last
    lines in a power cut: the broker restores them at its next start.
    """
    for broker, last in sorted(end.items()):
        first = start.get(broker, FIRST_SEQ)
        if first >= last:
            continue
        manifest = logs.manifests().get(broker)
        reached = 0 if manifest is None else manifest.last_seq
        if manifest is None or reached < last - 1:
            raise StoreError(
                f"the log of {broker} goes to seq {reached}, but the batch to {last - 1}; start "
                "that broker, which repairs its log, or restore tables and checkpoints from the "
                "same backup as the log"
            )
        yield from broker_ranges(manifest, broker, first, last - 1, split)


def broker_ranges(
    manifest: Manifest, broker: str, first_seq: int, last_seq: int, split: Split
) -> Iterator[LogRange]:
    """Yield the rows from `first_seq` to `last_seq` as consecutive ranges."""
    segments, gaps = parts_of(manifest, first_seq, last_seq)
    cuts = [*_cuts(segments, first_seq, last_seq, split), last_seq + 1]
    begin, low = first_seq, 0
    for cut in cuts:
        while low < len(segments) and segments[low].last_seq < begin:
            low += 1
        high = low
        while high < len(segments) and segments[high].first_seq < cut:
            high += 1
        yield LogRange(
            str(manifest.directory),
            broker,
            begin,
            cut - 1,
            tuple(segments[low:high]),
            tuple(g for g in gaps if g.last_seq >= begin and g.first_seq < cut),
        )
        begin = cut


def _cuts(segments: list[Segment], first_seq: int, last_seq: int, split: Split) -> Iterator[int]:
    """Yield the seqs at which a new task begins: between segments where possible."""
    rows = opened = 0
    for segment in segments:
        begin, end = max(segment.first_seq, first_seq), min(segment.last_seq, last_seq) + 1
        if opened and (rows + end - begin > split.rows or opened >= split.segments):
            yield begin
            rows = opened = 0
        while end - begin > split.rows:
            begin += split.rows
            yield begin
            rows = opened = 0
        rows += end - begin
        opened += 1
