"""Skipping batches that have no rows for a stream.

An empty batch costs as much as a small one: state is opened and closed, workers are called. Where a
stream requests only some kinds of rows, new segments are searched first; while they have no such
row, the batch is delayed, but not indefinitely, since time may advance with it.
"""

import time
from collections.abc import Mapping

import pyarrow.compute as pc

from nearcast.pipeline.source.log_ranges import RowSelection
from nearcast.store.errors import StoreError
from nearcast.store.log.manifest import Manifest
from nearcast.store.log.segments import Segment, open_segment
from nearcast.store.object_paths import AnyPath


class Unasked:
    """How far the logs were searched beyond an offset, without finding a requested row."""

    def __init__(self, selection: RowSelection, idle_s: float) -> None:
        self._selection = selection
        self._idle_s = idle_s
        self._seen: dict[str, int] = {}
        self._waits: tuple[Mapping[str, int], float] | None = None
        """The offset at which a batch is being delayed, and since when."""

    def may_wait(
        self,
        manifests: Mapping[str, Manifest],
        start: Mapping[str, int],
        end: Mapping[str, int],
    ) -> bool:
        """Return True if a batch from `start` to `end` would be empty and may be delayed.

        The delay is limited by the clock of this machine, and by the ingest times in the logs.
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

    def _may_have_rows(self, directory: AnyPath, segment: Segment) -> bool:
        """Return True if a segment may have a requested row."""
        try:
            with open_segment(directory, segment) as file:
                mask = self._selection.mask(file.read(columns=list(self._selection.columns)))
        except StoreError:
            return True  # Merged, dropped or damaged: the batch will find out.
        return mask is None or bool(pc.any(mask).as_py())


def _between(manifest: Manifest, first: int, last: int) -> list[Segment]:
    """Return the segments with rows from `first` on, before `last`."""
    if last <= first:
        return []
    return manifest.segments[manifest.at_seq(first) : manifest.at_seq(last - 1) + 1]
