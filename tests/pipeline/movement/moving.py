"""Nodes that move about a city, as rows of a broker's log."""

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from nearcast.store import Row
from tests.support.logs.broker_log import write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = 1_700_000_000.0
CITY = 53.35, -6.26
METRES_PER_DEGREE = 111_195.0


def east(metres: float) -> tuple[float, float]:
    """Return the place so far east of the city's middle."""
    return CITY[0], CITY[1] + metres / METRES_PER_DEGREE / math.cos(math.radians(CITY[0]))


def fix(seq: int, time: float, node: str, lat: float | None, lon: float | None) -> Row:
    """Return a node's position at so many seconds after the start."""
    return Row("b", seq, "position", START + time, lat=lat, lon=lon, node=node)


def hazard(seq: int, time: float, id_: str, lat: float, lon: float) -> Row:
    """Return the event of a hazard."""
    at = START + time
    return Row(
        "b", seq, "event", at, event_id=id_, subject="hazard/ice", publisher="ann", time=at,
        lat=lat, lon=lon, payload=b"{}",
    )  # fmt: skip


def wandering(random: Random, count: int, spread_m: float = 400.0) -> list[Row]:
    """Return fixes of a few nodes with ties and silences, some hazards, in the order of a log."""
    nodes = [f"n{number}" for number in range(9)]
    time, rows = 0.0, []
    for seq in range(1, count + 1):
        time += random.choice([0.0, 0.0, 1.0, 5.0, 9.0, 60.0])
        lat = CITY[0] + random.uniform(-spread_m, spread_m) / METRES_PER_DEGREE
        lon = east(random.uniform(-spread_m, spread_m))[1]
        chance = random.random()
        node = random.choice(nodes)
        if chance < 0.05:
            rows.append(hazard(seq, time, f"h{random.randrange(10)}", lat, lon))
        elif chance < 0.08:
            rows.append(fix(seq, time, node, None, None))
        else:
            rows.append(fix(seq, time, node, lat, lon))
    return rows


def as_log(spark: "SparkSession", path: Path, rows: Sequence[Row]) -> "DataFrame":
    """Return the history of a log with these rows."""
    write_log(path, "b", rows, per_segment=max(1, len(rows) // 3))
    return spark.read.format("nearcast").option("path", str(path)).load()
