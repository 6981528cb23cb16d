"""Movement: a position is a function of time, on streets, at the speed it says."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model.geometry.position import Position
from nearcast.simulation.movement.city import City, metres
from nearcast.simulation.movement.movement import random_tour, street_tour, tour

CITY = City()
SQUARE = [(0, 0), (2, 0), (2, 2), (0, 2)]

seeds = st.integers(0, 2**32)
times = st.floats(0.0, 1e6)


def test_a_tour_passes_its_corners_in_order_and_begins_again() -> None:
    way = street_tour(CITY, SQUARE, speed_mps=10.0)
    side_s = 2 * CITY.block_m / 10.0
    for lap in range(2):
        for corner, crossing in enumerate(SQUARE):
            at = way.at((4 * lap + corner) * side_s)
            assert at.distance_m(CITY.position(crossing)) < 1.0


def test_half_way_along_a_street_is_half_way_between_its_ends() -> None:
    way = street_tour(CITY, SQUARE, speed_mps=10.0, start_m=CITY.block_m / 2)
    assert way.at(0.0).distance_m(CITY.position((0, 0))) == pytest.approx(100.0, abs=0.5)
    assert way.at(0.0).distance_m(CITY.position((1, 0))) == pytest.approx(100.0, abs=0.5)


def test_one_corner_is_standing_still() -> None:
    here = Position(53.35, -6.26)
    assert tour([here], 0.0).at(1e9) == tour([here, here], 5.0).at(3.0) == here


def test_there_and_back_on_one_street_is_a_tour() -> None:
    way = street_tour(CITY, [(0, 0), (1, 0)], speed_mps=10.0)
    assert way.at(20.0).distance_m(CITY.position((1, 0))) < 1.0
    assert way.at(30.0).distance_m(CITY.position((0, 0))) == pytest.approx(100.0, abs=0.5)


@given(seeds)
def test_the_same_seed_gives_the_same_tour(seed: int) -> None:
    assert random_tour(CITY, Random(seed), 1.4) == random_tour(CITY, Random(seed), 1.4)


@given(seeds, times)
def test_whoever_is_on_a_tour_is_in_a_street(seed: int, time_s: float) -> None:
    east_m, north_m = metres(random_tour(CITY, Random(seed), 1.4).at(time_s))
    assert abs(east_m) <= CITY.width_m / 2 + 1e-6
    assert abs(north_m) <= CITY.height_m / 2 + 1e-6
    off = [
        abs((from_edge + CITY.block_m / 2) % CITY.block_m - CITY.block_m / 2)
        for from_edge in (east_m + CITY.width_m / 2, north_m + CITY.height_m / 2)
    ]
    assert min(off) < 1e-6


@given(seeds, times, st.floats(0.0, 60.0))
def test_nobody_gets_farther_than_their_speed_allows(
    seed: int, time_s: float, later: float
) -> None:
    way = random_tour(CITY, Random(seed), 1.4)
    assert way.at(time_s).distance_m(way.at(time_s + later)) <= 1.4 * later + 1e-3
