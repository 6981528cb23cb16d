"""Reading the log from any seq on, across merged ranges, dropped segments and damaged ones.

Missing rows are never skipped silently: wherever a seq does not follow the one before, a `Gap` with
the reason comes first. `LogReader` is for other processes, such as the pipeline: it changes
nothing, and keeps reading while the broker rolls, merges and drops. Informational rows of unknown
kinds are passed on; any other unknown kind raises `UpgradeError`.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from nearcast.store.errors import CorruptError
from nearcast.store.log.manifest import Gap, Manifest, ManifestFiles
from nearcast.store.log.segments import Segment, read_segment, read_segment_columns
from nearcast.store.object_paths import AnyPath
from nearcast.store.rows.columns import integers_of
from nearcast.store.rows.row_kinds import check_kinds

TRIES = 4
"""The number of attempts before a segment counts as damaged."""
RETRY_S = 0.2
DROPPED = "dropped: older than the log is kept"
"""The reason of the gap before the low end of a log."""


class LogReader:
    """The segments of a broker's log, as seen by another process."""

    def __init__(self, directory: AnyPath) -> None:
        self._directory = directory
        self._files = ManifestFiles(directory)
        self._manifest = self._files.read()
        self._damaged: dict[int, Gap] = {}

    def refresh(self) -> None:
        """Read the changes of the manifest; costs only what is new."""
        self._manifest = self._files.refresh(self._manifest)

    def segments(self) -> list[Segment]:
        """Return the segments as of the last refresh, from the lowest number."""
        return list(self._manifest.segments)

    def gaps(self) -> list[Gap]:
        """Return the gaps that the broker recorded, and those that this reader found."""
        known = [*self._manifest.gaps, *self._damaged.values()]
        return sorted(known, key=lambda gap: gap.first_seq)

    def read(self, first_seq: int = 1) -> Iterator[pa.RecordBatch | Gap]:
        """Yield the rows of all segments from `first_seq` on, and the gaps among them."""
        joined = Joined(first_seq, self.gaps)
        if (below := dropped(self._manifest, first_seq)) is not None:
            yield below
            joined.expected = below.last_seq + 1
        tries = 0
        while (segment := _next_segment(self._manifest, joined.expected)) is not None:
            try:
                for batch in read_segment(self._directory, segment, joined.expected):
                    yield from joined.add(batch)
                # Or it would be the next segment again.
                yield from joined.end(segment.last_seq)
                tries = 0
            except CorruptError as error:
                # It may have been merged, dropped or rewritten since. The manifest shows that, but
                # the broker writes it a moment after the file itself.
                tries += 1
                self.refresh()
                if _next_segment(self._manifest, joined.expected) == segment:
                    if tries < TRIES:
                        time.sleep(RETRY_S)
                        continue
                    yield self._lose(segment, error, joined)
                    tries = 0
        yield from joined.end(self._manifest.last_seq)

    def read_columns(self, *names: str) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, with kind and seq; damaged segments are left out."""
        for segment in self.segments():
            try:
                columns = ("kind", "seq", *names)
                for batch in read_segment_columns(self._directory, segment, columns):
                    check_kinds(batch)
                    yield batch
            except CorruptError:
                continue

    def read_backwards(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all segments, newest batch first; gaps are left out."""
        for segment in reversed(self.segments()):
            try:
                batches = list(read_segment(self._directory, segment))
            except CorruptError:
                continue
            for batch in reversed(batches):
                check_kinds(batch)
                yield batch

    def _lose(self, segment: Segment, error: CorruptError, joined: "Joined") -> Gap:
        gap = Gap(joined.expected, segment.last_seq, str(error), segment.first, segment.last, None)
        self._damaged[segment.first] = gap
        joined.expected = segment.last_seq + 1
        return gap


class Joined:
    """Joins batches in the order of their seqs, with gaps where one does not follow the other."""

    def __init__(self, first_seq: int, gaps: Callable[[], Iterable[Gap]]) -> None:
        self.expected = first_seq
        self._gaps = gaps

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch | Gap]:
        """Yield a batch, split where rows are missing inside it.

        Raises `UpgradeError` if it has a row that only a later release can interpret.
        """
        check_kinds(batch)
        seqs = integers_of(batch.column("seq"))
        starts = [0, *(np.flatnonzero(np.diff(seqs) != 1) + 1).tolist(), len(seqs)]
        for start, end in pairwise(starts):
            yield from self.end(int(seqs[start]) - 1)
            self.expected = int(seqs[end - 1]) + 1
            yield batch.slice(start, end - start)

    def end(self, last_seq: int) -> Iterator[Gap]:
        """Yield the gaps up to `last_seq`."""
        for gap in self._gaps():
            if gap.last_seq >= self.expected and gap.first_seq <= last_seq:
                if gap.first_seq > self.expected:
                    yield self._unknown(gap.first_seq - 1)
                yield gap
                self.expected = gap.last_seq + 1
        if self.expected <= last_seq:
            yield self._unknown(last_seq)

    def _unknown(self, last_seq: int) -> Gap:
        gap = Gap(self.expected, last_seq, "these rows are in no segment, and nobody knows why")
        self.expected = last_seq + 1
        return gap


def dropped(manifest: Manifest, first_seq: int) -> Gap | None:
    """Return the gap of dropped rows, if reading begins below the low end."""
    low_seq = manifest.whole.low_seq
    if first_seq >= low_seq:
        return None
    return Gap(first_seq, low_seq - 1, DROPPED, 1, manifest.whole.low - 1)


def _next_segment(manifest: Manifest, seq: int) -> Segment | None:
    index = manifest.at_seq(seq)
    return manifest.segments[index] if index < len(manifest.segments) else None
