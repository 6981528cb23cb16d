"""Cleaning: what is refused and why, against a plain reference, row by row."""

import json
import math
import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from msgspec.structs import astuple, replace

from nearcast.pipeline.source.event_checks import accepted, clean, first_of_each, rejected
from nearcast.store import Row
from tests.support.logs.spark_schema import LOG_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOOD = Row("b", 1, "event", 5000.0, 1, "e1", "a/b", "ann", 5000.0, 53.0, -6.0, payload=b"{}")


def log_of(spark: "SparkSession", rows: list[Row]) -> "DataFrame":
    return spark.createDataFrame([astuple(row) for row in rows], LOG_SCHEMA)


def plain_reason(row: Row) -> str | None:
    """Return how the reason begins why a row cannot be used."""
    if row.kind == "erased":
        return "erased: "
    if row.schema > 1:
        return "newer: "
    for name in ("event_id", "subject", "publisher"):
        if not getattr(row, name):
            return f"malformed: it has no {name}"
    for name, first in (("time", -62_135_596_800.0), ("ingested", 0.0)):
        value = getattr(row, name)
        if value is None or not first <= value <= 253_402_300_799.0:
            return f"malformed: {name} is not a time"
    if (row.lat is None) != (row.lon is None):
        return "malformed: it has one of latitude and longitude"
    if row.lat is not None and not -90.0 <= row.lat <= 90.0:
        return "malformed: latitudes"
    if row.lon is not None and not -180.0 <= row.lon <= 180.0:
        return "malformed: longitudes"
    try:
        is_object = isinstance(json.loads(row.data), dict)
    except ValueError:
        is_object = False
    if not is_object:
        return "malformed: its data is not a JSON object"
    assert row.time is not None
    return "future: " if row.time > row.ingested + 60.0 else None


CHOICES: dict[str, tuple[object, ...]] = {
    "kind": ("event",) * 12 + ("erased",),
    "schema": (1,) * 12 + (2,),
    "event_id": ("e1", "e2", "e3", "e4", "e5", "e6", "", None),
    "subject": ("a", "a/b", "a", "a", "", None),
    "publisher": ("ann", "bob", "ann", "bob", "", None),
    "time": (
        5000.0,
        5000.0,
        4100.0,
        4099.9,
        5060.0,
        5060.1,
        math.nan,
        math.inf,
        -1.0,
        -6.2135596801e10,
        None,
    ),
    "ingested": (5000.0,) * 8 + (5001.0, math.nan),
    "lat": (53.0, 53.0, 90.0, -90.0, 90.1, math.nan, None),
    "lon": (-6.0, -6.0, 180.0, -180.0, -180.1, math.inf, None),
    "data": ("{}", "{}", '{"qos":1}', '{"a": {"b": [1]}}', "[]", "nonsense", '{"a"', '"{}"'),
}


def random_row(chance: random.Random, seq: int) -> Row:
    """A good row with one or two things changed."""
    names = chance.sample(list(CHOICES), chance.choice((0, 1, 1, 2)))
    changes = {name: chance.choice(CHOICES[name]) for name in names}
    return replace(GOOD, seq=seq, **{"event_id": f"e{chance.randrange(60)}", **changes})


def test_rows_are_refused_for_the_same_reasons_as_by_a_plain_reference(
    spark: "SparkSession",
) -> None:
    chance = random.Random(7)
    rows = [random_row(chance, seq) for seq in range(1, 400)]
    found = {row.seq: row for row in clean(log_of(spark, rows)).collect()}
    assert len(found) == len(rows)
    reasons = set()
    for row in rows:
        expected = plain_reason(row)
        got = found[row.seq].reject
        assert (got is None) == (expected is None), (row, got, expected)
        assert got is None or got.startswith(str(expected)), (row, got, expected)
        reasons.add(expected)
        assert row.time is not None or got
        is_late = expected is None and row.time is not None and row.time < row.ingested - 900.0
        assert found[row.seq].late == is_late
    assert len(reasons) >= 12


def test_a_repeat_is_refused_and_the_first_good_row_counts(spark: "SparkSession") -> None:
    rows = [
        replace(GOOD, seq=1, lat=91.0),
        replace(GOOD, seq=3, ingested=5002.0),
        replace(GOOD, seq=2, ingested=5001.0),
        replace(GOOD, seq=1, broker="a", ingested=5001.0),
        replace(GOOD, seq=4, publisher="bob"),
        replace(GOOD, seq=5, event_id="e2"),
    ]
    judged = first_of_each(clean(log_of(spark, rows)))
    repeat = "repeat: row 1 of broker a is the same event"
    assert {(row.broker, row.seq): row.reject for row in rejected(judged).collect()} == {
        ("b", 1): "malformed: latitudes go from -90 to 90, but this is 91.0",
        ("b", 2): repeat,
        ("b", 3): repeat,
    }
    assert {(row.broker, row.seq) for row in accepted(judged).collect()} == {
        ("a", 1),
        ("b", 4),
        ("b", 5),
    }


def test_what_never_was_an_event_is_passed_over(spark: "SparkSession") -> None:
    rows = [replace(GOOD, kind=kind) for kind in ("position", "context", "place", "session")]
    assert clean(log_of(spark, rows)).count() == 0
