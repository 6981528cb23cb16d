"""Traffic of history is what the core counts, cell by cell."""

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from nearcast.core.relationships import CellTraffic, TrackSettings
from nearcast.pipeline.movement.movement_settings import MovementSettings
from tests.pipeline.movement.moving import as_log, wandering

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.movement.motion import tracks
from nearcast.pipeline.movement.traffic import traffic, window_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = MovementSettings(tracks=TrackSettings(fastest_mps=400.0))


def test_history_counts_as_the_core_does(spark: "SparkSession", tmp_path: Path) -> None:
    followed = tracks(as_log(spark, tmp_path, wandering(Random(2), 800)), SETTINGS).cache()
    cells: dict[int, CellTraffic] = {}
    for row in followed.collect():
        if row.road is None:
            continue
        cell = cells.setdefault(row.road, CellTraffic(SETTINGS.traffic))
        if row.hazard is None:
            cell.pass_by(row.time, row.node, row.speed_mps)
        else:
            cell.warn(row.time, row.hazard)
    expected = [
        window_row(SETTINGS.traffic, road, window)
        for road, cell in cells.items()
        for window in cell.close(float("inf"))
    ]
    found = [row.asDict() for row in traffic(followed, SETTINGS).collect()]

    def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: (row["cell"], row["start"]))

    assert in_order(found) == in_order(expected)
    assert len(found) > 100
    assert sum(row["hazards"] for row in found) > 10
    assert any(row["fixes"] > 4 for row in found)
    assert any(row.suspect == "jump" for row in followed.collect())
