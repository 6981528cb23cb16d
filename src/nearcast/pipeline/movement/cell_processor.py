"""The state of cells in a stream: the nodes in and around a cell, and the traffic through it.

After the rows of a batch every cell expires what the watermark has passed, whether it got rows or
only a timer; all cells have the same watermark, so that those sharing a pair agree.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from nearcast.core.relationships import CellTraffic, Meetings
from nearcast.core.relationships.meeting_kernels import TIME_PASSED
from nearcast.core.relationships.meetings import Fixes
from nearcast.pipeline.movement.encounters import TIME_CAUSE, cause_of, named
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.pipeline.movement.track_processor import after_ms, watermark_ms
from nearcast.pipeline.movement.traffic import window_row

_ENCOUNTER = ("relationship", "a", "b", "state", "time", "distance_m", "lat", "lon")


class CellInput(Struct, frozen=True, gc=False):
    """A fix or a hazard that counts in a cell.

    It is passed as one JSON text: Spark converts each value of a row separately, which costs more.
    """

    node: str
    broker: str
    seq: int
    time: float
    lat: float = math.nan
    lon: float = math.nan
    previous_time: float = math.nan
    previous_lat: float = math.nan
    previous_lon: float = math.nan
    speed_mps: float | None = None
    hazard: str | None = None

    @property
    def cause(self) -> str:
        """The place of this input among those of one time, as text that sorts like it."""
        return cause_of(self.broker, self.seq)


_DECODER = msgspec.json.Decoder(list[CellInput])


def sent_in(rows: Iterable[Row]) -> list[CellInput]:
    """Return the inputs in rows, ordered by (time, broker, seq)."""
    found = _DECODER.decode("[" + ",".join(row.packet for row in rows) + "]")
    return sorted(found, key=lambda each: (each.time, each.broker, each.seq))


def fixes_of(sent: Sequence[CellInput]) -> Fixes:
    """Return fixes as columns."""
    fixes = [(each.time, each.lat, each.lon) for each in sent]
    before = [(each.previous_time, each.previous_lat, each.previous_lon) for each in sent]
    return Fixes([each.node for each in sent], np.array(fixes), np.array(before))


class CellProcessor(StatefulProcessor):
    """Decides in cells, by keys `encounters/CELL` or `traffic/CELL` with a suffix of `placed`."""

    def __init__(self, settings: MovementSettings) -> None:
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._cells = handle.getValueState("cell", "cell binary, timer long")

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ANN401, N803
    ) -> Iterator[Row]:
        """Yield the results of the rows sent to a cell."""
        return self._step(key, sent_in(rows), watermark_ms(timerValues))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[str],
        timerValues: Any,  # noqa: ANN401, N803
        expiredTimerInfo: Any,  # noqa: ANN401, N803
    ) -> Iterator[Row]:
        """Yield the results of time passing in a cell."""
        return self._step(key, [], watermark_ms(timerValues))

    def _step(self, key: tuple[str], sent: list[CellInput], now_ms: int) -> Iterator[Row]:
        what, cell, *_ = key[0].split("/")
        kept = self._cells.get()
        data, timer = (None, None) if kept is None else (bytes(kept[0]), kept[1])
        step = self._meet if what == "encounters" else self._pass
        rows, data, due, tells = step(int(cell), data, sent, now_ms / 1000.0)
        if due is not None and tells:
            rows.append(_due_row(due / 1000.0))
        if data is None:
            self._cells.clear()
        if timer is not None and timer > now_ms and (due is None or due < timer):
            self._handle.deleteTimer(timer)
            timer = None
        if due is not None and (timer is None or timer <= now_ms):
            timer = max(due, now_ms + 1)
            self._handle.registerTimer(timer)
        if data is not None:
            self._cells.update((data, timer))
        return iter(rows)

    def _meet(
        self,
        cell: int,
        data: bytes | None,
        sent: list[CellInput],
        now: float,
    ) -> tuple[list[Row], bytes | None, int | None, bool]:
        """Return rows, state, when time changes the state, and whether that may give rows."""
        form = self._settings.meetings
        meetings = Meetings(form, cell) if data is None else Meetings.from_bytes(form, cell, data)
        changes = [meetings.advance(fixes_of(sent))] if sent else []
        changes.append(meetings.expire(now))
        rows = [
            Row(
                table="encounters",
                encounter=Row(**dict(zip(_ENCOUNTER, row, strict=True))),
                traffic=None,
                cause=TIME_CAUSE if cause == TIME_PASSED else sent[cause].cause,
                due=None,
            )
            for each in changes
            for cause, row in named(each, self._settings)
        ]
        due = meetings.next_expiry()
        if due is None:
            return rows, None, None, False
        # One node alone just leaves.
        return rows, meetings.to_bytes(), after_ms(due), len(meetings) > 1

    def _pass(
        self,
        cell: int,
        data: bytes | None,
        sent: list[CellInput],
        now: float,
    ) -> tuple[list[Row], bytes | None, int | None, bool]:
        form = self._settings.traffic
        traffic = CellTraffic(form) if data is None else CellTraffic.from_bytes(form, data)
        for each in sent:
            if each.hazard is None:
                traffic.pass_by(each.time, each.node, each.speed_mps)
            else:
                traffic.warn(each.time, each.hazard)
        rows = [
            Row(
                table="traffic",
                encounter=None,
                traffic=Row(**window_row(form, cell, window)),
                cause=TIME_CAUSE,
                due=None,
            )
            for window in traffic.close(now)
        ]
        due = traffic.next_close()
        if due is None:
            return rows, None, None, False
        return rows, traffic.to_bytes(), math.ceil(due * 1000), True


def _due_row(due: float) -> Row:
    """Return the row of no table that says when a cell is due."""
    return Row(table=None, encounter=None, traffic=None, cause="", due=due)
