"""When timers will fire is known to the next life of a pipeline too."""

import time
from pathlib import Path

from nearcast.pipeline.sink.pending_timers import PendingTimers


def test_times_are_kept_until_the_watermark_is_beyond_them(tmp_path: Path) -> None:
    path, now = tmp_path / "backlog" / "timers.json", time.time()
    timers = PendingTimers(path)
    timers.add("q 1", [now + 20, now + 10, now + 10])
    timers.add("q 2", [now + 5])
    assert timers.first("q 1") == now + 10
    again = PendingTimers(path)
    again.passed("q 1", now + 10)
    assert again.first("q 1") == now + 10
    again.passed("q 1", now + 10.5)
    assert again.first("q 1") == now + 20
    again.passed("q 1", now + 30)
    assert again.first("q 1") is None
    assert PendingTimers(path).first("q 2") == now + 5


def test_what_is_very_old_is_of_a_query_that_is_no_more(tmp_path: Path) -> None:
    path = tmp_path / "timers.json"
    PendingTimers(path).add("q", [1.0])
    assert PendingTimers(path).first("q") is None


def test_the_only_timer_of_a_log_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path, now = tmp_path / "timers.json", time.time()
    timers = PendingTimers(path)
    timers.replace("q of a", [now + 10])
    timers.replace("q of b", [now + 30])
    timers.replace("q of a", [now + 20])
    assert PendingTimers(path).first("q of a") == now + 20
    timers.replace("q of a", [])
    assert PendingTimers(path).first("q of a") is None
    assert PendingTimers(path).first("q of b") == now + 30
