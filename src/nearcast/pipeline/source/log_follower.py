"""Following the logs of many brokers: what is new, how much of it is taken, and in which parts.

An offset is the next seq of each broker. What one batch takes is bounded in rows and in
segments, and brokers that are behind go on together in the order of ingest, so that catching up
with one does not make the rows of another late. Only manifests are read, and of them only what
is new: the cost of a batch does not grow with the number of segments.
"""

import heapq
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from nearcast.pipeline.source.log_ranges import LogRange, parts_of
from nearcast.store.errors import StoreError, told
from nearcast.store.log.manifest import Manifest, ManifestFiles
from nearcast.store.log.segments import Segment

Offset = dict[str, int]
"""The next seq of each broker; one that is not named is at its first."""

FIRST_SEQ = 1
TOGETHER_S = 10.0
"""How far one broker may be ahead of another in a batch; less would only take more turns."""


class Bound(Struct, frozen=True):
    """How much one batch takes at most; None is all there is."""

    rows: int | None = None
    segments: int | None = None


class Split(Struct, frozen=True):
    """How much one task reads at most."""

    rows: int
    segments: int = 100


class Logs:
    """The manifests of the brokers under a data directory, as they were at the last refresh."""

    def __init__(self, data: Path, brokers: tuple[str, ...] = ()) -> None:
        self._data = data
        self._chosen = brokers
        self._known: dict[str, tuple[ManifestFiles, Manifest]] = {}

    def refresh(self) -> None:
        """Learn of new brokers, and of what each log has now."""
        for broker in self._chosen or self._present():
            if broker not in self._known:
                files = ManifestFiles(self.directory(broker), broker)
                self._known[broker] = files, files.read()
            else:
                files, manifest = self._known[broker]
                self._known[broker] = files, files.refresh(manifest)

    def manifests(self) -> dict[str, Manifest]:
        """Return what each broker's log has, by the names of the brokers in their order."""
        return {broker: self._known[broker][1] for broker in sorted(self._known)}

    def directory(self, broker: str) -> Path:
        """Return where a broker's log is."""
        return self._data / "brokers" / broker / "log"

    def _present(self) -> list[str]:
        brokers = self._data / "brokers"
        with told(brokers, "listing it"):
            if not brokers.is_dir():
                return []
            with os.scandir(brokers) as entries:
                return [e.name for e in entries if (brokers / e.name / "log").is_dir()]


def ends(manifests: Mapping[str, Manifest]) -> Offset:
    """Return the offset behind everything that there is."""
    return {broker: manifest.last_seq + 1 for broker, manifest in manifests.items()}


def advance(
    manifests: Mapping[str, Manifest], start: Offset, bound: Bound, target: Offset | None = None
) -> Offset:
    """Return how far a batch goes that begins at `start`, at most to `target`.

    Rows that are missing are passed over without being counted.
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
    """How far a batch goes in one broker's log."""

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
        """Whether there are rows to take."""
        return self.seq < self._limit and self._segment is not None

    @property
    def ingested(self) -> float:
        """About when the next row was ingested."""
        segment = self._segment
        assert segment is not None
        part = (self.seq - segment.first_seq) / (segment.last_seq - segment.first_seq + 1)
        return segment.first_ingested + part * (segment.last_ingested - segment.first_ingested)

    def take(self, rows: int, until: float) -> int:
        """Go on in this segment to about a time, and return how many rows were taken."""
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
        """Go to the next row that a segment has, or to the end if there is none."""
        segment = self._segment
        self.seq = max(
            self.seq,
            self._limit if segment is None else min(segment.first_seq, self._limit),
        )


def ranges(logs: Logs, start: Offset, end: Offset, split: Split) -> Iterator[LogRange]:
    """Yield the parts of a batch, each for one task.

    Raises `StoreError` if a log does not go as far as `end`, as when a manifest lost its last
    lines in a power cut: the broker finds them again at its next start.
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
    """Yield the rows from `first_seq` to `last_seq` in parts that follow each other."""
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
    """Yield the seqs at which a new task begins: between segments where that is possible."""
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
