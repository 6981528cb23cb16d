"""Phases exclude each other, and their sum is the time of the tick."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.scheduling.phase_timer import Phase, PhaseTimer

SWITCHES = st.lists(st.tuples(st.sampled_from(Phase), st.integers(0, 1_000)), max_size=30)


def timer_at(*times: float) -> PhaseTimer:
    """A timer whose clock returns these times, one for each call."""
    timer = PhaseTimer()
    timer.clock = iter(times).__next__
    return timer


@given(SWITCHES)
def test_every_moment_belongs_to_the_phase_that_was_begun_last(
    switches: list[tuple[Phase, int]],
) -> None:
    times = list(accumulate((after for _, after in switches), initial=0))
    timer = timer_at(*times)
    for phase, _ in switches:
        timer.switch(phase)
    found = timer.finish()
    for phase in Phase:
        expected = sum(after for each, after in switches if each is phase)
        assert found.seconds[phase] == expected
    assert found.took_s == sum(after for phase, after in switches if phase is not Phase.IDLE)
    assert timer.seconds == [0.0] * len(Phase)


def test_a_phase_inside_another_is_not_counted_twice() -> None:
    timer = timer_at(10.0, 11.0, 14.0, 15.0)
    timer.switch(Phase.INPUT)
    before = timer.switch(Phase.DISPATCH)
    timer.switch(before)
    found = timer.finish()
    assert found.took_s == 5.0
    assert found.shares()["dispatch"] == pytest.approx(0.6)
    assert found.shares()["input"] == pytest.approx(0.4)


def test_waiting_for_the_disk_is_no_work_of_the_commit() -> None:
    timer = timer_at(1.0, 3.0)
    timer.switch(Phase.COMMIT)
    timer.move(0.5, Phase.COMMIT, Phase.DISK)
    found = timer.finish()
    assert (found.seconds[Phase.COMMIT], found.seconds[Phase.DISK]) == (1.5, 0.5)
    assert found.took_s == 2.0


def test_a_garbage_collection_between_ticks_is_not_of_a_tick() -> None:
    timer = timer_at(1.0, 2.0)
    timer.note_collection(0.25)
    timer.switch(Phase.ENGINE)
    timer.note_collection(0.5)
    assert timer.finish().collection_s == 0.5
    assert timer.collection_s == 0.0
