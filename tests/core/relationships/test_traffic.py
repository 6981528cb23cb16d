"""Traffic of a cell, compared with statistics over plain lists."""

import math
from random import Random

import pytest

from nearcast.core.relationships.traffic import CellTraffic, TrafficSettings, TrafficWindow

SETTINGS = TrafficSettings(window_s=300.0)


def plain(passed: list[tuple[float, str, float | None]], start: float) -> TrafficWindow:
    """Count one window the plain way."""
    inside = [each for each in passed if start <= each[0] < start + 300.0]
    steps = sorted(round(speed * 10) for _, _, speed in inside if speed is not None)
    speeds = [step / 10 for step in steps]
    size = len(speeds)
    return TrafficWindow(
        start,
        len(inside),
        len({node for _, node, _ in inside}),
        sum(steps) / (10 * size) if size else None,
        speeds[math.ceil(size / 2) - 1] if size else None,
        speeds[math.ceil(size / 10) - 1] if size else None,
        0,
    )


@pytest.mark.parametrize("seed", range(10))
def test_windows_are_what_plain_lists_say(seed: int) -> None:
    random = Random(seed)
    passed = [
        (
            random.uniform(0.0, 1500.0),
            f"n{random.randrange(6)}",
            None if random.random() < 0.1 else random.uniform(0.0, 40.0),
        )
        for _ in range(random.randrange(1, 120))
    ]
    traffic = CellTraffic(SETTINGS)
    for each in passed:
        traffic = CellTraffic.from_bytes(SETTINGS, traffic.to_bytes())
        traffic.pass_by(*each)
    starts = sorted({math.floor(time / 300.0) * 300.0 for time, _, _ in passed})
    assert traffic.next_close() == starts[0] + 300.0
    assert traffic.close(starts[0] + 299.9) == []
    assert traffic.close(math.inf) == [plain(passed, start) for start in starts]
    assert len(traffic) == 0


def test_a_hazard_counts_once_for_each_event() -> None:
    traffic = CellTraffic(SETTINGS)
    for time, event in ((1.0, "ice"), (2.0, "ice"), (3.0, "oil"), (301.0, "ice")):
        traffic.warn(time, event)
    assert [window.hazards for window in traffic.close(600.0)] == [2, 1]


def test_state_does_not_grow_with_fixes_but_with_nodes_and_speeds() -> None:
    traffic = CellTraffic(SETTINGS)
    for number in range(10_000):
        traffic.pass_by(number % 300, f"n{number % 20}", number % 70)
    assert len(traffic.to_bytes()) < 1000
