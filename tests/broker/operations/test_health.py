"""Health is told truthfully: what cannot be kept, logged or answered in time."""

from pathlib import Path

import pytest

from nearcast.broker.operations.health import SLOW_S, STALLED_S, health_checks
from nearcast.broker.operations.loop_lag import REMEMBERED_S, LoopLag
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until


def test_a_loop_that_keeps_time_is_not_late() -> None:
    lag = LoopLag(1.0)
    assert lag.longest_s == 0.0
    for second in range(100):
        lag.note(float(second))
    assert lag.longest_s == 0.0


def test_the_longest_delay_is_remembered_for_a_while() -> None:
    lag = LoopLag(1.0)
    lag.note(0.0)
    lag.note(7.0)
    lag.note(8.5)
    assert lag.longest_s == 6.0
    lag.note(7.0 + REMEMBERED_S)
    assert lag.longest_s == REMEMBERED_S - 2.5
    lag.note(9.0 + 2 * REMEMBERED_S)
    lag.note(10.0 + 3 * REMEMBERED_S + 1.0)
    assert lag.longest_s == REMEMBERED_S + 1.0


@pytest.mark.parametrize(
    ("late_s", "status"),
    [(0.0, "ok"), (SLOW_S, "degraded"), (STALLED_S, "failing")],
)
def test_a_stalled_loop_is_told(tmp_path: Path, late_s: float, status: str) -> None:
    broker = RunningBroker(data=tmp_path)
    try:
        server = broker.server
        server.loop_lag = LoopLag(1.0)
        server.loop_lag.note(0.0)
        server.loop_lag.note(1.0 + late_s)
        assert health_checks(server)["loop"]().status == status
    finally:
        broker.stop()


def test_segments_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    try:
        checks = health_checks(broker.server)
        assert {name: check().status for name, check in checks.items()} == {
            "store": "ok", "log": "ok", "clock": "ok", "loop": "ok",
        }  # fmt: skip
        logs = tmp_path / "brokers" / "local" / "log"
        aside = logs.rename(logs.with_name("aside"))
        broker.client("client").publish("news", b"", qos=1)
        until(lambda: checks["log"]().status == "degraded", "the problem is told")
        assert checks["store"]().status == "ok"
        aside.rename(logs)
        until(lambda: checks["log"]().status == "ok", "it is over")
    finally:
        broker.stop()
