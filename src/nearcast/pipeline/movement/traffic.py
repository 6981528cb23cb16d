"""Traffic: speeds and hazards per road cell and window (seed E's application).

History is aggregated by Spark itself, a stream by the pure `CellTraffic` of the core, which closes
a window once no more rows can belong to it; both give the same numbers.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.relationships import TrafficSettings, TrafficWindow
from nearcast.core.relationships.meeting_cells import centre_of, grid_class
from nearcast.core.relationships.traffic import STEPS_PER_MPS
from nearcast.pipeline.movement.movement_settings import MovementSettings

TRAFFIC = (
    "cell string, lat double, lon double, start double, until double, fixes long, nodes long, "
    "mean_mps double, median_mps double, p10_mps double, hazards long"
)
"""The traffic through a cell, with its centre `lat, lon`, from `start` until `until`."""


def traffic(tracks: DataFrame, settings: MovementSettings | None = None) -> DataFrame:
    """Return the traffic of each cell and window, from a log's `tracks`."""
    settings = settings or MovementSettings()
    if tracks.isStreaming:
        from nearcast.pipeline.movement.movement_query import decided

        found = decided(tracks, settings, ["traffic"]).where("table IS NOT NULL")
        return found.select("traffic.*")
    window_s = settings.traffic.window_s
    is_fix = F.col("hazard").isNull()
    step = (F.col("speed_mps") * STEPS_PER_MPS + 0.5).cast("long")
    counted = (
        tracks.where("road IS NOT NULL")
        .withColumn("start", F.floor(F.col("time") / window_s) * window_s)
        .groupBy("road", "start")
        .agg(
            F.count_if(is_fix).alias("fixes"),
            F.count_distinct(F.when(is_fix, F.col("node"))).alias("nodes"),
            F.sort_array(F.collect_list(F.when(is_fix, step))).alias("steps"),
            F.count_distinct("hazard").alias("hazards"),
        )
    )
    known = F.size("steps")
    total = F.aggregate("steps", F.lit(0).cast("long"), lambda sum_, each: sum_ + each)
    mean = F.when(known > 0, total / (known * STEPS_PER_MPS))
    summed = counted.select(
        "road", F.col("start").cast("double"), "fixes", "nodes", mean.alias("mean_mps"),
        _quantile(50).alias("median_mps"), _quantile(10).alias("p10_mps"), "hazards",
    )  # fmt: skip
    return summed.mapInArrow(placing(settings.traffic), TRAFFIC)


def _quantile(percent: int) -> Column:
    """Return the nearest-rank percentile of the speeds."""
    known = F.size("steps")
    wanted = F.floor((known * percent + 99) / 100).cast("int")
    return F.when(known > 0, F.element_at("steps", wanted) / STEPS_PER_MPS)


def placing(
    settings: TrafficSettings,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that adds the names and centres of cells to traffic rows."""

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            roads = batch.column("road").to_pylist()
            start = batch.column("start").to_numpy()
            centres = [road_centre(settings, road) for road in roads]
            columns = {
                "cell": pa.array([cell_name(settings, road) for road in roads], pa.string()),
                "lat": pa.array([lat for lat, _ in centres], pa.float64()),
                "lon": pa.array([lon for _, lon in centres], pa.float64()),
                "start": batch.column("start"),
                "until": pa.array(np.asarray(start) + settings.window_s, pa.float64()),
            }
            for name in ("fixes", "nodes", "mean_mps", "median_mps", "p10_mps", "hazards"):
                columns[name] = batch.column(name)
            yield pa.RecordBatch.from_pydict(columns)

    return place


def road_grid(settings: TrafficSettings) -> int:
    """Return the grid class of road cells."""
    return grid_class(0.0, settings.cell_m)


def road_centre(settings: TrafficSettings, road: int) -> tuple[float, float]:
    """Return the centre of a road cell."""
    return centre_of(road_grid(settings), road)


def cell_name(settings: TrafficSettings, road: int) -> str:
    """Return the name of a road cell: grid class, row and column."""
    return f"{road_grid(settings)}-{road >> 32}-{road & 0xFFFFFFFF}"


def window_row(settings: TrafficSettings, road: int, window: TrafficWindow) -> dict[str, object]:
    """Return a window of a cell as a row of the table."""
    lat, lon = road_centre(settings, road)
    return {
        "cell": cell_name(settings, road),
        "lat": lat,
        "lon": lon,
        "start": window.start,
        "until": window.start + settings.window_s,
        "fixes": window.fixes,
        "nodes": window.nodes,
        "mean_mps": window.mean_mps,
        "median_mps": window.median_mps,
        "p10_mps": window.p10_mps,
        "hazards": window.hazards,
    }
