"""The event log of a running broker: rows are appended, segments written, old ones dropped.

Rows are appended once their tick is committed, and the state keeps them until they are in a
segment. A segment is due when its oldest row is `roll_s` old (`followed_roll_s` while the log is
followed) or it has many rows; writing one takes three steps, so that the middle one, which
compresses and syncs, may run in another thread: `seal`, `Sealed.write`, `settle`. Segments are
merged and dropped only at the low end, so numbers stay contiguous. No clock: the time is passed in.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from nearcast.store.durable_files import sync_file
from nearcast.store.errors import CorruptError, StoreError, told
from nearcast.store.log.log_reader import Joined, dropped
from nearcast.store.log.log_recovery import recover, set_aside
from nearcast.store.log.manifest import Gap
from nearcast.store.log.segments import (
    Segment,
    check_segment_kinds,
    erase_rows,
    merge_segments,
    read_segment,
    to_arrow,
    write_segment,
)
from nearcast.store.rows.row_buffer import RowBuffer
from nearcast.store.rows.rows import Row, erased

MOST_PROBLEMS = 100


class LogSettings(Struct, frozen=True):
    """When a segment is rolled."""

    roll_s: float = 1.0
    followed_roll_s: float = 0.2
    roll_bytes: int = 8 << 20
    roll_rows: int = 100_000


class LogStatistics(Struct, frozen=True):
    """The size of the log."""

    segments: int
    ranges: int
    rows: int
    bytes: int
    low: int
    next: int
    first_seq: int
    last_seq: int
    open_rows: int
    open_bytes: int
    gaps: int
    lost_rows: int
    followed: bool


class Sealed(Struct, frozen=True):
    """The rows of one segment, to be written in any thread."""

    directory: Path
    number: int
    rows: RowBuffer
    bytes: int
    journal: Path
    """The write-ahead log of SQLite, which may not be synced yet."""

    def write(self) -> Segment:
        """Write the segment durably, after syncing the commits of its rows."""
        if self.journal.exists():
            with told(self.journal, "syncing it"):
                sync_file(self.journal)
        return write_segment(self.directory, self.number, self.rows)


class Merging(Struct, frozen=True):
    """Segments to be merged into one range."""

    directory: Path
    first: int
    last: int
    parts: tuple[Segment, ...]

    def write(self) -> Segment:
        """Write the range durably; the parts stay until `settle_merge`."""
        return merge_segments(self.directory, self.first, self.last, self.parts)


class Log:
    """The log of one broker, open for writing; `tail` are the rows that the state still has."""

    def __init__(
        self,
        directory: Path,
        broker: str,
        seq: int,
        tail: RowBuffer,
        journal: Path,
        settings: LogSettings,
    ) -> None:
        self.directory = directory
        self._journal = journal
        self.settings = settings
        self._manifest, self.problems = recover(directory, broker, tail.first_seq if tail else None)
        self._rows = tail.since(self._manifest.last_seq + 1)
        self._bytes = 0
        self._opened = -math.inf if self._rows else math.inf
        self._not_before = -math.inf
        self._sealed: Sealed | None = None
        self._followed = False
        self._note_lost(seq)

    def _note_lost(self, seq: int) -> None:
        """Record a gap for committed rows that are neither in a segment nor in the state."""
        first_seq = self._manifest.last_seq + 1
        last_seq = self._rows.first_seq - 1 if self._rows else seq
        if first_seq <= last_seq:
            number = self._manifest.next_number
            reason = f"rows {first_seq} to {last_seq} were committed, and no segment has them"
            self._manifest.gaps.append(Gap(first_seq, last_seq, reason, number, number))
            self._manifest.save()
            self._report(reason)

    @property
    def settled_seq(self) -> int:
        """The last row in a segment."""
        segments = self._manifest.segments
        return segments[-1].last_seq if segments else self._manifest.whole.low_seq - 1

    @property
    def low(self) -> int:
        """The lowest segment number that is retained."""
        return self._manifest.whole.low

    @property
    def low_seq(self) -> int:
        """The first row that is retained."""
        return self._manifest.whole.low_seq

    @property
    def last_seq(self) -> int:
        """The last row."""
        if self._rows:
            return self._rows.last_seq
        return self._sealed.rows.last_seq if self._sealed else self._manifest.last_seq

    @property
    def last_ingested(self) -> float | None:
        """The ingest time of the last row; None if no row is left."""
        if waiting := self._rows or (self._sealed.rows if self._sealed else None):
            return waiting.last_ingested
        segments = self._manifest.segments
        return segments[-1].last_ingested if segments else None

    def append(self, rows: RowBuffer, size: int, now: float) -> None:
        """Append the rows of a committed tick, which take `size` bytes in the state."""
        if not rows:
            return
        if not self._rows:
            self._opened = now
        self._rows.extend(rows)
        self._bytes += size

    def follow(self, followed: bool) -> None:
        """Roll sooner while the log is followed."""
        self._followed = followed

    def next_due(self) -> float | None:
        """Return when the next segment is due; None if there is nothing to write."""
        if not self._rows or self._sealed is not None:
            return None
        settings = self.settings
        if self._bytes >= settings.roll_bytes or len(self._rows) >= settings.roll_rows:
            return self._not_before
        roll_s = settings.followed_roll_s if self._followed else settings.roll_s
        return max(self._opened + roll_s, self._not_before)

    def seal(self) -> Sealed | None:
        """Close the rows so far into a segment; None if there are none or one is being written."""
        if not self._rows or self._sealed is not None:
            return None
        number = self._manifest.next_number
        self._sealed = Sealed(self.directory, number, self._rows, self._bytes, self._journal)
        self._rows, self._bytes, self._opened = RowBuffer(self._rows.broker), 0, math.inf
        return self._sealed

    def settle(self, segment: Segment) -> None:
        """Add a sealed segment that is written."""
        assert self._sealed is not None
        assert segment.first == self._sealed.number
        self._sealed = None
        self._not_before = -math.inf
        try:
            self._manifest.append(segment)
        except StoreError as error:
            # The segment is valid by its name; the manifest includes it with the next one.
            self._report(str(error))

    def unseal(self, not_before: float = -math.inf) -> None:
        """Take back the rows of a segment that could not be written; retry from `not_before` on."""
        assert self._sealed is not None
        self._rows = self._waiting()
        self._bytes += self._sealed.bytes
        self._opened = -math.inf
        self._not_before = not_before
        self._sealed = None

    def segments(self) -> list[Segment]:
        """Return all segments, from the lowest number."""
        return list(self._manifest.segments)

    def gaps(self) -> list[Gap]:
        """Return the gaps, from the lowest seq."""
        return list(self._manifest.gaps)

    def read(self, first_seq: int = 1) -> Iterator[pa.RecordBatch | Gap]:
        """Yield all rows from `first_seq` on, also those in no segment yet, and gaps.

        A segment that is found damaged is set aside, reported, and comes as a gap.
        """
        joined = Joined(first_seq, self.gaps)
        if (below := dropped(self._manifest, first_seq)) is not None:
            yield below
            joined.expected = below.last_seq + 1
        while (index := self._manifest.at_seq(joined.expected)) < len(self._manifest.segments):
            segment = self._manifest.segments[index]
            try:
                for batch in read_segment(self.directory, segment, joined.expected):
                    yield from joined.add(batch)
            except CorruptError as error:
                self._lose(segment, error)
        if waiting := self._waiting().since(joined.expected):
            yield from joined.add(to_arrow(waiting))
        yield from joined.end(self.last_seq)

    def read_since(self, ingested: float, kinds: Sequence[str], most: int) -> list[pa.RecordBatch]:
        """Return rows of some kinds ingested since a time, oldest first.

        Only the segments that hold the newest `most` of them are read; damaged ones are left out.
        """
        waiting = self._waiting()
        found = [_some_rows(to_arrow(waiting), ingested, kinds)] if waiting else []
        count = sum(batch.num_rows for batch in found)
        for segment in reversed(self._manifest.segments):
            if count >= most or segment.last_ingested < ingested:
                break
            try:
                batches = read_segment(self.directory, segment)
                some = [_some_rows(batch, ingested, kinds) for batch in batches]
            except CorruptError:
                continue
            found[:0] = some
            count += sum(batch.num_rows for batch in some)
        return found

    def verify(self) -> list[Gap]:
        """Read every segment completely; set aside damaged ones and return their gaps."""
        lost = []
        for segment in self.segments():
            try:
                for _ in read_segment(self.directory, segment):
                    pass
            except CorruptError as error:
                lost.append(self._lose(segment, error))
        return lost

    def merge(self, first: int, last: int) -> Segment | None:
        """Merge the segments from `first` to `last` into one range; None if none is left.

        Only at the low end: all segments below must be merged already.
        """
        while True:
            merging = self.plan_merge(first, last)
            if len(merging.parts) < 2:
                return merging.parts[0] if merging.parts else None
            try:
                merged = merging.write()
                break
            except CorruptError:
                if not any(gap.first >= first for gap in self.verify()):
                    raise
        self.settle_merge(merging, merged)
        return merged

    def plan_merge(self, first: int, last: int) -> "Merging":
        """Return the segments from `first` to `last`, to be merged in any thread.

        Do not drop, merge or verify before `settle_merge`.
        """
        return Merging(self.directory, first, last, tuple(self._mergeable(first, last)))

    def settle_merge(self, merging: "Merging", merged: Segment) -> None:
        """Replace segments by their merged range."""
        start = self._manifest.at_number(merging.first)
        self._manifest.segments[start : start + len(merging.parts)] = [merged]
        self._manifest.save()
        self._delete(merging.parts)

    def erase(self, is_meant: Callable[[Row], bool], left: Callable[[Row], Row] = erased) -> int:
        """Replace rows in all segments by what is `left`; return the number of changed segments.

        Rows in no segment yet are not covered: roll first. Raises `UpgradeError` before any row is
        erased if the log has a row that only a later release can interpret.
        """
        for segment in self._manifest.segments:
            check_segment_kinds(self.directory, segment)
        changed = 0
        for index, segment in enumerate(self._manifest.segments):
            written = erase_rows(self.directory, segment, is_meant, left)
            if written != segment:
                self._manifest.segments[index] = written
                self._manifest.save()
                changed += 1
        return changed

    def drop_before(self, number: int) -> list[Segment]:
        """Drop all segments below `number`, and return them; ranges are dropped only whole."""
        end = self._manifest.at_number(number)
        gone, rest = self._manifest.segments[:end], self._manifest.segments[end:]
        whole = self._manifest.whole
        if not gone and not any(gap.last < number for gap in whole.gaps):
            return []
        low = min(number, self._manifest.next_number, rest[0].first if rest else number)
        low_seq = rest[0].first_seq if rest else self._manifest.last_seq + 1
        whole.segments[:] = rest
        whole.gaps[:] = [gap for gap in whole.gaps if gap.last >= low]
        whole.low, whole.low_seq = low, low_seq
        self._manifest.save()
        self._delete(gone)
        return gone

    def drop_older(self, ingested: float, last_seq: int | None = None) -> list[Segment]:
        """Drop the segments whose last row was ingested before a time, and is up to `last_seq`."""
        for segment in self._manifest.segments:
            is_needed = last_seq is not None and segment.last_seq > last_seq
            if segment.last_ingested >= ingested or is_needed:
                return self.drop_before(segment.first)
        return self.drop_before(self._manifest.next_number)

    def statistics(self) -> LogStatistics:
        """Return the size of the log."""
        segments, whole = self._manifest.segments, self._manifest.whole
        sealed_rows = len(self._sealed.rows) if self._sealed else 0
        sealed_bytes = self._sealed.bytes if self._sealed else 0
        return LogStatistics(
            segments=len(segments),
            ranges=sum(segment.first < segment.last for segment in segments),
            rows=sum(segment.rows for segment in segments),
            bytes=sum(segment.bytes for segment in segments),
            low=whole.low,
            next=self._manifest.next_number,
            first_seq=whole.low_seq,
            last_seq=self.last_seq,
            open_rows=len(self._rows) + sealed_rows,
            open_bytes=self._bytes + sealed_bytes,
            gaps=len(whole.gaps),
            lost_rows=sum(gap.last_seq - gap.first_seq + 1 for gap in whole.gaps),
            followed=self._followed,
        )

    def _waiting(self) -> RowBuffer:
        """Return the rows that are in no segment yet."""
        waiting = RowBuffer(self._rows.broker)
        if self._sealed is not None:
            waiting.extend(self._sealed.rows)
        waiting.extend(self._rows)
        return waiting

    def _mergeable(self, first: int, last: int) -> list[Segment]:
        segments = self._manifest.segments
        start, end = self._manifest.at_number(first), self._manifest.at_number(last + 1)
        parts = segments[start:end]
        low, top = self._manifest.whole.low, self._manifest.next_number - 1
        if not low <= first < last <= top:
            raise StoreError(f"segments {first} to {last} are not two or more of {low} to {top}")
        if start and segments[start - 1].first == segments[start - 1].last:
            raise StoreError(
                f"segments are merged from the low end: {segments[start - 1].first} and what is "
                f"below come before {first}"
            )
        cut = end < len(segments) and segments[end].first <= last
        if cut or (parts and parts[0].first < first):
            raise StoreError(f"{first} to {last} would cut a merged range in two")
        return parts

    def _lose(self, segment: Segment, error: CorruptError) -> Gap:
        path = self.directory / segment.name
        name = set_aside(path) if path.exists() else None
        reason = f"{error}; set aside as {name}" if name else str(error)
        gap = self._manifest.lose(segment, reason, name)
        self._manifest.save()
        self._report(reason)
        return gap

    def _report(self, problem: str) -> None:
        self.problems.append(problem)
        del self.problems[:-MOST_PROBLEMS]

    def _delete(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            path = self.directory / segment.name
            with told(path, "deleting it"):
                path.unlink(missing_ok=True)


def _some_rows(batch: pa.RecordBatch, ingested: float, kinds: Sequence[str]) -> pa.RecordBatch:
    """Return the rows of some kinds ingested since a time."""
    young = pc.greater_equal(batch["ingested"], ingested)
    return batch.filter(pc.and_(young, pc.is_in(batch["kind"], pa.array(kinds, pa.string()))))
