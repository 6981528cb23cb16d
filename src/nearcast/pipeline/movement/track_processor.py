"""The state of motion in a stream: a small track for each node, removed after long silence."""

import math
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from nearcast.core.relationships import Track
from nearcast.pipeline.movement.motion import Sightings, followed, rows_of
from nearcast.pipeline.movement.movement_settings import MovementSettings


class TrackProcessor(StatefulProcessor):
    """Follows nodes through the batches of a stream."""

    def __init__(self, settings: MovementSettings) -> None:
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._tracks = handle.getValueState("track", "track binary, timer long")

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ANN401, N803
    ) -> Iterator[Row]:
        """Yield the track rows of new sightings of a node."""
        kept = self._tracks.get()
        track = Track() if kept is None else Track.from_bytes(bytes(kept[0]))
        columns = followed(key[0], Sightings.of(columns_of(rows)), track, self._settings)
        self._keep(track, None if kept is None else kept[1], watermark_ms(timerValues))
        for row in rows_of(columns):
            yield Row(**row)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[str],
        timerValues: Any,  # noqa: ANN401, N803
        expiredTimerInfo: Any,  # noqa: ANN401, N803
    ) -> Iterator[Row]:
        """Remove a node that was silent for long, or set the timer again."""
        kept = self._tracks.get()
        if kept is not None:
            self._keep(Track.from_bytes(bytes(kept[0])), None, watermark_ms(timerValues))
        return iter(())

    def _keep(self, track: Track, timer: int | None, now_ms: int) -> None:
        """Keep a track while it may matter; its one timer fires when it may be removed.

        The timer is not moved when fixes come: it fires early and is then set again.
        """
        last = max((fix.time for fix in (track.believed, track.doubted) if fix), default=None)
        due = None if last is None else after_ms(last + self._settings.tracks.forget_s)
        if due is None or due <= now_ms:
            self._tracks.clear()
            if timer is not None:
                self._handle.deleteTimer(timer)
            return
        if timer is None:
            timer = due
            self._handle.registerTimer(timer)
        self._tracks.update((track.to_bytes(), timer))


def columns_of(rows: Iterator[Row]) -> dict[str, tuple[object, ...]]:
    """Return rows, of which there is at least one, as columns by name."""
    every = list(rows)
    return dict(zip(every[0].__fields__, zip(*every, strict=True), strict=True))


def after_ms(time: float) -> int:
    """Return the first millisecond after a time."""
    return math.floor(time * 1000) + 1


def watermark_ms(timer_values: Any) -> int:  # noqa: ANN401
    """Return the watermark; earlier rows are no longer accepted."""
    return int(timer_values.getCurrentWatermarkInMs())
