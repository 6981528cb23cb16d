"""A slow tick says who caused it and what it was spent on; a stalled loop is noticed."""

import gc
import io
import json
import time
from collections.abc import Iterator

import pytest

from nearcast.broker.config.settings import DiagnosticsSection, LoggingSection, Settings
from nearcast.broker.operations.health import SLOW_S, health_checks
from nearcast.broker.operations.log_handler import REPEATS, set_up
from nearcast.broker.scheduling.phase_timer import Phase
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until

EVERY_TICK = Settings(diagnostics=DiagnosticsSection(slow_tick_s=1e-9))
NO_TICK = Settings(diagnostics=DiagnosticsSection(slow_tick_s=30.0))


class LogLines:
    """What a broker logs, as JSON."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._handler = set_up(LoggingSection(form="json"), self._stream)

    def of(self, event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]

    def of_session(self, client_id: str) -> list[dict[str, object]]:
        """Lines about slow ticks that a session caused."""
        lines = self.of("slow tick")
        return [line for line in lines if str(line.get("session_1")).startswith(client_id)]

    def begin_anew(self) -> None:
        """Forget how many lines of each kind have been written."""
        self._stream.truncate(0)
        self._stream.seek(0)
        self._handler = set_up(LoggingSection(form="json"), self._stream)

    def close(self) -> None:
        self._handler.close()


@pytest.fixture
def lines() -> Iterator[LogLines]:
    found = LogLines()
    yield found
    found.close()


@pytest.fixture
def all_slow() -> Iterator[RunningBroker]:
    """A broker for which every tick is slow."""
    broker = RunningBroker(EVERY_TICK)
    yield broker
    broker.stop()


async def stall(seconds: float) -> None:
    time.sleep(seconds)  # the event loop is to be stalled


def test_a_slow_tick_names_its_sessions_and_what_it_was_spent_on(
    lines: LogLines, all_slow: RunningBroker
) -> None:
    talker = all_slow.client("talker")
    all_slow.client("listener").subscribe("news/#")
    lines.begin_anew()
    talker.publish("news/today", b"x" * 10_000)
    until(lambda: bool(lines.of_session("talker")), "a line")
    line = lines.of_session("talker")[0]
    assert str(line["session_1"]).startswith("talker (address 127.0.0.1) ")
    assert str(line["session_1"]).endswith("%")
    assert {name.split()[0] for name in str(line["phases"]).split(", ")} <= {
        phase.name.lower() for phase in Phase
    }
    assert "input" in str(line["costs"])
    assert float(str(line["took_s"])) >= 0.0
    assert {"collection_s", "disk_s"} <= set(line)


def test_lines_about_slow_ticks_are_bounded_and_those_left_out_counted(
    lines: LogLines, all_slow: RunningBroker
) -> None:
    client = all_slow.client("busy")
    for _ in range(20):
        client.publish("a")
    assert len(lines.of("slow tick")) == REPEATS
    figures = all_slow.server.statistics()
    lines.close()
    (left_out,) = lines.of("left out")
    assert left_out["of"] == "slow tick"
    assert int(str(left_out["lines"])) >= 20 - REPEATS
    assert figures["slow_ticks_total"] >= 20
    assert figures["slow_tick_seconds_total"] >= figures["slowest_tick_seconds"] > 0.0


def test_a_quick_tick_is_not_logged(lines: LogLines) -> None:
    broker = RunningBroker(NO_TICK)
    broker.client("calm").publish("a")
    figures = broker.server.statistics()
    broker.stop()
    assert lines.of("slow tick") == []
    assert figures["slow_ticks_total"] == 0
    assert figures["slow_tick_seconds_total"] == 0.0
    assert figures["slowest_tick_seconds"] > 0.0


def test_a_stalled_event_loop_is_logged_and_degrades_the_health(lines: LogLines) -> None:
    broker = RunningBroker()
    diagnostics = broker.server.diagnostics
    # After this the loop has run its timer at least once.
    until(lambda: diagnostics.monitor.longest_s(time.monotonic()) > 0.0, "a beat")
    broker.run(stall(SLOW_S + 0.5))
    until(lambda: bool(lines.of("event loop was stalled")), "a line")
    health = health_checks(broker.server)["loop"]()
    figures = broker.server.statistics()
    broker.stop()
    assert figures["loop_stalls_total"] >= 1
    assert figures["loop_stall_seconds_total"] >= SLOW_S
    assert figures["longest_loop_delay_seconds"] >= SLOW_S
    assert health.status == "degraded"
    assert "had to wait" in health.detail


def test_garbage_collections_are_counted_until_the_broker_stops(all_slow: RunningBroker) -> None:
    before = all_slow.server.statistics()["garbage_collections_total"]
    gc.collect()
    figures = all_slow.server.statistics()
    assert figures["garbage_collections_total"] > before
    assert figures["garbage_collection_seconds_total"] > 0.0
    callbacks = len(gc.callbacks)
    all_slow.server.diagnostics.stop()
    assert len(gc.callbacks) == callbacks - 1


def test_costs_by_kind_and_by_session_add_up(all_slow: RunningBroker) -> None:
    listener, talker = all_slow.client(), all_slow.client()
    listener.subscribe("a/#")
    found = []
    ended = all_slow.server.diagnostics.end_tick

    def end_tick() -> float:
        found.append(all_slow.server.hub.state.costs.latest)
        return ended()

    all_slow.server.diagnostics.end_tick = end_tick  # type: ignore[method-assign]
    for number in range(10):
        talker.publish(f"a/{number}", retain=True, qos=number % 3)
    all_slow.client().subscribe("a/#")
    assert sum(each.spent for each in found) > 0.0
    for each in found:
        assert sum(each.by_kind.values()) == pytest.approx(each.spent)
        assert sum(each.by_account.values()) <= each.spent * (1 + 1e-9)
