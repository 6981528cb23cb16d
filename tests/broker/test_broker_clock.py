"""The broker's clock in virtual time: a wall clock that jumps changes its pace, never its time."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.broker_clock import (
    MARK_AFTER_S,
    SLEW,
    BrokerClock,
    HostClocks,
    starting_time,
)
from nearcast.store import ClockMark

WALL = 1_700_000_000.0
TWO_DAYS_S = 2 * 86_400.0
SMALL_S = 1e-6
"""What rounding of seconds since 1970 may add up to."""


class Machine:
    """A machine whose time passes when a test says so, and whose wall clock can be set."""

    def __init__(self, boot: str = "one") -> None:
        self.wall, self.steady = WALL, 1_000.0
        self.clocks = HostClocks(lambda: self.wall, lambda: self.steady, boot)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


jumps_s = st.one_of(
    st.sampled_from([0.0, TWO_DAYS_S, -TWO_DAYS_S, 0.5, -0.5]), st.floats(-1e6, 1e6)
)


@given(st.lists(st.tuples(st.floats(0.0, 100.0), jumps_s), max_size=50))
def test_its_pace_is_that_of_a_steady_clock_but_for_a_tenth(
    happenings: list[tuple[float, float]],
) -> None:
    machine = Machine()
    clock = BrokerClock(machine.clocks)
    for seconds, jump_s in happenings:
        before = clock.now()
        machine.passes(seconds)
        passed = clock.now() - before
        assert (1 - SLEW) * seconds - SMALL_S <= passed <= (1 + SLEW) * seconds + SMALL_S
        machine.wall += jump_s
        clock.follow()


def test_the_time_of_the_wall_clock_is_kept_while_nobody_sets_it() -> None:
    machine = Machine()
    clock = BrokerClock(machine.clocks)
    for _ in range(1_000):
        machine.passes(1.0)
        clock.follow()
        assert clock.now() == pytest.approx(machine.wall, abs=SMALL_S)


@pytest.mark.parametrize("jump_s", [0.05, -0.05, 3.0, -3.0, 60.0, -60.0])
def test_a_correction_is_followed_within_ten_times_its_size(jump_s: float) -> None:
    machine = Machine()
    clock = BrokerClock(machine.clocks)
    machine.wall += jump_s
    clock.follow()
    times = []
    for _ in range(int(abs(jump_s) / SLEW) + 1):
        machine.passes(1.0)
        times.append(clock.now())
        clock.follow()
    assert clock.now() == pytest.approx(machine.wall, abs=SMALL_S)
    assert all(later > earlier for earlier, later in pairwise(times))


def test_it_does_not_overshoot_if_nobody_looks_for_long() -> None:
    machine = Machine()
    clock = BrokerClock(machine.clocks)
    machine.wall += 5.0
    clock.follow()
    machine.passes(10_000.0)
    assert clock.now() == pytest.approx(machine.wall, abs=SMALL_S)


def test_two_days_back_and_forth_are_seconds() -> None:
    machine = Machine()
    clock = BrokerClock(machine.clocks)
    for jump_s in (TWO_DAYS_S, -TWO_DAYS_S, -TWO_DAYS_S, TWO_DAYS_S):
        machine.wall += jump_s
        for _ in range(10):
            clock.follow()
            machine.passes(1.0)
    assert abs(clock.now() - machine.wall) <= 4.0 + SMALL_S
    assert abs(clock.now() - (WALL + 40.0)) <= 4.0 + SMALL_S


def test_a_mark_is_due_at_first_and_after_a_correction() -> None:
    machine = Machine()
    clock = BrokerClock(machine.clocks)
    assert clock.needs_mark()
    clock.mark()
    machine.passes(1_000.0)
    clock.follow()
    assert not clock.needs_mark()
    machine.wall += 10 * MARK_AFTER_S
    clock.follow()
    machine.passes(1.1 * MARK_AFTER_S / SLEW)
    assert clock.needs_mark()


@pytest.mark.parametrize("jump_s", [TWO_DAYS_S, -TWO_DAYS_S])
def test_a_life_in_the_same_boot_continues_the_one_before(jump_s: float) -> None:
    machine = Machine()
    clock = BrokerClock(machine.clocks)
    machine.passes(100.0)
    mark = clock.mark()
    machine.passes(50.0)
    machine.wall += jump_s
    assert starting_time(machine.clocks, mark, None) == pytest.approx(WALL + 150.0, abs=SMALL_S)


def test_after_a_boot_the_wall_clock_is_believed_if_it_is_later() -> None:
    mark = ClockMark("an earlier one", 5.0, WALL - 100.0)
    machine = Machine()
    assert starting_time(machine.clocks, mark, WALL - 90.0) == WALL
    machine.wall += TWO_DAYS_S
    assert starting_time(machine.clocks, mark, WALL - 90.0) == WALL + TWO_DAYS_S


def test_it_never_starts_before_what_was_recorded() -> None:
    machine = Machine()
    mark = ClockMark("an earlier one", 5.0, WALL + 20.0)
    assert starting_time(machine.clocks, None, WALL + 10.0) == WALL + 10.0
    assert starting_time(machine.clocks, mark, WALL + 10.0) == WALL + 20.0
    assert starting_time(machine.clocks, mark, WALL + 30.0) == WALL + 30.0
    same = ClockMark("one", WALL - 2_000.0, WALL - 50.0)
    assert starting_time(machine.clocks, same, WALL + 30.0) == WALL + 30.0


def test_boots_that_the_system_does_not_name_are_not_the_same() -> None:
    machine = Machine(boot="")
    mark = ClockMark("", 5.0, WALL - 100.0)
    assert starting_time(machine.clocks, mark, None) == WALL
