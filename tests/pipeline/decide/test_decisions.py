"""Decisions in Spark are those of the broker, whichever task makes them from which snapshot."""

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nearcast.pipeline.decide import decisions
from nearcast.pipeline.decide.decisions import CONTEXT, DELIVERY, UNUSABLE, decide_batches
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.store import Row, batch_of
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import Copy, copies, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found_in(table: list[dict[str, object]]) -> Counter[Copy]:
    found: Counter[Copy] = Counter()
    for row in table:
        if row["kind"] == DELIVERY:
            to = [tuple(each.values()) for each in row["recipients"]]  # type: ignore[attr-defined]
            found.update(copies(row["publisher"], row["id"], to))  # type: ignore[arg-type]
    return found


def decided_locally(data: Path, rows: list[Row]) -> list[dict[str, object]]:
    batches = decide_batches(str(data), [batch_of(rows)])
    return [row for batch in batches for row in batch.to_pylist()]


def test_tasks_of_spark_decide_as_the_broker_did(
    spark: "SparkSession", tmp_path: Path, rows: list[Row]
) -> None:
    write_log(tmp_path, "broker", rows, per_segment=17)
    log = (
        spark.read.format("nearcast")
        .option("path", str(tmp_path))
        .option("partitionRows", 40)
        .load()
    )
    assert log.rdd.getNumPartitions() > 2
    found = [row.asDict(recursive=True) for row in decisions.decided(log, str(tmp_path)).collect()]
    assert found_in(found) == recorded(rows)
    nodes = {row["node"] for row in found if row["kind"] == CONTEXT}
    assert nodes
    assert not [row for row in found if row["kind"] == UNUSABLE]


def test_it_does_not_matter_where_a_task_begins(
    tmp_path: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "SNAPSHOT_ROWS", 30)
    monkeypatch.setattr(decisions, "SNAPSHOT_ROWS_EACH", 0)
    write_log(tmp_path, "broker", rows, per_segment=25)
    third = len(rows) // 3
    parts = [rows[:third], rows[third : 2 * third], rows[2 * third :]]
    expected = [decided_locally(tmp_path, part) for part in parts]
    assert sum((found_in(part) for part in expected), Counter()) == recorded(rows)
    own = Path(str(Snapshots.of(str(tmp_path), "broker").own))
    assert list(own.iterdir())
    # Again, in another order, from snapshots; and then without any.
    for part, wanted in reversed(list(zip(parts, expected, strict=True))):
        decisions._players.clear()
        assert decided_locally(tmp_path, part) == wanted
    for path in own.iterdir():
        path.unlink()
    decisions._players.clear()
    assert decided_locally(tmp_path, parts[1]) == expected[1]


def test_a_process_goes_on_with_its_own_player_unless_a_snapshot_is_much_nearer(
    tmp_path: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, "broker", rows, per_segment=25)
    where = str(tmp_path), "broker"
    expected = decided_locally(tmp_path, rows[-20:])

    def player_after(own: int, kept: int) -> Player:
        """The player that decided on the last rows, with one of its own and one that was kept."""
        first, second = Player("broker"), Player("broker")
        first.apply(rows[:own])
        second.apply(rows[:kept])
        for path in Path(str(Snapshots.of(*where).own)).glob("*"):
            path.unlink()
        Snapshots.of(*where).save(second)
        decisions._players[where] = first, 0
        assert decided_locally(tmp_path, rows[-20:]) == expected
        used = decisions._players[where][0]
        return first if used is first else second

    monkeypatch.setattr(decisions, "SNAPSHOT_ROWS", 50)
    monkeypatch.setattr(decisions, "SNAPSHOT_ROWS_EACH", 0)
    size = len(rows)
    assert player_after(own=size - 60, kept=30).seq == size, "older than its own"
    assert player_after(own=size - 60, kept=size - 30).seq == size, "not much nearer"
    assert player_after(own=30, kept=size - 30).seq == size - 30, "much nearer"
    assert player_after(own=size - 5, kept=size - 30).seq == size - 30, "its own is too far on"


def test_a_task_that_is_cut_off_leaves_nothing_half_done(tmp_path: Path, rows: list[Row]) -> None:
    write_log(tmp_path, "broker", rows)
    expected = decided_locally(tmp_path, rows)
    decisions._players.clear()
    cut = decide_batches(str(tmp_path), [batch_of(rows)])
    next(cut)
    assert isinstance(cut, Generator)
    cut.close()
    assert decided_locally(tmp_path, rows) == expected
