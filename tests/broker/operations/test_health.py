"""Health is told truthfully: what cannot be kept, logged or answered in time."""

from pathlib import Path

import pytest

from nearcast.broker.operations.health import SLOW_S, STALLED_S, health_checks
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("late_s", "status"),
    [(0.0, "ok"), (SLOW_S, "degraded"), (STALLED_S, "failing")],
)
def test_a_stalled_loop_is_told(tmp_path: Path, late_s: float, status: str) -> None:
    broker = RunningBroker(data=tmp_path)
    try:
        server = broker.server
        server.diagnostics.longest_wait_s = lambda: late_s  # type: ignore[method-assign]
        assert health_checks(server)["loop"]().status == status
    finally:
        broker.stop()


def test_segments_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    try:
        checks = health_checks(broker.server)
        assert {name: check().status for name, check in checks.items()} == {
            "store": "ok", "disk": "ok", "log": "ok", "clock": "ok", "loop": "ok",
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
