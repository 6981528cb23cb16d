"""Old rows go, but none that a pipeline which follows the log still needs."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.durability.log_retention import AWAY_S, OVERDUE_S, LogRetention
from nearcast.store import LogSettings, Row, RowBuffer, Store, asked_snapshot, follow
from nearcast.store.log.followers import FOLLOWED

KEEP_S = 10.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A log of nine segments, with one row each."""
    store = Store(tmp_path, "b", LogSettings(roll_s=0.0))
    for seq in range(1, 10):
        row = Row("b", seq, "event", float(seq), event_id=str(seq), subject="a", publisher="p")
        store.commit((), RowBuffer.of([row]), now=float(seq))
        store.roll(float(seq))
    yield store
    store.abandon()


def test_a_log_that_nobody_follows_is_kept_as_long_as_is_said(store: Store) -> None:
    LogRetention(store.log, 0.0).drop(1e9)
    assert store.log.low_seq == 1
    LogRetention(store.log, KEEP_S).drop(15.0)
    assert store.log.low_seq == 5
    assert asked_snapshot(store.log.directory) == 0


def test_a_followed_log_is_dropped_only_up_to_a_snapshot(store: Store) -> None:
    retention = LogRetention(store.log, KEEP_S)
    follow(store.log.directory, 0)
    retention.drop(100.0)
    assert store.log.low_seq == 1
    follow(store.log.directory, 3)
    retention.drop(15.0)
    assert store.log.low_seq == 4
    follow(store.log.directory, 9)
    retention.drop(15.0)
    assert store.log.low_seq == 5


def test_a_follower_is_asked_for_a_snapshot_once_rows_are_overdue(store: Store) -> None:
    retention = LogRetention(store.log, KEEP_S)
    follow(store.log.directory, 2)
    retention.drop(3.0 + KEEP_S + OVERDUE_S)
    assert asked_snapshot(store.log.directory) == 0
    retention.drop(3.5 + KEEP_S + OVERDUE_S)
    assert asked_snapshot(store.log.directory) == 9
    follow(store.log.directory, 9)
    retention.drop(3.5 + KEEP_S + OVERDUE_S)
    assert store.log.low_seq == 10


def test_a_follower_that_stays_away_holds_up_nothing(store: Store) -> None:
    retention = LogRetention(store.log, KEEP_S)
    follow(store.log.directory, 2)
    path, now = store.log.directory / FOLLOWED, time.time()
    os.utime(path, (now - 0.9 * AWAY_S, now - 0.9 * AWAY_S))
    retention.drop(15.0)
    assert store.log.low_seq == 3
    os.utime(path, (now - 1.1 * AWAY_S, now - 1.1 * AWAY_S))
    retention.drop(15.0)
    assert store.log.low_seq == 5


def test_a_follower_of_an_earlier_release_says_nothing_and_holds_up_nothing(store: Store) -> None:
    (store.log.directory / FOLLOWED).touch()
    LogRetention(store.log, KEEP_S).drop(15.0)
    assert store.log.low_seq == 5


def test_for_want_of_space_the_oldest_segments_go_before_their_time(store: Store) -> None:
    retention = LogRetention(store.log, KEEP_S)
    sizes = [each.bytes for each in store.log.segments()]
    assert retention.reclaim(1, 5.0) == sizes[0]
    assert store.log.low_seq == 2
    assert retention.reclaim(sizes[1] + 1, 5.0) == sum(sizes[1:3])
    assert store.log.low_seq == 4
    # What a restart reads stays, however little space there is.
    assert retention.reclaim(1 << 40, 5.0) == sizes[3]
    assert store.log.low_seq == 5


def test_what_a_pipeline_needs_stays_on_a_full_disk_and_it_is_asked_for_a_snapshot(
    store: Store,
) -> None:
    retention = LogRetention(store.log, KEEP_S)
    follow(store.log.directory, 2)
    retention.reclaim(1 << 40, 9.0)
    assert store.log.low_seq == 3
    assert asked_snapshot(store.log.directory) == 3
    follow(store.log.directory, 9)
    retention.reclaim(1 << 40, 9.0)
    assert store.log.low_seq == 9


def test_a_log_that_is_kept_for_ever_loses_nothing_for_space(store: Store) -> None:
    assert LogRetention(store.log, 0.0).reclaim(1 << 40, 1e9) == 0
    assert store.log.low_seq == 1
