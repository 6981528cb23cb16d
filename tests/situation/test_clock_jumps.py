"""A machine's clock that jumps two days back or forth: nothing expires, and no time goes back."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import Struct

from nearcast.broker.broker_clock import HostClocks
from nearcast.wire.mqtt import Properties, Will
from tests.support.clients.talker import Talker
from tests.support.logs.broker_log import read_log
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until

TWO_DAYS_S = 2 * 86_400.0
HOUR_S = 3_600


class Machine(Struct):
    """A machine whose wall clock a test sets, and that it starts anew."""

    data: Path
    running: list[RunningBroker] = []
    wall_ahead_s: float = 0.0
    boot: str = "one"

    def starts(self) -> RunningBroker:
        """Start the broker, or start it again."""
        self.stops()
        clocks = HostClocks(lambda: time.time() + self.wall_ahead_s, time.monotonic, self.boot)
        self.running.append(RunningBroker(data=self.data, clocks=clocks))
        return self.running[-1]

    def stops(self) -> None:
        if self.running:
            self.running.pop().stop()

    def jumps(self, seconds: float) -> None:
        """Set the wall clock, and wait until the running broker has looked at it."""
        self.wall_ahead_s += seconds
        server = self.running[-1].server

        def followed() -> bool:
            return abs(server.statistics()["clock_off_s"] - self.wall_ahead_s) < HOUR_S

        until(followed, "the broker looks at the clock")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.stops()


def leave_something(broker: RunningBroker) -> None:
    """Leave a session, a delayed will, a live event, a queued message and a position."""
    will = Will("gone", b"gone", 1, False, Properties(will_delay_interval=HOUR_S))
    away = Talker(broker, "away", clean=False, expiry=2 * HOUR_S, will=will)
    away.subscribes("news")
    away.moves(53.35, -6.26)
    broker.lose(away.client)
    author = Talker(broker, "author")
    author.says("news", b"old", valid=str(HOUR_S))
    author.says("gossip", b"kept", valid=str(HOUR_S))


def expect_all(broker: RunningBroker) -> None:
    """Nothing of it has expired, and the will was not published."""
    watcher = Talker(broker)
    watcher.subscribes("#")
    watcher.subscribes("$node/away/position")
    found = {message.topic: message.payload for message in watcher.gets()}
    assert found == {
        "news": b"old", "gossip": b"kept", "$node/away/position": b"53.35,-6.26",
    }  # fmt: skip
    back = Talker(broker, "away", clean=False, expiry=2 * HOUR_S)
    assert back.payloads() == [b"old"]
    assert watcher.payloads() == []


@pytest.mark.parametrize("jumps", [[TWO_DAYS_S], [-TWO_DAYS_S], [TWO_DAYS_S, -TWO_DAYS_S]])
def test_a_jump_while_it_runs_expires_nothing(machine: Machine, jumps: list[float]) -> None:
    broker = machine.starts()
    leave_something(broker)
    for each in jumps:
        machine.jumps(each)
    expect_all(broker)


Disturb = Callable[[Machine], None]


def set_clock(seconds: float) -> Disturb:
    def disturb(machine: Machine) -> None:
        machine.wall_ahead_s += seconds

    return disturb


def boot_with_clock_set_back(machine: Machine) -> None:
    machine.boot = "two"
    machine.wall_ahead_s -= TWO_DAYS_S


@pytest.mark.parametrize(
    "disturb", [set_clock(TWO_DAYS_S), set_clock(-TWO_DAYS_S), boot_with_clock_set_back]
)
def test_a_jump_while_it_is_stopped_expires_nothing(machine: Machine, disturb: Disturb) -> None:
    leave_something(machine.starts())
    machine.stops()
    disturb(machine)
    broker = machine.starts()
    expect_all(broker)
    machine.stops()
    times = [row.ingested for row in read_log(machine.data)]
    assert all(later >= earlier for earlier, later in pairwise(times))
    assert times[-1] - times[0] < HOUR_S


def test_time_that_passed_while_it_was_stopped_counts(machine: Machine) -> None:
    leave_something(machine.starts())
    machine.stops()
    machine.boot = "two"
    machine.wall_ahead_s += TWO_DAYS_S
    broker = machine.starts()
    watcher = Talker(broker)
    watcher.subscribes("#")
    assert watcher.payloads() == []
    assert "away" not in broker.server.hub.sessions


def test_far_apart_clocks_are_told(machine: Machine) -> None:
    broker = machine.starts()
    assert broker.server.clock.problem is None
    machine.jumps(TWO_DAYS_S)
    assert "ahead of the broker's" in str(broker.server.clock.problem)
