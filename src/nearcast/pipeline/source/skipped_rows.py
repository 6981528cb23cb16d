"""Rows that a stream has not asked for, and that are worth no batch.

A batch of nothing costs as much as a small one: state is opened and closed, workers are asked.
Where a stream asks for some kinds of rows only, what is new is looked through first; as long as
nothing is asked for, the batch waits, though not for ever: time may pass by it.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.pipeline.source.log_ranges import RowSelection
from nearcast.store.log.manifest import Manifest
from nearcast.store.log.segments import Segment


class Unasked:
    """How far the logs were looked through behind an offset, without a row that is asked for."""

    def __init__(self, selection: RowSelection, idle_s: float) -> None:
        self._selection = selection
        self._idle_s = idle_s
        self._seen: dict[str, int] = {}
        self._waits: tuple[Mapping[str, int], float] | None = None
        """From where on a batch waits, and since when."""

    def may_wait(
        self,
        manifests: Mapping[str, Manifest],
        start: Mapping[str, int],
        end: Mapping[str, int],
    ) -> bool:
        """Tell whether a batch from `start` to `end` would be of nothing, and has not waited long.

        By the clock of this machine, and by what the logs say.
        """
        if all(last <= start.get(broker, 1) for broker, last in end.items()):
            self._waits = None
            return True
        now = time.monotonic()
        if self._waits is None or self._waits[0] != start:
            self._waits = start, now
        return now - self._waits[1] < self._idle_s and all(
            self._is_nothing(manifests[broker], broker, start.get(broker, 1), last)
            for broker, last in end.items()
            if last > start.get(broker, 1)
        )

    def _is_nothing(self, manifest: Manifest, broker: str, first: int, last: int) -> bool:
        segments = _between(manifest, first, last)
        is_whole = segments and segments[0].first_seq <= first
        if not is_whole or any(gap.last_seq >= first for gap in manifest.gaps):
            return False
        passed_s = segments[-1].last_ingested - segments[0].first_ingested
        if not 0.0 <= passed_s < self._idle_s:
            return False
        new = _between(manifest, max(first, self._seen.get(broker, 0)), last)
        if any(self._may_have_rows(manifest.directory, segment) for segment in new):
            return False
        self._seen[broker] = last
        return True

    def _may_have_rows(self, directory: Path, segment: Segment) -> bool:
        """Tell whether a segment may have a row that is asked for."""
        try:
            table = pq.read_table(directory / segment.name, columns=list(self._selection.columns))
            mask = self._selection.mask(table)
        except (OSError, pa.ArrowException):
            return True  # Merged, dropped or damaged: a batch finds out, and tells.
        return mask is None or bool(pc.any(mask).as_py())


def _between(manifest: Manifest, first: int, last: int) -> list[Segment]:
    """Return the segments with rows from `first` on, before `last`."""
    if last <= first:
        return []
    return manifest.segments[manifest.at_seq(first) : manifest.at_seq(last - 1) + 1]
