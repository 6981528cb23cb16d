"""Encounters of history are those of brute force, made up and of real taxis."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from nearcast.core.relationships import MeetingSettings, TrackSettings
from nearcast.pipeline.movement.movement_settings import MovementSettings
from tests.pipeline.movement.moving import START, as_log, wandering
from tests.support.plain.plain_meetings import Sighting, Told, plain_transitions

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql import Row

from nearcast.pipeline.movement.encounters import ENCOUNTER, encounters, episodes
from nearcast.pipeline.movement.motion import tracks
from nearcast.pipeline.source.track_import import import_tracks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAXIS = Path(__file__).parents[4] / "shared" / "data" / "sf_cabs_20080605_06.parquet"


def near_and_apart(rows: Sequence[Row]) -> list[Told]:
    return sorted(
        (row.a, row.b, row.state, row.time, row.distance_m, row.lat, row.lon)
        for row in rows
        if row.state != "closer"
    )


def brute_force(followed: "DataFrame", settings: MovementSettings) -> list[Told]:
    """Look at all pairs of believed fixes, in the order of their log."""
    believed = followed.where("suspect IS NULL AND hazard IS NULL").orderBy("time", "seq").collect()
    sightings = [Sighting(row.time, row.node, row.lat, row.lon) for row in believed]
    return sorted(plain_transitions(sightings, settings.meetings))


@pytest.mark.parametrize("within_m", [60.0, 700.0])
def test_history_tells_what_brute_force_tells(
    spark: "SparkSession", tmp_path: Path, within_m: float
) -> None:
    settings = MovementSettings(
        tracks=TrackSettings(fastest_mps=300.0, forget_s=131.0),
        meetings=MeetingSettings(within_m, cell_m=1.0),
        lateness_s=10.0,
    )
    followed = tracks(as_log(spark, tmp_path, wandering(Random(1), 600)), settings).cache()
    assert followed.where("suspect = 'jump'").count() > 10
    expected = brute_force(followed, settings)
    assert len(expected) > 50
    assert near_and_apart(encounters(followed, settings).collect()) == expected


def test_episodes_last_from_near_to_apart(spark: "SparkSession") -> None:
    def row(state: str, time: float, distance: float, a: str = "ann") -> tuple[object, ...]:
        return (None, a, "ben", state, START + time, distance, 0.0, 0.0)

    transitions = spark.createDataFrame(
        [
            row("near", 0.0, 90.0),
            row("closer", 10.0, 40.0),
            row("apart", 20.0, 300.0),
            # Parted and met again in one moment, then for no time at all, then to this day.
            row("near", 20.0, 80.0),
            row("apart", 40.0, 120.0),
            row("near", 60.0, 70.0),
            row("apart", 60.0, 130.0),
            row("near", 90.0, 60.0),
            row("near", 5.0, 55.0, "abe"),
        ],
        ENCOUNTER,
    )
    found = [
        (row.a, row.since - START, row.until and row.until - START, row.closest_m)
        for row in episodes(transitions).orderBy("a", "since").collect()
    ]
    assert found == [
        ("abe", 5.0, None, 55.0),
        ("ann", 0.0, 20.0, 40.0),
        ("ann", 20.0, 40.0, 80.0),
        ("ann", 60.0, 60.0, 70.0),
        ("ann", 90.0, None, 60.0),
    ]


@pytest.mark.skipif(not TAXIS.exists(), reason="the taxis of San Francisco are not here")
def test_taxis_meet_as_brute_force_says(spark: "SparkSession", tmp_path: Path) -> None:
    table = pq.read_table(TAXIS)
    cabs = sorted(pc.unique(table["entity_id"]).to_pylist())[:25]
    first = table["ts"][0]
    hours = pc.less(pc.subtract(table["ts"], first).cast("int64"), 12 * 3600 * 1000)
    chosen = pc.and_(hours, pc.is_in(table["entity_id"], pc.cast(cabs, "string")))
    sample = tmp_path / "sample.parquet"
    pq.write_table(table.filter(chosen), sample)
    imported = import_tracks(sample, tmp_path, "cabs")
    assert imported.rows > 5000
    log = spark.read.format("nearcast").option("path", str(tmp_path)).load()
    settings = MovementSettings()
    followed = tracks(log, settings).cache()
    assert followed.count() == imported.rows
    expected = brute_force(followed, settings)
    assert len(expected) > 50
    assert near_and_apart(encounters(followed, settings).collect()) == expected
