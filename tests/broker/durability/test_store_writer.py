"""The keeper: what was handed over is kept in order, and the log's low end is tidied."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nearcast.broker.config.settings import DiskSection, LogSection
from nearcast.broker.durability.disk_space import (
    DiskCondition,
    DiskSpace,
    DiskStage,
    DiskUsage,
)
from nearcast.broker.durability.journal import Entries
from nearcast.broker.durability.store_writer import StoreWriter
from nearcast.store import LogReader, LogSettings, Row, RowBuffer, Store
from tests.support.waiting import until


def row(seq: int) -> Row:
    return Row("b", seq, "event", float(seq), event_id=str(seq), subject="a", publisher="p")


def call(work: Callable[[], None]) -> None:
    work()


def test_ticks_are_kept_in_order_and_told_in_order(tmp_path: Path) -> None:
    keeper = StoreWriter(Store(tmp_path, "b"), time.time, call)
    told: list[int] = []
    done = threading.Event()
    for seq in range(1, 101):
        entries = Entries([], RowBuffer.of([row(seq)]), must_sync=seq % 3 == 0)
        keeper.submit(entries, lambda seq=seq: told.append(seq) or done.set())  # type: ignore[misc,func-returns-value]
    until(lambda: len(told) == 100, "all are told")
    keeper.stop()
    assert told == list(range(1, 101))
    assert keeper.commits < 100
    store = Store(tmp_path, "b")
    assert store.seq == 100
    store.close()


def test_what_nobody_waits_for_is_kept_too(tmp_path: Path) -> None:
    keeper = StoreWriter(Store(tmp_path, "b"), time.time, call)
    keeper.submit(Entries([], RowBuffer.of([row(1)])))
    until(lambda: keeper.statistics()["seq"] == 1, "it is kept")
    keeper.stop()


def test_a_defect_that_ends_the_writer_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise KeyError("a defect")

    told: list[DiskCondition] = []
    store = Store(tmp_path, "b", LogSettings(roll_s=0.0))
    keeper = StoreWriter(store, time.time, call, settled=fail, disk_changed=told.append)
    keeper.submit(Entries([], RowBuffer.of([row(1)]), must_sync=True), lambda: None)
    until(lambda: keeper.failing is not None, "it is failing")
    assert "a defect" in str(keeper.failing)
    assert "restart the broker" in caplog.text
    assert "KeyError" in caplog.text
    until(lambda: bool(told) and told[-1].failing, "the condition is told")
    acknowledged = threading.Event()
    keeper.submit(Entries([], RowBuffer.of([row(2)]), must_sync=True), acknowledged.set)
    keeper.stop()
    assert not acknowledged.is_set()


class Clock:
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


def write_segments(keeper: StoreWriter, store: Store, count: int) -> None:
    for seq in range(1, count + 1):
        keeper.submit(Entries([], RowBuffer.of([row(seq)]), must_sync=True), lambda: None)
        until(lambda: store.log.settled_seq >= seq or wake(keeper), "it is settled")  # noqa: B023


def wake(keeper: StoreWriter) -> bool:
    keeper.submit(Entries(), lambda: None)
    return False


def test_the_low_end_of_the_log_is_merged(tmp_path: Path) -> None:
    store, clock = Store(tmp_path, "b", LogSettings(roll_s=0.0)), Clock()
    keeper = StoreWriter(store, clock, call, LogSection(merge_after=3, keep_s=0.0))
    write_segments(keeper, store, 5)
    clock.ahead_s = 60.0
    until(lambda: store.log.statistics().ranges == 1 or wake(keeper), "ranges are merged")
    keeper.stop()
    names = [each.name for each in LogReader(tmp_path / "brokers" / "b" / "log").segments()]
    assert names[0] == "00000001-00000003.parquet"
    assert len(names) == 3


def test_old_segments_are_dropped(tmp_path: Path) -> None:
    store, clock = Store(tmp_path, "b", LogSettings(roll_s=0.0)), Clock()
    keeper = StoreWriter(store, clock, call, LogSection(keep_s=1e9))
    write_segments(keeper, store, 3)
    clock.ahead_s = 2e9
    until(lambda: store.log.statistics().segments == 0 or wake(keeper), "all segments are gone")
    keeper.stop()
    assert not list((tmp_path / "brokers" / "b" / "log").glob("*.parquet"))


def test_the_condition_of_the_disk_is_measured_and_told_once_per_change(tmp_path: Path) -> None:
    free = [10_000]
    space = DiskSpace(
        tmp_path,
        DiskSection(warn_free_bytes=0, reclaim_free_bytes=800, low_free_bytes=400,
                    critical_free_bytes=100),
        lambda directory: DiskUsage(1 << 40, free[0]),
    )  # fmt: skip
    store, clock = Store(tmp_path, "b", LogSettings(roll_s=0.0)), Clock()
    told: list[DiskCondition] = []
    section = LogSection(keep_s=1e9)
    keeper = StoreWriter(store, clock, call, section, disk=space, disk_changed=told.append)
    write_segments(keeper, store, 3)
    free[0] = 399
    clock.ahead_s += 2e3
    until(lambda: len(told) == 1 or wake(keeper), "it is told")
    assert told[0].stage is DiskStage.UNRECORDED
    # All that a restart does not read is dropped, since it is not enough.
    until(lambda: store.log.statistics().segments == 0 or wake(keeper), "segments are dropped")
    assert keeper.statistics()["reclaimed_bytes_total"] > 0
    for _ in range(3):
        clock.ahead_s += 2.0
        wake(keeper)
    free[0] = 10_000
    clock.ahead_s += 2.0
    until(lambda: len(told) == 2 or wake(keeper), "it is told")
    assert told[1] == DiskCondition()
    keeper.stop()
