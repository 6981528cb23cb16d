"""The audit finds no difference where there is none, and every one that is made on purpose."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from nearcast.core.model.inputs import Subscribed
from nearcast.pipeline.jobs.audit import EXTRA, MISSING, PRIORITY, Audit, audit
from nearcast.store import DELIVERY, ERASED, NOTICE, Row, input_of, recipients_of
from nearcast.store.rows.row_json import text
from nearcast.testing import World
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import log_of_a_life, recorded, recorded_states
from tests.support.logs.recorded_meetings import log_of_meetings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIVES = range(900, 904)


@pytest.fixture(scope="module")
def logs() -> list[list[Row]]:
    """The logs of some brokers."""
    found = []
    for seed in LIVES:
        rows = log_of_a_life(World(seed=seed), 40)
        found.append([replace(row, broker=f"b{seed}") for row in rows])
    return found


def audited(
    spark: "SparkSession", data: Path, logs: Sequence[Sequence[Row]], shards: int = 1
) -> Audit:
    for rows in logs:
        write_log(data, rows[0].broker, rows, per_segment=30)
    log = spark.read.format("nearcast").option("path", str(data)).load()
    return audit(log, str(data), shards)


@pytest.mark.parametrize("shards", [1, 2])
def test_over_random_lives_there_is_no_difference(
    spark: "SparkSession", tmp_path: Path, logs: list[list[Row]], shards: int
) -> None:
    found = audited(spark, tmp_path, logs, shards)
    assert found.passed, found.differences
    assert found.copies == sum(recorded(rows).total() for rows in logs)
    assert not found.unrecorded
    assert not found.unusable


def test_rows_of_a_later_release_are_passed_over_or_refused(
    spark: "SparkSession", tmp_path: Path, logs: list[list[Row]]
) -> None:
    rows = logs[0]
    last = replace(rows[-1], seq=rows[-1].seq + 1)
    told = audited(spark, tmp_path / "informed", [[*rows, replace(last, kind="info.pulse")]])
    assert told.passed
    assert not told.unusable
    with pytest.raises(Exception, match=f"row {last.seq} of .* kind 'teleport'.*upgrade"):
        audited(spark, tmp_path / "decided", [[*rows, replace(last, kind="teleport")]])


@pytest.fixture(scope="module")
def meetings() -> list[Row]:
    """The log of a broker with relationships and watched areas."""
    return [replace(row, broker="b7") for row in log_of_meetings(World(seed=7))]


@pytest.mark.parametrize("shards", [1, 2])
def test_what_was_told_of_relationships_and_areas_is_compared(
    spark: "SparkSession", tmp_path: Path, meetings: list[Row], shards: int
) -> None:
    found = audited(spark, tmp_path, [meetings], shards)
    assert found.passed, found.differences
    told = recorded_states(meetings).total()
    assert told > 20
    assert found.copies == recorded(meetings).total() + told


def test_a_state_that_a_broker_told_wrongly_is_found(
    spark: "SparkSession", tmp_path: Path, meetings: list[Row]
) -> None:
    rows = list(meetings)
    at = next(
        i for i, row in enumerate(rows) if row.kind == NOTICE and row.subject == "$relate/far"
    )
    other = "apart" if '"near"' in rows[at].data else "near"
    rows[at] = replace(rows[at], data=text({"state": other, "members": ["b", "c"]}))
    found = audited(spark, tmp_path, [rows])
    assert found.counts == {MISSING: 1, EXTRA: 1, PRIORITY: 0, "waiting": 0}
    assert {each.session for each in found.differences} == {"$relate/far"}
    assert {each.event.split(" ")[0] for each in found.differences} == {"near", "apart"}


def lose_a_copy(row: Row) -> Row:
    return replace(row, data=text({"to": recipients_of(row)[1:]}))


def add_a_copy(row: Row) -> Row:
    stranger = ("nobody", ("nothing",), 1, False)
    return replace(row, data=text({"to": [*recipients_of(row), stranger]}))


def change_a_priority(row: Row) -> Row:
    (session, wanted, priority, replayed), *others = recipients_of(row)
    return replace(row, data=text({"to": [(session, wanted, priority + 1, replayed), *others]}))


@pytest.mark.parametrize(
    ("change", "what"),
    [(lose_a_copy, MISSING), (add_a_copy, EXTRA), (change_a_priority, PRIORITY)],
)
def test_what_a_broker_did_wrong_is_found(
    spark: "SparkSession",
    tmp_path: Path,
    logs: list[list[Row]],
    change: Callable[[Row], Row],
    what: str,
) -> None:
    rows = list(logs[0])
    at = next(i for i, row in enumerate(rows) if row.kind == DELIVERY)
    rows[at] = change(rows[at])
    found = audited(spark, tmp_path, [rows])
    assert not found.passed
    assert found.counts == {MISSING: 0, EXTRA: 0, PRIORITY: 0, "waiting": 0} | {what: 1}
    (difference,) = found.differences
    assert difference.event == rows[at].event_id


def test_what_was_decided_from_other_inputs_is_found(
    spark: "SparkSession", tmp_path: Path, logs: list[list[Row]]
) -> None:
    """As if the pipeline did not see a subscription that the broker had."""
    rows = list(logs[1])
    unseen = next(name for row in rows if row.kind == DELIVERY for name in _wanted(row))
    for at, row in enumerate(rows):
        if row.kind == "subscription" and _id(row) == unseen:
            rows[at] = Row(row.broker, row.seq, ERASED, row.ingested)
    found = audited(spark, tmp_path, [rows])
    assert not found.passed
    assert found.counts[EXTRA] > 0


def _wanted(row: Row) -> list[str]:
    return [name for _, names, _, _ in recipients_of(row) for name in names]


def _id(row: Row) -> str:
    value = input_of(row)
    assert isinstance(value, Subscribed)
    return value.subscription.id


def test_what_was_sent_later_than_it_was_decided_is_no_difference(
    spark: "SparkSession", tmp_path: Path, logs: list[list[Row]]
) -> None:
    """As a replay sends what was decided while a broker recorded nothing."""
    (rows, *_) = logs
    quiet = [
        replace(row, data=row.data.replace('"deliveries":true', '"deliveries":false'))
        if row.kind == "restart"
        else row
        for row in rows
    ]
    assert quiet != rows
    found = audited(spark, tmp_path, [quiet])
    assert found.passed, found.differences
    assert found.copies == 0
    assert found.unrecorded == recorded(rows).total()
