from hypothesis import given
from hypothesis import strategies as st

from nearcast.simulation.virtual_clock import VirtualClock


@given(st.lists(st.integers(0, 20)))
def test_what_is_due_happens_in_the_order_of_time_and_then_of_asking(delays: list[int]) -> None:
    clock, rung = VirtualClock(), []
    for number, delay in enumerate(delays):
        clock.after(delay, lambda at=delay, number=number: rung.append((at, number)))  # type: ignore[misc]
    clock.run(20)
    assert rung == sorted((at, number) for number, at in enumerate(delays))
    assert clock.elapsed_s == 20.0


def test_what_is_due_later_waits() -> None:
    clock, rung = VirtualClock(), []
    clock.after(5.0, lambda: rung.append(5))
    clock.run(4.999)
    assert rung == []
    clock.run(0.001)
    assert rung == [5]


def test_a_call_may_ask_for_another_at_the_same_moment() -> None:
    clock, rung = VirtualClock(), []
    clock.after(1.0, lambda: clock.soon(lambda: rung.append("second")))
    clock.after(1.0, lambda: rung.append("first"))
    clock.run(1.0)
    assert rung == ["first", "second"]


def test_a_cancelled_alarm_does_not_ring() -> None:
    clock, rung = VirtualClock(), []
    alarm = clock.after(1.0, lambda: rung.append(1))
    alarm.cancel()
    clock.run(2.0)
    assert rung == []


def test_the_past_is_now() -> None:
    clock, rung = VirtualClock(), []
    clock.run(10.0)
    clock.at(0.0, lambda: rung.append(clock.elapsed_s))
    assert clock.step()
    assert rung == [10.0]
    assert not clock.step()


def test_sources_of_chance_follow_from_the_seed_and_not_from_each_other() -> None:
    one, two = VirtualClock(7), VirtualClock(7)
    two.chance("weather").random()
    assert one.chance("dice").random() == two.chance("dice").random()
    assert one.chance("dice").random() != one.chance("weather").random()
    assert one.chance("dice").random() != VirtualClock(8).chance("dice").random()
