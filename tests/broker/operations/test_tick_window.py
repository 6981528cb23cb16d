"""Durations of ticks: quantiles of the last seconds, and the maximum of the last minute."""

from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.operations.tick_window import (
    LATEST,
    RecentMaximum,
    TickDistribution,
    TickWindow,
)

VALUES = st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 10.0)), max_size=50)


@given(VALUES)
def test_the_maximum_is_that_of_the_last_minute(values: list[tuple[float, float]]) -> None:
    recent, now, noted = RecentMaximum(), 1_000.0, []
    for after, value in values:
        now += after
        recent.note(value, now)
        noted.append((int(now), value))
        expected = max(value for second, value in noted if now - second < 60)
        assert recent.value(now) == expected


def test_the_maximum_is_gone_after_a_minute_without_values() -> None:
    recent = RecentMaximum()
    recent.note(3.0, 100.0)
    assert recent.value(159.0) == 3.0
    assert recent.value(160.5) == 0.0


def test_quantiles_are_of_the_last_ten_seconds() -> None:
    window = TickWindow()
    assert window.distribution(0.0) == TickDistribution()
    window.note(9.0, 1.0)
    for number in range(101):
        window.note(number / 1_000, 12.0)
    assert window.distribution(13.0) == TickDistribution(0.05, 0.099, 0.1)
    assert window.count == 102


def test_only_so_many_ticks_are_kept() -> None:
    window = TickWindow()
    window.note(5.0, 1.0)
    for _ in range(LATEST):
        window.note(0.001, 1.0)
    assert window.distribution(1.0).max_s == 0.001
    assert window.count == LATEST + 1
