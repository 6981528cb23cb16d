"""Motion: every fix of a node with the fix before it, its speed, and whether it is suspect.

`tracks` serves history and streams alike: it follows each node through its fixes, with the pure
`Track` of the core, and computes the cells in which a fix counts for encounters and for traffic.
Hazards pass through unchanged, so that one stream carries all inputs of movement. A fix is a row of
kind position, or a context's patch with a position; a position that is removed, or a node that is
forgotten, is a fix without coordinates.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import position_from_json
from nearcast.core.relationships import DeclaredPairs, Track, TrackStep
from nearcast.core.relationships.meeting_cells import F64, cells_of, grid_class, sent
from nearcast.core.relationships.tracks import Fix
from nearcast.pipeline.gather.gathered_events import java_regex
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.pipeline.source.event_checks import PIPELINE, may_be_seen_alone
from nearcast.store.rows.row_kinds import TICK

MOTION = (
    "broker", "seq", "node", "time", "lat", "lon",
    "previous_lat", "previous_lon", "previous_time", "speed_mps", "suspect",
)  # fmt: skip
"""The columns of the table."""

TRACKS = (
    "broker string, seq long, node string, time double, lat double, lon double, "
    "previous_lat double, previous_lon double, previous_time double, speed_mps double, "
    "suspect string, hazard string, cells array<long>, road long, at timestamp"
)
NOWHERE = math.nan
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def motion(log: DataFrame, settings: MovementSettings | None = None) -> DataFrame:
    """Return the fixes of a log, each with the one before; suspect fixes are marked."""
    return tracks(log, settings).where("hazard IS NULL").select(*MOTION)


def tracks(log: DataFrame, settings: MovementSettings | None = None) -> DataFrame:
    """Return fixes and hazards of a log, with the cells in which each counts."""
    settings = settings or MovementSettings()
    seen = sightings(log, settings)
    if not log.isStreaming:
        return seen.drop("at").groupBy("node").applyInArrow(following(settings), TRACKS)
    from nearcast.pipeline.movement.track_processor import TrackProcessor

    # All rows advance time, also those of no node. The condition names the time, so that Spark
    # does not filter before it has looked at that.
    is_seen = F.when(F.col("at").isNotNull(), F.col("node")).isNotNull()
    return (
        seen.withWatermark("at", f"{round(settings.lateness_s * 1000)} milliseconds")
        .where(is_seen)
        .groupBy("node")
        .transformWithState(
            TrackProcessor(settings), TRACKS, "append", "eventTime", eventTimeColumnName="at"
        )
    )


def sightings(log: DataFrame, settings: MovementSettings) -> DataFrame:
    """Return the rows of a log about movement, with the columns of `Sightings`.

    Left out are rows dated too far ahead: an event's time after its ingest, and, in a stream, any
    time after now. A stream has rows of no node too, which only say how late it is.
    """
    column = F.col
    is_patch = (column("kind") == "context") & column("data").contains('"position"')
    is_fix = column("kind").isin("position", "forgotten", "expired") | is_patch
    is_hazard = (
        (column("kind") == "event")
        & column("subject").rlike(java_regex(settings.traffic.hazards))
        & ~column("publisher").startswith(PIPELINE)
        & may_be_seen_alone()
        & (column("time") <= column("ingested") + settings.ahead_s)
        & column("lat").isNotNull()
        & column("lon").isNotNull()
    )
    time = F.when(is_hazard, column("time")).otherwise(column("ingested"))
    micros = (time * 1_000_000).cast("long")
    name = F.concat_ws("\0", "publisher", "event_id")
    is_tick = (column("kind") == TICK) & F.lit(log.isStreaming)
    found = log.where((is_fix & column("node").isNotNull()) | is_hazard | is_tick).select(
        F.when(is_hazard, column("publisher")).otherwise(column("node")).alias("node"),
        "broker",
        "seq",
        time.alias("time"),
        "lat",
        "lon",
        F.when(is_patch, column("data")).alias("patch"),
        F.when(is_hazard, name).alias("hazard"),
        micros.alias("micros"),
        F.timestamp_micros(micros).alias("at"),
    )
    if not log.isStreaming:
        return found
    now = F.current_timestamp().cast("double")
    return found.where(column("time") <= now + settings.ahead_s)


class Sightings(Struct, frozen=True):
    """The sightings of one node as columns, ordered by (time, broker, seq)."""

    broker: Sequence[str]
    seq: Sequence[int]
    time: Sequence[float]
    lat: Sequence[float | None]
    lon: Sequence[float | None]
    patch: Sequence[str | None]
    hazard: Sequence[str | None]
    micros: Sequence[int]

    @staticmethod
    def of(columns: Mapping[str, Sequence[object]]) -> "Sightings":
        """Return the columns sorted by (time, broker, seq)."""
        keys = (columns["time"], columns["broker"], columns["seq"])
        order = sorted(range(len(columns["seq"])), key=list(zip(*keys, strict=True)).__getitem__)
        names = Sightings.__struct_fields__
        return Sightings(*([columns[name][i] for i in order] for name in names))  # type: ignore[arg-type]


def followed(
    node: str, seen: Sightings, track: Track, settings: MovementSettings
) -> dict[str, Sequence[object]]:
    """Return the track rows of a node's sightings, and advance its track."""
    steps: list[TrackStep | None] = []
    places: list[tuple[float | None, float | None]] = []
    each = zip(seen.time, seen.lat, seen.lon, seen.patch, seen.hazard, strict=True)
    for time, lat, lon, patch, hazard in each:
        place: tuple[float | None, float | None] | None = (lat, lon)
        if patch is not None:
            place = _place_in(patch)
        if place is None:
            steps.append(None)
        elif hazard is not None:
            steps.append(TrackStep())
        else:
            steps.append(track.follow(time, *place, settings.tracks))
        places.append(place or (None, None))
    return _rows(node, seen, steps, places, settings)


