"""When the server ticks: at once if all is quiet, else with what the next turns bring."""

from collections.abc import Callable

import pytest

from nearcast.broker.net.tick_scheduler import LONGEST_S, QUIET_S, TickScheduler


class Kit:
    """A loop that is turned by hand, and a clock that is set."""

    def __init__(self) -> None:
        self.time_s = 100.0
        self.ready: list[Callable[[], None]] = []
        self.ticks: list[int] = []
        """How many messages each tick decided on."""
        self.waiting = 0
        self.ticking = TickScheduler(self.tick, lambda: self.time_s)
        self.ticking.start(self.ready_to_call)

    def ready_to_call(self, callback: Callable[[], None]) -> None:
        self.ready.append(callback)

    def tick(self) -> None:
        self.ticking.began()
        self.ticks.append(self.waiting)
        self.waiting = 0
        self.ticking.ended()

    def turn(self, reads: int, took_s: float = 0.0) -> None:
        """One turn: what is ready to be called, then what is there to be read."""
        ready, self.ready = self.ready, []
        for each in ready:
            each()
        for _ in range(reads):
            self.ticking.reading()
            self.waiting += 1
            self.ticking.note_input()
        self.time_s += took_s


@pytest.fixture
def kit() -> Kit:
    return Kit()


def test_what_comes_when_all_is_quiet_is_decided_at_once(kit: Kit) -> None:
    for _ in range(3):
        kit.time_s += 1.0
        kit.turn(1)
    assert kit.ticks == [1, 1, 1]
    assert not kit.ready


def test_what_is_read_in_one_turn_is_one_tick(kit: Kit) -> None:
    kit.time_s += 1.0
    kit.turn(8)  # the first of them at once: nobody knows yet that there are more
    kit.turn(0)
    kit.turn(0)
    assert kit.ticks == [1, 7]


def test_a_single_message_after_a_tick_waits_for_no_other_turn(kit: Kit) -> None:
    kit.time_s += QUIET_S / 2
    kit.turn(1)
    assert kit.ticks == []
    kit.turn(0)
    assert kit.ticks == [1]


def test_turns_that_bring_something_are_one_tick(kit: Kit) -> None:
    kit.time_s += QUIET_S / 2
    for _ in range(20):
        kit.turn(3, took_s=LONGEST_S / 100)
    assert kit.ticks == []
    kit.turn(0)
    kit.turn(0)
    assert kit.ticks == [60]


def test_nothing_waits_longer_than_the_longest(kit: Kit) -> None:
    kit.time_s += QUIET_S / 2
    waited_since = kit.time_s
    for _ in range(1_000):
        before = len(kit.ticks)
        kit.turn(3, took_s=LONGEST_S / 7)
        if len(kit.ticks) > before:
            assert kit.time_s - waited_since <= LONGEST_S * (1 + 2 / 7) + 1e-9
            waited_since = kit.time_s - LONGEST_S / 7
    assert len(kit.ticks) > 100
    assert sum(kit.ticks) + kit.waiting == 3_000


def test_what_is_due_without_a_message_waits_for_nothing(kit: Kit) -> None:
    kit.ticking.soon()
    kit.ticking.soon()
    assert len(kit.ready) == 1
    kit.turn(0)
    assert kit.ticks == [0]


def test_a_tick_made_for_another_reason_takes_the_due_one_along(kit: Kit) -> None:
    kit.time_s += QUIET_S / 2
    kit.turn(2)
    kit.tick()
    kit.turn(0)
    kit.turn(0)
    assert kit.ticks == [2]


def test_without_a_loop_nothing_is_due() -> None:
    ticks: list[None] = []
    ticking = TickScheduler(lambda: ticks.append(None), lambda: 1.0)
    ticking.soon()
    assert not ticks
