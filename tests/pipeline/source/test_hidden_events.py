"""Events of a smallest number of people: nothing that the pipeline makes tells of a single one."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.core.gathering import parse_rules
from nearcast.pipeline.gather.aggregates import aggregates
from nearcast.pipeline.movement.motion import sightings
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.testing import World
from nearcast.wire.mqtt import MQTT_5, Properties, Publish
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import RECORDED
from tests.support.logs.world_log import rows_in
from tests.support.plain.virtual_driver import Virtual

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def log(spark: "SparkSession", tmp_path: Path) -> "DataFrame":
    """The log of somebody who says two things, one of which nobody may hear by itself."""
    world = World(seed=1)
    driver = Virtual(world, RECORDED)
    driver.connect("ann", MQTT_5, lasting=True, clean=False)
    place = ("nc-at", "53.0,-6.0")
    for name, *more in (("open",), ("hidden", ("nc-people", "3"))):
        said = Properties(user_properties=(place, ("nc-id", name), *more))
        driver.publish("ann", [Publish("hazard/ice", b"{}", 1).with_(said)])
    world.settle()
    rows = rows_in(world)
    assert [row.event_id for row in rows if row.kind == "event"] == ["open", "hidden"]
    write_log(tmp_path, "broker", rows)
    return spark.read.format("nearcast").option("path", str(tmp_path)).load()


def test_they_are_in_no_aggregate_of_the_pipeline(log: "DataFrame") -> None:
    found = aggregates(log, parse_rules({"hazard/#": "volume 1"})).collect()
    assert [row["count"] for row in found] == [1]
    assert "open" in found[0].payload
    assert "hidden" not in found[0].payload


def test_they_are_no_hazards_of_the_traffic(log: "DataFrame") -> None:
    found = sightings(log, MovementSettings()).where("hazard IS NOT NULL").collect()
    assert [row.hazard for row in found] == ["ann\0open"]
