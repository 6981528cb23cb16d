"""Every strategy proposes regions that hold both points, and that cannot contradict the state."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model.geometry.position import Position
from nearcast.core.relationships.silence.regions.region import (
    Point,
    Region,
    distance,
    position_limit,
    position_point,
    quantity_point,
)
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.core.relationships.silence.regions.strategy import SilenceStrategy
from nearcast.core.relationships.silence.report import Report

strategies = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))
metres = st.floats(-3_000.0, 3_000.0)
speeds = st.floats(-20.0, 20.0)
probes = st.lists(st.tuples(metres, metres), min_size=4, max_size=30)


def ground(east_m: float, north_m: float) -> Point:
    return position_point(Position(53.35 + north_m / 111_276.0, -6.26 + east_m / 66_589.0))


def inside(region: Region, points: list[Point], moved_s: float) -> list[Point]:
    return [point for point in points if region.margin(point, moved_s) >= 0.0]


@strategies
@given(
    there=st.tuples(metres, metres),
    mine=st.tuples(speeds, speeds, speeds),
    theirs=st.tuples(speeds, speeds, speeds),
    within_m=st.floats(1.0, 500.0),
    age_s=st.none() | st.floats(0.0, 600.0),
    probed=probes,
    moved_s=st.floats(0.0, 30.0),
)
def test_regions_hold_both_and_never_contradict_the_state(
    strategy: SilenceStrategy,
    there: tuple[float, float],
    mine: Point,
    theirs: Point,
    within_m: float,
    age_s: float | None,
    probed: list[tuple[float, float]],
    moved_s: float,
) -> None:
    limit = position_limit(within_m)
    a, b = Report(ground(0.0, 0.0), mine, 100.0), Report(ground(*there), theirs, 90.0)
    regions = strategy.propose(a, b, limit, age_s)
    apart = distance(a.point, b.point)
    if age_s is None and abs(apart - limit) > 1e-5:
        assert regions.near is (apart <= limit)
        assert regions.teller_margin(a.point, a.time) >= 0.0
        assert regions.peer_margin(b.point, a.time) >= 0.0
    points = [a.point, b.point]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        points += [
            ground(x + share * (there[0] - x), y + share * (there[1] - y)) for x, y in probed
        ]
    moved_s = min(moved_s, regions.moves_s)
    for mine_at in inside(regions.teller, points, moved_s):
        for theirs_at in inside(regions.peer, points, moved_s):
            assert (distance(mine_at, theirs_at) <= limit) is regions.near


@strategies
@given(a=st.floats(-50.0, 50.0), b=st.floats(-50.0, 50.0), within=st.floats(0.1, 10.0))
def test_quantities_have_regions_as_positions_have(
    strategy: SilenceStrategy, a: float, b: float, within: float
) -> None:
    mine, theirs = Report(quantity_point(a)), Report(quantity_point(b))
    regions = strategy.propose(mine, theirs, within, None)
    assert regions.near is (abs(a - b) <= within)
    values = [quantity_point(a + (b - a) * k / 20.0) for k in range(-10, 31)]
    for mine_at in inside(regions.teller, values, 0.0):
        for theirs_at in inside(regions.peer, values, 0.0):
            assert (distance(mine_at, theirs_at) <= within) is regions.near


def test_a_ring_is_half_of_what_lies_between_and_a_radius_of_nothing_is_near() -> None:
    ring = STRATEGIES["ring"]
    a, b = Report((0.0, 0.0, 0.0)), Report((20.0, 0.0, 0.0))
    far = ring.propose(a, b, 10.0, None)
    assert far.teller.margin(a.point, 0.0) == pytest.approx(5.0)
    assert far.peer.margin(b.point, 0.0) == pytest.approx(5.0)
    assert ring.propose(a, Report((10.0, 0.0, 0.0)), 10.0, None).near


def test_a_strip_contains_the_ring() -> None:
    a, b = Report((0.0, 0.0, 0.0)), Report((20.0, 0.0, 0.0))
    regions = STRATEGIES["strip"].propose(a, b, 10.0, None)
    for angle in range(0, 360, 15):
        x, y = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        assert regions.teller.margin((3.99 * x, 3.99 * y, 0.0), 0.0) >= 0.0
        assert regions.peer.margin((20.0 + 3.99 * x, 3.99 * y, 0.0), 0.0) >= 0.0


def test_who_heads_for_the_other_gets_the_larger_share() -> None:
    hazard = STRATEGIES["exit-hazard"]
    heading = Report((0.0, 0.0, 6.4e6), (10.0, 0.0, 0.0))
    crossing_it = Report((5_000.0, 0.0, 6.4e6), (0.0, 3.0, 0.0))
    regions = hazard.propose(heading, crossing_it, 100.0, None)
    mine = regions.teller_margin(heading.point, 0.0)
    assert mine > regions.peer_margin(crossing_it.point, 0.0)


def test_a_parked_member_gets_a_small_ball_and_the_other_all_around_it() -> None:
    hazard = STRATEGIES["exit-hazard"]
    parked = Report((0.0, 0.0, 6.4e6))
    driving = Report((5_000.0, 0.0, 6.4e6), (0.0, 12.0, 0.0))
    regions = hazard.propose(driving, parked, 100.0, None)
    behind = (-5_000.0, 0.0, 6.4e6)
    assert regions.teller.margin(behind, 0.0) > 0.0
    assert regions.peer.margin(parked.point, 0.0) > 0.0
