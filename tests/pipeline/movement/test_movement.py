"""One streaming query tells of encounters and traffic what history tells, each once."""

import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.relationships import MeetingSettings, TrackSettings
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.store import Row as LogRow
from tests.pipeline.movement.moving import START, as_log, east, fix, hazard, wandering
from tests.support.plain.plain_meetings import Sighting, Told, plain_transitions

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from nearcast.pipeline.movement.cell_processor import CellInput, CellProcessor
from nearcast.pipeline.movement.encounters import ENCOUNTER
from nearcast.pipeline.movement.movement_query import movement, publishable
from nearcast.pipeline.movement.track_processor import TrackProcessor
from nearcast.pipeline.movement.traffic import TRAFFIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = MovementSettings(
    # Everybody may be everywhere in a moment, so that nobody is suspect.
    # Many are as new after a while, and cells still have them.
    tracks=TrackSettings(fastest_mps=1e6, forget_s=200.0),
    meetings=MeetingSettings(within_m=120.0, cell_m=200.0),
    lateness_s=60.0,
)
LONG_AFTER = 100_000.0


class Processors:
    """Both processors joined as a query joins them, a batch at a time, without Spark."""

    def __init__(self, settings: MovementSettings) -> None:
        self._settings = settings
        self._nodes = _tester(TrackProcessor(settings))
        self._cells = _tester(CellProcessor(settings))
        self._latest = 0.0
        self._watermark = 0
        self.moved: list[Row] = []
        self.told: list[Row] = []
        self.dues: list[float] = []
        """When cells said that time will change something there."""

    def take(self, rows: Sequence[LogRow]) -> None:
        """Take a batch; then the watermark follows."""
        sent: dict[str, list[Row]] = {}
        # As in a query, a key without a row in time is not called.
        rows = [row for row in rows if row.ingested > self._latest - self._settings.lateness_s]
        for node in sorted({str(row.node or row.publisher) for row in rows}):
            seen = [sighting(row) for row in rows if node in (row.node, row.publisher)]
            for row in self._nodes.test(node, seen):
                self.moved.append(row)
                packed = packet(row)
                for cell in row.cells:
                    sent.setdefault(f"encounters/{cell}", []).append(packed)
                if row.road is not None:
                    sent.setdefault(f"traffic/{row.road}", []).append(packed)
        for place, moved in sent.items():
            self._tell(self._cells.test(place, moved))
        self._latest = max(self._latest, *(row.ingested for row in rows))
        self.watermark(self._latest - self._settings.lateness_s)

    def watermark(self, time: float) -> None:
        """Nothing will come any more that is not later."""
        if math.floor(time * 1000) > self._watermark:
            self._watermark = math.floor(time * 1000)
            self._nodes.setWatermark(self._watermark)
            expired = self._cells.setWatermark(self._watermark)
            assert isinstance(expired, list)
            self._tell(expired)

    def _tell(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.table is None:
                self.dues.append(row.due)
            else:
                self.told.append(row)

    def state(self) -> dict[str, dict[str, Any]]:
        """Return what is kept of nodes and of cells, by key."""
        return {
            "nodes": self._nodes.handle.value_states["track"].state,
            "cells": self._cells.handle.value_states["cell"].state,
        }

    def timers(self) -> int:
        """Return how many timers wait."""
        return sum(
            len(timers)
            for tester in (self._nodes, self._cells)
            for timers in tester.handle._timers._key_to_timers.values()
        )


def _tester(processor: TrackProcessor | CellProcessor) -> TwsTester:
    return TwsTester(
        processor,
        timeMode="eventTime",
        eventTimeExtractor=lambda row: math.floor(row.time * 1000),
    )


def sighting(row: LogRow) -> Row:
    """Return a row of a log as the query gives it to the first processor."""
    is_hazard = row.kind == "event"
    time = row.time if is_hazard and row.time is not None else row.ingested
    return Row(
        node=row.publisher if is_hazard else row.node, broker=row.broker, seq=row.seq, time=time,
        lat=row.lat, lon=row.lon, patch=row.data if row.kind == "context" else None,
        hazard=f"{row.publisher} {row.event_id}" if is_hazard else None,
        micros=int(time * 1_000_000),
    )  # fmt: skip


def packet(row: Row) -> Row:
    """Return a row of the first processor as the query gives it to the second."""
    fields = {name: row[name] for name in CellInput.__struct_fields__ if row[name] is not None}
    return Row(packet=json.dumps(fields), time=row.time)


def near_and_apart(rows: Sequence[Row]) -> list[Told]:
    met = [row.encounter for row in rows if row.encounter is not None]
    return sorted(
        (each.a, each.b, each.state, each.time, each.distance_m, each.lat, each.lon)
        for each in met
        if each.state != "closer"
    )


@pytest.mark.parametrize("sizes", [(1, 60), (500, 500)])
@pytest.mark.parametrize("seed", range(20))
def test_processors_tell_each_encounter_once_and_end_with_nothing(
    seed: int, sizes: tuple[int, int]
) -> None:
    random = Random(seed)
    rows = wandering(random, 500)
    processors = Processors(SETTINGS)
    start = 0
    while start < len(rows):
        end = start + random.randint(*sizes)
        processors.take(rows[start:end])
        start = end
    processors.watermark(START + LONG_AFTER)
    fixes = [
        Sighting(row.ingested, str(row.node), row.lat, row.lon)
        for row in rows
        if row.kind == "position"
    ]
    assert near_and_apart(processors.told) == sorted(plain_transitions(fixes, SETTINGS.meetings))
    assert processors.state() == {"nodes": {}, "cells": {}}
    assert processors.timers() == 0


@pytest.mark.parametrize("seed", range(10))
def test_transitions_of_a_pair_alternate_in_the_order_of_time_and_cause(seed: int) -> None:
    rows = wandering(Random(seed), 800)
    # Nodes report together, so that a pair can part and meet at one time.
    rows = [replace(row, ingested=float(round(row.ingested / 20.0)) * 20.0) for row in rows]
    processors = Processors(SETTINGS)
    processors.take(rows)
    processors.watermark(START + LONG_AFTER)

    states: dict[tuple[str, str], list[str]] = {}
    ordered = sorted(
        (row for row in processors.told if row.encounter and row.encounter.state != "closer"),
        key=lambda row: (row.encounter.time, row.cause),
    )
    for row in ordered:
        states.setdefault((row.encounter.a, row.encounter.b), []).append(row.encounter.state)

    assert states
    for found in states.values():
        assert found == ["near", "apart"] * (len(found) // 2)


def test_a_node_has_one_timer_and_so_has_a_cell() -> None:
    processors = Processors(SETTINGS)
    for number in range(50):
        processors.take([fix(number + 1, 10.0 * number, "ann", *east(number % 7))])
    kept = processors.state()
    assert list(kept["nodes"]) == ["ann"]
    assert processors.timers() == len(kept["nodes"]) + len(kept["cells"])


def test_who_falls_silent_parts_from_others_when_the_watermark_says_so() -> None:
    processors = Processors(SETTINGS)
    processors.take([fix(1, 0.0, "ann", *east(0.0)), fix(2, 5.0, "ben", *east(50.0))])
    processors.take([fix(3, 180.0, "zoe", *east(9000.0))])
    assert [told[2:4] for told in near_and_apart(processors.told)] == [("near", START + 5.0)]
    processors.take([fix(4, 181.0, "zoe", *east(9000.0))])
    assert [told[2:4] for told in near_and_apart(processors.told)] == [
        ("apart", START + 120.0),
        ("near", START + 5.0),
    ]


def test_a_fix_behind_the_watermark_changes_nothing_and_one_behind_its_node_is_late() -> None:
    processors = Processors(SETTINGS)
    processors.take([fix(1, 100.0, "ann", *east(0.0))])
    processors.take([fix(2, 90.0, "ann", *east(10.0)), fix(3, 40.0, "ben", *east(10.0))])
    assert [(row.node, row.suspect) for row in processors.moved] == [("ann", None), ("ann", "late")]
    assert processors.told == []


def test_a_window_of_traffic_closes_once_nothing_can_come() -> None:
    processors = Processors(SETTINGS)
    start = math.ceil(START / 300.0) * 300.0 - START
    processors.take([fix(1, start, "ann", *east(0.0)), fix(2, start + 10, "ann", *east(100.0))])
    processors.take([hazard(3, start + 20.0, "ice-1", *east(0.0))])
    processors.take([hazard(4, start + 30.0, "ice-1", *east(0.0))])
    processors.take([fix(5, start + 359.0, "zoe", *east(9000.0))])
    assert processors.told == []
    processors.take([fix(6, start + 361.0, "zoe", *east(9000.0))])
    (told,) = [row.traffic for row in processors.told]
    assert (told.start, told.until) == (START + start, START + start + 300.0)
    assert (told.fixes, told.nodes, told.hazards) == (2, 1, 1)
    assert told.mean_mps == told.median_mps == pytest.approx(10.0, abs=0.05)


def test_a_context_with_a_position_is_a_fix_and_one_taken_back_ends_it() -> None:
    processors = Processors(SETTINGS)
    lat, lon = east(10.0)
    here = json.dumps({"patch": {"position": [lon, lat], "role": "medic"}})
    processors.take([fix(1, 0.0, "ann", *east(0.0))])
    processors.take([LogRow("b", 2, "context", START + 1.0, node="ben", data=here)])
    other = json.dumps({"patch": {"about": {"position": 3}}})
    processors.take([LogRow("b", 3, "context", START + 2.0, node="ben", data=other)])
    gone = json.dumps({"patch": {"position": None}})
    processors.take([LogRow("b", 4, "context", START + 3.0, node="ben", data=gone)])
    distance = distance_m(*east(0.0), lat, lon)
    assert near_and_apart(processors.told) == [
        ("ann", "ben", "apart", START + 3.0, distance, lat, lon),
        ("ann", "ben", "near", START + 1.0, distance, lat, lon),
    ]


def test_only_declared_pairs_are_told_by_the_names_of_their_relationships() -> None:
    declared = {"crew": ("ann", "ben", "cleo"), "couple": ("ann", "ben"), "pack": ("dog", "cat")}
    settings = MovementSettings(declared=declared)
    processors = Processors(settings)
    nodes = ("ann", "ben", "cleo", "dog", "eve")
    processors.take([fix(i, float(i), node, *east(0.0)) for i, node in enumerate(nodes, 1)])
    assert sorted(
        (row.encounter.relationship, row.encounter.a, row.encounter.b) for row in processors.told
    ) == [
        ("couple", "ann", "ben"),
        ("crew", "ann", "ben"),
        ("crew", "ann", "cleo"),
        ("crew", "ben", "cleo"),
    ]


def test_a_cell_says_when_time_will_change_something_there() -> None:
    processors = Processors(SETTINGS)
    fresh_s, window_s = SETTINGS.meetings.fresh_s, SETTINGS.traffic.window_s

    processors.take([fix(1, 0.0, "ann", *east(0.0))])
    window_end = (START // window_s + 1) * window_s
    # Alone: only the traffic of her cell has an end.
    assert set(processors.dues) == {window_end}
    processors.take([fix(2, 1.0, "ben", *east(10.0))])
    found = {due for due in processors.dues if due != window_end}
    assert list(found) == [pytest.approx(START + fresh_s, abs=0.01)]


def streamed(
    spark: "SparkSession", path: Path, name: str, settings: MovementSettings, max_rows: int
) -> list[Row]:
    """Follow a log to its end, and return what a query tells."""
    log = (
        spark.readStream.format("nearcast").option("path", str(path)).option("maxRows", max_rows)
    ).load()
    query = (
        movement(log, settings)
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300), "the query did not come to the end of the log"
    found: list[Row] = spark.table(name).where("table IS NOT NULL").collect()
    return found


def told(rows: Sequence[Row]) -> list[tuple[str, str | None, float, dict[str, Any]]]:
    return sorted(
        ((row.key, row.subject, row.time, json.loads(row.payload)) for row in rows),
        key=lambda row: row[0],
    )


def test_a_stream_tells_what_history_tells(spark: "SparkSession", tmp_path: Path) -> None:
    rows = wandering(Random(5), 240)
    # The last node is alone and long after, so that the watermark passes everyone else.
    rows.append(fix(len(rows) + 1, LONG_AFTER, "zoe", *east(50_000.0)))
    history = movement(as_log(spark, tmp_path, rows), SETTINGS).collect()
    stream = streamed(spark, tmp_path, "told", SETTINGS, max_rows=90)
    over = [row for row in history if row.time < START + LONG_AFTER]
    assert told(stream) == told(over)
    assert {row.table for row in stream} == {"encounters", "traffic"}
    assert len({row.key for row in stream}) == len(stream)
    assert sum(row.table == "encounters" for row in stream) > 50
    assert any(row.traffic and row.traffic.hazards for row in stream)
    for row in stream:
        named = [row.encounter.a, row.encounter.b] if row.encounter else None
        assert row.about == named, "who is told of decides who may be told"
    assert all(row.subject is None for row in stream if row.encounter and "closer" in row.key)


def test_names_are_percent_encoded_in_subjects_as_everywhere(spark: "SparkSession") -> None:
    draw = Random(5)
    letters = "aZ0~-_. +*%/#!'()=&?zoë李雷😀"
    names = ["".join(draw.choices(letters, k=draw.randint(1, 12))) for _ in range(200)]
    rows = [(None, a, b, "near", 1.0, 2.0, 3.0, 4.0) for a, b in pairwise(names)]
    told = publishable("encounters", spark.createDataFrame(rows, ENCOUNTER)).collect()
    wanted = [f"encounters/{quote(row[1], safe='')}/{quote(row[2], safe='')}" for row in rows]
    assert [row.subject for row in told] == wanted


def test_clients_get_times_in_rfc_3339(spark: "SparkSession") -> None:
    met = spark.createDataFrame([(None, "ann", "ben", "near", 1.5e9, 2.0, 3.0, 4.0)], ENCOUNTER)
    passed = ("cell", 53.0, -6.0, 1.5e9, 1.5e9 + 300.25, 2, 1, None, None, None, 0)
    traffic = spark.createDataFrame([passed], TRAFFIC)

    (encounter,) = publishable("encounters", met).collect()
    (window,) = publishable("traffic", traffic).collect()

    assert json.loads(encounter.payload)["time"] == "2017-07-14T02:40:00.000Z"
    assert json.loads(window.payload)["start"] == "2017-07-14T02:40:00.000Z"
    assert json.loads(window.payload)["until"] == "2017-07-14T02:45:00.250Z"
    assert (encounter.time, window.time) == (1.5e9, 1.5e9 + 300.25), "tables have seconds"
