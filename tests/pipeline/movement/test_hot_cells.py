"""A crowd is shared out: no task has much more of it to do than others, wherever it gathers."""

import math
from collections import Counter
from collections.abc import Iterator
from random import Random
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.relationships import MeetingSettings
from nearcast.core.relationships.meeting_cells import cells_of, grid_class, sent
from nearcast.pipeline.movement.movement_query import TABLES, placed
from nearcast.pipeline.movement.movement_settings import MovementSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = 8
WANTED = 3.0
METRES_PER_DEGREE = 111_195.0


@pytest.fixture
def session(spark: "SparkSession") -> "Iterator[SparkSession]":
    """A session whose shuffles have more parts."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    assert before is not None
    spark.conf.set(name, PARTS)
    yield spark
    spark.conf.set(name, before)


def crowd(
    session: "SparkSession", seed: int, meetings: MeetingSettings, nodes: int = 3_000
) -> "DataFrame":
    """Return the tracks of people somewhere on the globe, most of them in a square kilometre."""
    random = np.random.default_rng(seed)
    lat, lon = random.uniform(-60.0, 60.0), random.uniform(-179.0, 179.0)
    reach = np.where(random.random(nodes) < 0.6, 500.0, 10_000.0)
    north, east = random.uniform(-1.0, 1.0, (2, nodes)) * reach / METRES_PER_DEGREE
    lats, lons = lat + north, lon + east / math.cos(math.radians(lat))
    nowhere = np.full(nodes, np.nan)
    which, codes = sent(meetings.grid, meetings.within_m, lats, lons, nowhere, nowhere)
    cells: list[list[int]] = [[] for _ in range(nodes)]
    for i, code in zip(which.tolist(), codes.tolist(), strict=True):
        cells[i].append(code)
    roads = cells_of(grid_class(0.0, MovementSettings().traffic.cell_m), lats, lons).tolist()
    rows = list(zip(range(nodes), cells, roads, strict=True))
    return session.createDataFrame(rows, "node long, cells array<long>, road long")


def work(tracked: "DataFrame") -> tuple[list[int], list[int]]:
    """Return how many rows each task gets, and how many pairs of nodes it looks at."""
    part = F.pmod(F.hash("place"), F.lit(PARTS)).alias("part")
    counted = placed(tracked, TABLES).groupBy("place", part).count().collect()
    rows, pairs = [0] * PARTS, [0] * PARTS
    for each in counted:
        rows[each.part] += each["count"]
        if each.place.startswith("encounters/"):
            pairs[each.part] += each["count"] ** 2
    return rows, pairs


def skew(counts: list[int]) -> float:
    return max(counts) / median(counts)


def test_a_crowd_in_a_square_kilometre_is_shared_out_wherever_it_is(
    session: "SparkSession",
) -> None:
    found = [work(crowd(session, seed, MeetingSettings())) for seed in range(8)]
    rows = [skew(each) for each, _ in found]
    pairs = [skew(each) for _, each in found]
    assert max(rows) < WANTED, rows
    assert max(pairs) < WANTED, pairs
    # It would not be in wide cells, so this can fail.
    assert skew(work(crowd(session, 0, MeetingSettings(cell_m=1000.0)))[1]) > 2 * WANTED


def test_tasks_are_those_to_which_spark_sends_the_keys(session: "SparkSession") -> None:
    tracked = placed(crowd(session, 1, MeetingSettings(), 200), TABLES)
    told = (
        tracked.repartition(PARTS, "place")
        .select(F.spark_partition_id().alias("part"), F.pmod(F.hash("place"), F.lit(PARTS)))
        .collect()
    )
    assert all(one == other for one, other in told)
    assert len({one for one, _ in told}) == PARTS


@pytest.mark.parametrize("parts", [1, 2, 5, 64])
def test_every_cell_has_one_key_and_every_key_one_cell(session: "SparkSession", parts: int) -> None:
    session.conf.set("spark.sql.shuffle.partitions", parts)
    random = Random(parts)
    asked = {
        (random.randrange(1 << 17) << 32 | random.randrange(1 << 18), kind)
        for kind in TABLES
        for _ in range(300)
    }
    rows = [
        ([cell] if kind == "encounters" else [], None if kind == "encounters" else cell)
        for cell, kind in sorted(asked)
        for _ in range(2)
    ]
    tracked = session.createDataFrame(rows, "cells array<long>, road long")
    keys = Counter(row.place for row in placed(tracked, TABLES).select("place").collect())
    assert set(keys.values()) == {2}
    told = {(int(key.split("/")[1]), key.split("/")[0]) for key in keys}
    assert told == asked
    assert len(keys) == len(asked)
