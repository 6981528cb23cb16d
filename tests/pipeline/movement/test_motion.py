"""Motion from a log: every fix with the one before, suspect ones marked, tracks imported."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.store import LogReader, Row, StoreError, broker_directory, rows_of
from tests.pipeline.movement.moving import START, as_log, east, fix, hazard

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.movement.motion import MOTION, motion, tracks
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.pipeline.source.track_import import Imported, import_tracks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_motion_of_a_log(spark: "SparkSession", tmp_path: Path) -> None:
    lat, lon = east(20.0)
    patch = json.dumps({"patch": {"position": [lon, lat]}})
    rows = [
        fix(1, 0.0, "ann", *east(0.0)),
        Row("b", 2, "context", START + 2.0, node="ann", data=patch),
        fix(3, 4.0, "ben", *east(0.0)),
        fix(4, 5.0, "ann", *east(500_000.0)),
        hazard(5, 6.0, "ice", *east(0.0)),
        fix(6, 7.0, "ann", *east(40.0)),
        Row("b", 7, "forgotten", START + 8.0, node="ann"),
        Row("b", 8, "session", START + 9.0, node="ben"),
        fix(9, 10.0, "ann", *east(0.0)),
    ]
    found = motion(as_log(spark, tmp_path, rows)).orderBy("seq").collect()
    assert tuple(found[0].asDict()) == MOTION
    assert [(row.seq, row.node, row.suspect) for row in found] == [
        (1, "ann", None),
        (2, "ann", None),
        (3, "ben", None),
        (4, "ann", "jump"),
        (6, "ann", None),
        (7, "ann", None),
        (9, "ann", None),
    ]
    by_seq = {row.seq: row for row in found}
    assert by_seq[2].speed_mps == pytest.approx(10.0, rel=0.01)
    assert by_seq[6].previous_time == START + 2.0
    assert (by_seq[7].lat, by_seq[7].previous_time) == (None, START + 7.0)
    assert by_seq[9].previous_time is None


def test_hazards_that_are_dated_ahead_or_our_own_do_not_count(
    spark: "SparkSession", tmp_path: Path
) -> None:
    def event(seq: int, time: float, publisher: str, subject: str) -> Row:
        return Row(
            "b", seq, "event", START, event_id=f"e{seq}", subject=subject, publisher=publisher,
            time=START + time, lat=1.0, lon=2.0, payload=b"",
        )  # fmt: skip

    rows = [
        event(1, 0.0, "ann", "hazard/ice"),
        event(2, 299.0, "ann", "hazard"),
        event(3, 301.0, "ann", "hazard/ice"),
        event(4, 0.0, "$pipeline", "hazard/ice"),
        event(5, 0.0, "ann", "hazards/ice"),
    ]
    found = tracks(as_log(spark, tmp_path, rows)).collect()
    assert sorted(row.seq for row in found) == [1, 2]


def test_a_node_may_not_be_forgotten_before_cells_are_done_with_it() -> None:
    with pytest.raises(ValueError, match=r"more than lateness_s \+ fresh_s, 4120 s"):
        MovementSettings(lateness_s=4000.0)


def written(path: Path, rows: list[tuple[str, float, float | None, float]]) -> Path:
    who, when, lat, lon = zip(*rows, strict=True)
    times = [datetime.fromtimestamp(START + each, UTC) for each in when]
    columns = {"entity_id": who, "ts": pa.array(times, pa.timestamp("ms", "UTC"))}
    pq.write_table(pa.table(columns | {"lat": lat, "lon": lon}), path)
    return path


def test_tracks_become_the_log_of_a_broker(tmp_path: Path) -> None:
    rows = [("a", 0.0, 1.0, 2.0), ("b", 0.5, None, 2.0), ("b", 1.0, 3.0, 4.0), ("c", 2.0, 95.0, 0)]
    file = written(tmp_path / "tracks.parquet", rows)
    shown: list[tuple[int, int]] = []
    imported = import_tracks(file, tmp_path, "cabs", lambda *done: shown.append(done))
    assert imported == Imported(rows=2, segments=1, no_place=2)
    assert shown == [(4, 4)]
    (batch,) = LogReader(broker_directory(tmp_path, "cabs") / "log").read()
    assert isinstance(batch, pa.RecordBatch)
    assert [(row.seq, row.kind, row.node, row.ingested, row.lat) for row in rows_of(batch)] == [
        (1, "position", "a", START, 1.0),
        (2, "position", "b", START + 1.0, 3.0),
    ]
    with pytest.raises(StoreError, match="has rows already"):
        import_tracks(file, tmp_path, "cabs")


def test_tracks_out_of_order_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    file = written(tmp_path / "tracks.parquet", [("a", 5.0, 1.0, 2.0), ("b", 1.0, 1.0, 2.0)])
    with pytest.raises(StoreError, match="not in the order of `ts`: see b"):
        import_tracks(file, tmp_path, "cabs")
    assert list(LogReader(broker_directory(tmp_path, "cabs") / "log").read()) == []