def _place_in(patch: str) -> tuple[float | None, float | None] | None:
    """Return the place in a context's patch; None if the patch has no position."""
    fields = msgspec.json.decode(patch, type=dict[str, dict[str, object]]).get("patch", {})
    if "position" not in fields:
        return None
    if fields["position"] is None:
        return None, None
    try:
        found = position_from_json(fields["position"])
    except ModelError:
        return NOWHERE, NOWHERE
    return found.lat, found.lon


def _rows(
    node: str,
    seen: Sightings,
    steps: Sequence[TrackStep | None],
    places: Sequence[tuple[float | None, float | None]],
    settings: MovementSettings,
) -> dict[str, Sequence[object]]:
    """Return the columns of the table, without rows that are no fixes."""
    kept = [i for i, step in enumerate(steps) if step is not None]
    known = [step for step in steps if step is not None]
    before = [step.previous for step in known]
    suspect = [step.suspect for step in known]
    hazard = [seen.hazard[i] for i in kept]
    # A numpy float even where a patch has no coordinates.
    lat = np.array([NOWHERE if places[i][0] is None else places[i][0] for i in kept], np.float64)
    lon = np.array([NOWHERE if places[i][1] is None else places[i][1] for i in kept], np.float64)
    counts = np.array([reason is None for reason in suspect], np.bool_)
    is_fix = np.array([event is None for event in hazard], np.bool_)
    roads: list[int | None] = [None] * len(kept)
    on_road = np.flatnonzero(counts & ~np.isnan(lat))
    grid = grid_class(0.0, settings.traffic.cell_m)
    for i, road in zip(
        on_road.tolist(), cells_of(grid, lat[on_road], lon[on_road]).tolist(), strict=True
    ):
        roads[i] = road
    return {
        "broker": [seen.broker[i] for i in kept],
        "seq": [seen.seq[i] for i in kept],
        "node": [node] * len(kept),
        "time": [seen.time[i] for i in kept],
        "lat": [places[i][0] for i in kept],
        "lon": [places[i][1] for i in kept],
        "previous_lat": [None if fix is None else fix.lat for fix in before],
        "previous_lon": [None if fix is None else fix.lon for fix in before],
        "previous_time": [None if fix is None else fix.time for fix in before],
        "speed_mps": [step.speed_mps for step in known],
        "suspect": suspect,
        "hazard": hazard,
        "cells": _cells(node, lat, lon, [step.left for step in known], counts & is_fix, settings),
        "road": roads,
        "at": [_EPOCH + timedelta(microseconds=seen.micros[i]) for i in kept],
    }


def _cells(
    node: str,
    lat: F64,
    lon: F64,
    left: Sequence[Fix | None],
    counts: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    settings: MovementSettings,
) -> list[list[int]]:
    """Return the encounter cells in which each fix counts; none for undeclared nodes."""
    cells: list[list[int]] = [[] for _ in range(len(lat))]
    if settings.declared is not None and node not in DeclaredPairs(settings.declared):
        return cells
    chosen = np.flatnonzero(counts)
    then = np.array(
        [
            (NOWHERE, NOWHERE) if fix is None else (fix.lat, fix.lon)
            for fix in (left[i] for i in chosen.tolist())
        ]
    ).reshape(-1, 2)
    meetings = settings.meetings
    which, codes = sent(
        meetings.grid, meetings.within_m, lat[chosen], lon[chosen],
        np.ascontiguousarray(then[:, 0]), np.ascontiguousarray(then[:, 1]),
    )  # fmt: skip
    for i, code in zip(chosen[which].tolist(), codes.tolist(), strict=True):
        cells[i].append(code)
    return cells


def following(settings: MovementSettings) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return the function that follows one node through all of history."""

    def follow(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        columns = {name: table.column(name).to_pylist() for name in Sightings.__struct_fields__}
        rows = followed(key[0].as_py(), Sightings.of(columns), Track(), settings)
        return pa.table(rows, schema=_SCHEMA)

    return follow


_SCHEMA = pa.schema(
    [
        ("broker", pa.string()), ("seq", pa.int64()), ("node", pa.string()),
        ("time", pa.float64()), ("lat", pa.float64()), ("lon", pa.float64()),
        ("previous_lat", pa.float64()), ("previous_lon", pa.float64()),
        ("previous_time", pa.float64()), ("speed_mps", pa.float64()), ("suspect", pa.string()),
        ("hazard", pa.string()), ("cells", pa.list_(pa.int64())), ("road", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip


def rows_of(columns: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    """Yield columns as rows by name."""
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
